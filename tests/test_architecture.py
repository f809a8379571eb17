"""One-way imports: a package imports from those before it, and no modules import in a circle."""

import ast
import graphlib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "turbotag"
ORDER = [
    "errors",
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
