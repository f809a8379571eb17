"""`turbotag cluster`: texts and vectors in, a file of words and paths out; bad input; Ctrl-C."""

import random
import signal
import subprocess
import sys
import time

import pytest

from tests.clustering.test_exchange import GRAMMAR
from turbotag.cli.main import main
from turbotag.clustering.files import (
    ClusterOptions,
    Text,
    cluster_text,
    cluster_vectors,
    read_vectors,
)
from turbotag.errors import DataError, UsageError
from turbotag.features.clusters import Clusters

WORDS = {
    "D": "the a this my your",
    "N": "boat house Oslo tree 1905",
    "V": "sees has left likes hit",
}
WORDS |= {"A": "red old good nice tall", "P": "in on with under by"}


def sentences(n=400):
    """Of the grammar, at random."""
    draw = random.Random(1)
    for _ in range(n):
        yield [draw.choice(WORDS[k].split()) for k in draw.choice(GRAMMAR)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("cluster")
    raw = "\n".join(" ".join(words).capitalize() + " ." for words in sentences())
    (found / "raw.txt").write_text(raw + "\n")
    rows = ["\n".join(f"{w}\tO" for w in words) for words in sentences()]
    (found / "words.iob2").write_text("\n\n".join(rows) + "\n")
    return found


def read_paths(path):
    lines = path.read_text().splitlines()
    return dict(line.split("\t") for line in lines)


def test_words_of_a_class_share_a_path(folder):
    out = folder / "out.tsv"
    bits = cluster_text([str(folder / "words.iob2")], str(out), ClusterOptions(5, min_count=1))
    found = read_paths(out)
    assert bits > 0.5
    assert "0000" in found  # digits are folded
    assert set(found) == {w.replace("1905", "0000") for k in WORDS.values() for w in k.split()}
    groups = [{found[w.replace("1905", "0000")] for w in WORDS[k].split()} for k in "DNVAP"]
    assert all(len(g) == 1 for g in groups)
    assert len(set.union(*groups)) == 5
    named = Clusters.read("en", str(out))
    assert named.numbers_of(["OSLO", "2024", "boat"]).min() > 0


def test_formats_files_and_case(folder):
    raw, rows = str(folder / "raw.txt"), str(folder / "words.iob2")
    one = Text([rows], None, False, 1)
    both = Text([rows, raw], None, True, 2)
    assert both.n_tokens == 2 * one.n_tokens + 400  # and the full stops
    assert "oslo" in both.words
    assert "Oslo" in one.words
    assert both.words[0] == "."
    assert one.tokens[0] == one.tokens[-1] == 0
    rare = Text([rows], None, False, 60)
    assert (rare.tokens == 1).sum() > 0
    assert len(rare.words) < len(one.words)


def test_the_same_bytes_for_any_number_of_threads(folder):
    written = []
    for threads in (1, 2):
        out = folder / f"t{threads}.tsv"
        cluster_text(
            [str(folder / "raw.txt")], str(out), ClusterOptions(4, min_count=1, threads=threads)
        )
        written.append(out.read_bytes())
    assert written[0] == written[1]


def test_vectors(folder):
    path, out = folder / "vectors.txt", folder / "v.tsv"
    lines = [f"w{i} {i % 2} {1 - i % 2} 0.0{i}" for i in range(20)]
    path.write_text("20 3\n" + "\n".join([*lines, "w1 9 9 9"]) + "\n")
    cluster_vectors(str(path), str(out), 1)
    found = read_paths(out)
    assert list(found) == [f"w{i}" for i in range(20)]
    assert all(found[f"w{i}"] == found[f"w{i % 2}"] for i in range(20))
    assert found["w0"] != found["w1"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a 1 2\nb 1\n", "v, line 2: expected 2 numbers as on the lines before, found 1"),
        ("a 1 2\nb 1 x\n", "v, line 2: expected a word and its numbers"),
        ("a 1 nan\n", "v, line 1: expected a word"),
        ("a\n", "v, line 1: expected a word"),
        ("", "v: holds no vectors"),
    ],
)
def test_wrong_vectors(tmp_path, text, said):
    path = tmp_path / "v"
    path.write_text(text)
    with pytest.raises(DataError) as e:
        read_vectors(str(path))
    assert said in str(e.value).replace(str(path), "v")


def test_what_cannot_be_clustered(tmp_path, folder, capsys):
    raw = str(folder / "raw.txt")
    empty = tmp_path / "empty"
    empty.write_text("\n")
    for wrong in ({"classes": 0}, {"classes": 10**6}, {"min_count": 0}, {"threads": 0}):
        with pytest.raises(UsageError, match="it must"):
            cluster_text([raw], str(tmp_path / "o"), ClusterOptions(**wrong))
    with pytest.raises(DataError, match="no word occurs 100000 times"):
        cluster_text([raw], str(tmp_path / "o"), ClusterOptions(min_count=100_000))
    with pytest.raises(DataError):
        cluster_text([str(empty)], str(tmp_path / "o"), ClusterOptions())
    for arguments in (
        ["--vectors", raw, raw, "-o", "o"],
        ["--vectors", raw, "-o", "o", "--min-count", "2"],
        [raw, "-o", "o", "--levels", "2"],
    ):
        with pytest.raises(SystemExit) as e:
            main(["cluster", *arguments])
        assert e.value.code == 2
    assert not (tmp_path / "o").exists()
    capsys.readouterr()


def test_ctrl_c_leaves_nothing(tmp_path):
    """In the middle of the work, and with an old file under the name, which stays."""
    text = tmp_path / "text"
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefgh", k=4)) for _ in range(60_000)]
    text.write_text("\n".join(" ".join(words[i : i + 9]) + " ." for i in range(0, 60_000, 9)))
    out = tmp_path / "out.tsv"
    out.write_text("old\t0\n")
    command = [sys.executable, "-m", "turbotag", "cluster", str(text), "-o", str(out)]
    process = subprocess.Popen([*command, "--classes", "900"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert any("different ones" in line for line in iter(process.stderr.readline, ""))
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    assert out.read_text() == "old\t0\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.tsv", "text"]
    process.stderr.close()
