"""Names of features of arcs and second-order parts: one name for one key, in real sentences."""

import numpy as np
import pytest

from tests.cli.processes import DEMO
from turbotag.corpus.reader import read
from turbotag.corpus.trees import read_heads
from turbotag.features import templates
from turbotag.features.arc_names import Namer, PartNamer, values
from turbotag.features.arcs import ArcExtractor, Words, parse
from turbotag.features.parts import PartExtractor
from turbotag.structures import parts, pruning

OWN = """
h:word m:word dir|dist
b:upos h:upos m:upos dir
b:upos
set:upos h:upos
count:VERB m:upos
m:upos[-1] h:suffix2[1] dist
"""
ODD = (
    b"1\ta\t_\tX\t_\t_\t2\tx\t_\t_\n2\tb\t_\t_\t_\t_\t0\tx\t_\t_\n"
    b"3\tc\t_\tX\t_\t_\t2\tx\t_\t_\n4\td\t_\tVERB\t_\t_\t1\tx\t_\t_\n\n"
)


@pytest.mark.parametrize(
    ("text", "in_tree"),
    [(OWN, False), (templates.load("parse"), False), (templates.load("label"), True)],
)
def test_one_name_for_one_key(text, in_tree):
    """The keys are those that the parser computes, and the names tell them apart."""
    block = read(
        b"\n\n".join((DEMO / "dev.conllu").read_bytes().split(b"\n\n")[:4]) + b"\n\n" + ODD
    )
    parsed = parse(text, "templates")
    words = Words(parsed)
    extractor = ArcExtractor(parsed, words)
    namer, matrix = Namer(extractor, words), words.matrix(block)
    strings, heads = values(words, block, []), read_heads(block)
    name_of, key_of = {}, {}
    cuts = block.sentences.tolist()
    for a, b in zip(cuts, cuts[1:], strict=False):
        here = {source: column[a:b] for source, column in strings.items()}
        n = b - a
        for m in range(1, n + 1):
            for h in [int(heads[a + m - 1])] if in_tree else [x for x in range(n + 1) if x != m]:
                tree = heads[a:b] if in_tree else None
                named = namer.features(matrix[a:b], here, h, m, tree)
                at = (np.arange(n + 1) >= m).astype(np.int64)
                keys, _ = extractor.keys(matrix[a:b], at, np.array([h], np.int32), tree)
                assert sorted(key for key, _ in named) == sorted(keys.tolist())
                for key, name in named:
                    assert name_of.setdefault(key, name) == name
                    assert key_of.setdefault(name, key) == key
    assert len(name_of) > 200


def test_names_by_hand():
    block = read(ODD)
    parsed = parse(OWN, "templates")
    words = Words(parsed)
    namer = Namer(ArcExtractor(parsed, words), words)
    found = namer.features(words.matrix(block), values(words, block, []), 1, 4)
    assert {name for _, name in found} == {
        "h:word=a m:word=d dir=left",
        "h:word=a m:word=d dist=left 3",
        "h:upos=X m:upos=VERB b:upos=_ dir=left",
        "h:upos=X m:upos=VERB b:upos=X dir=left",
        "b:upos=_",
        "b:upos=X",
        "h:upos=X set:upos={X _}",
        "m:upos=VERB count:VERB=0",
    }
    root = {name for _, name in namer.features(words.matrix(block), values(words, block, []), 0, 1)}
    assert "h:word=<root> m:word=a dir=root" in root
    assert "h:upos=<root> set:upos={}" in root


@pytest.mark.parametrize("kind", ["siblings", "grandparents", "all-siblings"])
def test_one_name_for_one_key_of_parts(kind):
    block = read(b"\n\n".join((DEMO / "dev.conllu").read_bytes().split(b"\n\n")[:2]) + b"\n\n")
    parsed = parse(templates.load(kind), "templates")
    words = Words(parsed)
    extractor = PartExtractor(parsed, words, kind)
    namer, matrix, strings = (
        PartNamer(extractor, words),
        words.matrix(block),
        values(words, block, []),
    )
    name_of, key_of = {}, {}
    for a, b in zip(block.sentences.tolist(), block.sentences[1:].tolist(), strict=False):
        here = {source: column[a:b] for source, column in strings.items()}
        p = parts.parts(*pruning.full(b - a), True)
        every = dict(
            zip(("siblings", "grandparents", "all-siblings"), parts.positions(p), strict=True)
        )
        for part in every[kind][::7].tolist():
            named = namer.features(matrix[a:b], here, tuple(part))
            keys, _ = extractor.keys(matrix[a:b], np.array([part]))
            assert [key for key, _ in named] == keys.tolist()
            for key, name in named:
                assert name_of.setdefault(key, name) == name
                assert key_of.setdefault(name, key) == key
    assert len(name_of) > 200


def test_more_values_than_bits():
    """The 64th value between two words, and those after it, share a feature with the last one."""
    lines = [f"{i}\tw{i}\t_\tX\t_\t_\t{i - 1}\tx\t_\t_" for i in range(1, 81)]
    block = read(("\n".join(lines) + "\n\n").encode())
    parsed = parse("b:word\nset:word", "templates")
    words = Words(parsed)
    extractor = ArcExtractor(parsed, words)
    matrix, strings = words.matrix(block), values(words, block, [])
    for head, modifier, last in ((1, 80, "w80"), (1, 60, "w59"), (62, 70, "w80")):
        named = Namer(extractor, words).features(matrix, strings, head, modifier)
        at = (np.arange(81) >= modifier).astype(np.int64)
        keys, _ = extractor.keys(matrix, at, np.array([head], np.int32))
        assert sorted(key for key, _ in named) == sorted(keys.tolist())
        assert named[-2][1] == f"b:word={last}"
