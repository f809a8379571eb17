"""Pages that run: the commands and the Python code of README.md and docs/, and what they print.

A block of `console` has commands after `$`, each perhaps with what it prints. Blocks of `python`
are one program a page; a block of `output` after one is what it prints. A line of three dots stands
for any lines, three dots in a line for any words; numbers may differ by a tenth.
"""

import contextlib
import io
import os
import re
import shutil
from pathlib import Path

import pytest

import turbotag
from tests.cli.processes import run_shell

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
if not DOCS.is_dir():
    pytest.skip("docs/ is not here", allow_module_level=True)
README, TUTORIAL = ROOT / "README.md", DOCS / "tutorial.md"
BLOCK = re.compile(r"^```(console|python|output)\n(.*?)^```$", re.S | re.M)
NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e[-+]\d+)?)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
PAGES = [*ROOT.glob("*.md"), *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("howto/*.md"))]
NEEDS = {"scikit-learn": "sklearn", "spacy": "spacy"}  # pages on libraries that are extras
RUN = [page for page in PAGES if BLOCK.search(page.read_text(encoding="utf-8"))]


def name(page):
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    """A folder in which the tutorial has been done: the how-tos go on with its models."""
    return execute(TUTORIAL, tmp_path_factory.mktemp("workshop"))


def test_readme(tmp_path):
    """In a folder that has data/ and nothing else; the picture is what its command draws."""
    execute(README, tmp_path)
    assert (tmp_path / "tree.svg").read_text() == (DOCS / "tree.svg").read_text()


@pytest.mark.parametrize("page", [p for p in RUN if p not in (README, TUTORIAL)], ids=name)
def test_page(page, workshop, tmp_path):
    pytest.importorskip(NEEDS.get(page.stem, "turbotag"))
    execute(page, shutil.copytree(workshop, tmp_path / "workshop", symlinks=True))


def test_tutorial(workshop):
    assert TUTORIAL in RUN
    assert len(RUN) > 5


def execute(page, folder):
    if not (folder / "data").exists():
        (folder / "data").symlink_to(ROOT / "data")
    names, printed = {"__name__": "__main__"}, ""
    for kind, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "console":
            for command, expected in commands(text):
                done = run_shell(command, folder)
                assert done.returncode == 0, f"{command}\n{done.stdout}"
                if expected:
                    compare(expected, done.stdout, f"$ {command}")
        elif kind == "python":
            printed = python(text, names, page, folder)
        else:
            compare(text.splitlines(), printed, f"the Python code of {page.name}")
    return folder


def commands(block):
    """(command, lines that it prints) of a console block; a command may go on after a backslash,
    and has what stands between <<'END' and END."""
    found = []
    lines = iter(block.splitlines())
    for line in lines:
        if not line.startswith("$ "):
            found[-1][1].append(line)
            continue
        command = line[2:]
        while command.endswith("\\"):
            command = command[:-1] + next(lines)
        if "<<'END'" in command:
            while not command.endswith("\nEND"):
                command += "\n" + next(lines)
        found.append((command, []))
    return found


def python(code, names, page, folder):
    """What a block of a page's program prints."""
    printed, home = io.StringIO(), os.getcwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(page), "exec"), names)
    finally:
        os.chdir(home)
    return printed.getvalue()


def compare(expected, printed, source):
    found = f"{source} printed\n{printed}\nthe page has\n" + "\n".join(expected)
    assert agree(expected, printed.splitlines(), same_line), found


def agree(expected, found, same):
    """Whether two lists are the same, item by item, where "..." stands for any items."""
    if not expected:
        return not found
    if expected[0].strip() == "...":
        return any(agree(expected[1:], found[n:], same) for n in range(len(found) + 1))
    return bool(found) and same(expected[0], found[0]) and agree(expected[1:], found[1:], same)


def same_line(expected, found):
    return agree(expected.split(), found.split(), same_word)


def same_word(expected, found):
    if "..." in expected:
        return re.fullmatch(".*".join(map(re.escape, expected.split("..."))), found) is not None
    (*texts, numbers), (*others, values) = map(taken_apart, (expected, found))
    pairs = zip(numbers, values, strict=False)
    return texts == others and all(abs(a - b) <= 0.1 * abs(a) for a, b in pairs)


def taken_apart(word):
    """What stands around the numbers of a word, and the numbers."""
    return NUMBER.split(word)[0::2], [float(n) for n in NUMBER.findall(word)]


def test_outputs_are_compared():
    text = "$ a \\\n  b\none 1.00\n...\nlast\n$ cat <<'END'\nx\nEND\n"
    assert commands(text) == [("a   b", ["one 1.00", "...", "last"]), ("cat <<'END'\nx\nEND", [])]
    for expected, found, same in (
        ("one  1.00\n...\nlast", "one 1.05\nother\nlast", True),
        ("one ... 2\n...", "one or two 2.1", True),
        ("p=...|q=1", "p=0.1|q=1", True),
        ("one 1.00", "one 1.20", False),
        ("one 1.00", "two 1.00", False),
        ("p=...|q=1", "p=0.1|r=1", False),
        ("one", "one\ntwo", False),
        ("one\ntwo", "one", False),
    ):
        assert agree(expected.splitlines(), found.splitlines(), same_line) == same


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        assert target.exists(), f"{name(page)}: {link}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.M)
            slugs = {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}
            assert anchor in slugs, f"{name(page)}: {link}"


def test_the_reference_is_that_of_the_docstrings(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "release"))
    import reference

    assert set(turbotag.__all__) <= set(reference.ORDER)
    page = reference.OUT.read_text(encoding="utf-8")
    assert page == reference.reference(), (
        "python scripts/release/reference.py writes the page again"
    )
