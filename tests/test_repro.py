"""The papers' experiments at toy size: each runs and reports; a second run has the same figures."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NEWER = ("rates", "open-questions", "halfspaces", "noise", "elastic")
DEMO = ROOT / "data" / "demo"


def first(path, n):
    return "\n\n".join(path.read_text(encoding="utf-8").strip().split("\n\n")[:n]) + "\n"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Folders with the layout of the real corpora, filled from the embedded one."""
    at = tmp_path_factory.mktemp("data")
    for name, parts in (("ewt", 60), ("slovene", 30), ("gothic", 30)):
        (at / name).mkdir()
        for part in ("train", "dev", "test"):
            text = first(DEMO / f"{part}.conllu", parts)
            (at / name / f"{part}.conllu").write_text(text, encoding="utf-8")
    files = {"train": "train", "testa": "dev", "testb": "test", "test": "test"}
    for name in ("conll2000", "conll2002-nl", "ocr"):
        (at / name).mkdir()
        for file, part in files.items():
            lines = first(DEMO / f"{part}.iob2", 60).splitlines()
            pairs = [line.split() for line in lines]
            if name == "ocr":
                text = [f"{p[2][0]}\tw={p[0].lower()}\tend={p[0][-1]}" if p else "" for p in pairs]
            else:
                text = [" ".join(p) if p else "" for p in pairs]
            suffix = "crfsuite" if name == "ocr" else "txt"
            (at / name / f"{file}.{suffix}").write_text("\n".join(text) + "\n", encoding="utf-8")
    return at


def repro(*arguments):
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "repro"), *map(str, arguments)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_same_figures_twice(data, tmp_path):
    pytest.importorskip("matplotlib")
    names = ("dca-ner", "egr", "sdca", "eg", "losses", "dca-parse", *NEWER)
    repro(*names, "page", "--size", "tiny", "--data", data, "--out", tmp_path / "one")
    repro(*names[:2], "--size", "tiny", "--data", data, "--out", tmp_path / "two")
    assert "egr.csv: the same" in repro("same", tmp_path / "one", tmp_path / "two")
    report = (tmp_path / "one.md").read_text(encoding="utf-8")
    assert "**shows**" in report
    assert str(data) not in report
    for name in names:
        assert f"`python scripts/repro {name}`, size tiny, seed 1, " in report
        assert list((tmp_path / "one").glob(f"{name}*.png"))


def test_a_missing_corpus_is_skipped_with_a_sentence(data, tmp_path):
    short = tmp_path / "short"
    shutil.copytree(data / "conll2000", short / "conll2000")
    said = repro("egr", "--size", "tiny", "--data", short, "--out", tmp_path / "out")
    assert "ocr: no train.crfsuite" in said
    assert "conll2000" in (tmp_path / "out" / "egr.csv").read_text(encoding="utf-8")
