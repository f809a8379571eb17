"""The layout: a package imports from those before it, no modules import in a circle, columns have
names, and modules and lists of parameters stay short."""

import ast
import graphlib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "turbotag"
ORDER = [
    "errors",
    "compiling",
    "lean",
    "blas",
    "interrupts",
    "corpus",
    "kernels",
    "features",
    "losses",
    "structures",
    "optim",
    "distributed",
    "metrics",
    "storage",
    "models",
    "clustering",
    "training",
    "report",
    "documents",
    "api",
    "integrations",
    "cli",
]


def modules():
    """(name within the package, path) of every module."""
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        yield ".".join(p for p in parts if p != "__init__"), path


def imported(path, known, everywhere=True):
    """Modules of the package that a module imports, by `import x` and by `from x import y`; only
    those that are imported with it, unless `everywhere`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree) if everywhere else tree.body:
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            if name.split(".")[0] == "turbotag":
                inner = name.removeprefix("turbotag").lstrip(".")
                yield inner if inner in known else inner.rpartition(".")[0]


def test_packages_import_one_way():
    known = dict(modules())
    for name, path in known.items():
        package = name.split(".")[0]
        for other in imported(path, known) if package in ORDER else ():
            if other:
                at = ORDER.index(other.split(".")[0])
                assert at <= ORDER.index(package), f"{name} imports {other}"


def test_modules_are_all_placed():
    packages = {name.split(".")[0] for name, _ in modules()} - {"", "__main__"}
    assert packages <= set(ORDER)


def test_modules_import_no_circles():
    known = dict(modules())
    graph = {name: {*imported(path, known, False)} - {""} for name, path in known.items()}
    assert list(graphlib.TopologicalSorter(graph).static_order())  # CycleError names a circle


COLUMNS = {"column", "ids", "strings", "spans", "filled", "replace", "put"}  # methods that take one


def test_columns_have_names():
    """No column is a bare number, as in block.strings(3)."""
    for path in (ROOT / "turbotag").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                number = isinstance(node.args[0], ast.Constant) and type(node.args[0].value) is int
                where = f"{path}:{node.lineno}"
                assert not (node.func.attr in COLUMNS and number), where


MOST_LINES, MOST_PARAMETERS = 500, 8


def test_modules_have_one_subject():
    sizes = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in modules()}
    assert not {name: n for name, n in sizes.items() if n > MOST_LINES}


def parameters(function):
    """The names of what a function takes, but for self and cls."""
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return [arg.arg for arg in named if arg is not None and arg.arg not in ("self", "cls")]


def is_kernel(function):
    """Kernels take arrays, not objects that could hold several of them."""
    told = " ".join(ast.unparse(decorator) for decorator in function.decorator_list)
    return "njit(" in told or "kernel" in told.split()


def test_functions_take_few_parameters():
    found = {
        f"{name}.{node.name}": len(parameters(node))
        for name, path in modules()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_kernel(node)
    }
    assert len(found) > 1000
    assert not {name: n for name, n in found.items() if n > MOST_PARAMETERS}
