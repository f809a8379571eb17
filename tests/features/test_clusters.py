"""Word clusters: files, the compact table, and what templates read of them."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.features.test_features import block, names
from turbotag.errors import DataError, UsageError
from turbotag.features import arcs, templates
from turbotag.features.clusters import Clusters
from turbotag.features.extract import Extractor
from turbotag.features.gazetteer import Gazetteer
from turbotag.features.kinds import kept_resources, load_resources, resource_arrays, resource_names

WORDS = {"Ada": "0010", "ada": "0011", "oslo": "01", "1900": "100", "0000": "101", "in": "0011"}


def clusters(name="en", words=WORDS):
    return Clusters.of(name, list(words), list(words.values()))


def paths(found, words):
    return [found.values("cluster")[n] for n in found.numbers_of(words).tolist()]


def test_words_are_found_as_they_are_in_lower_case_and_with_digits_folded():
    asked = ["Ada", "ada", "ADA", "Oslo", "1900", "1987", "OSLO", "in"]
    assert paths(clusters(), asked) == ["0010", "0011", "0011", "01", "100", "101", "01", "0011"]
    assert paths(clusters(), []) == []


@given(st.dictionaries(st.text(min_size=1), st.integers(0, 3000), min_size=1), st.data())
def test_every_listed_word_has_its_path_before_and_after_storing(listed, data):
    words = {word: f"1{number:b}" for word, number in listed.items()}
    found = clusters(words=words)
    again = Clusters.load("en", found.arrays())
    for each in (found, again, pickle.loads(pickle.dumps(found))):
        if each.cased:
            assert paths(each, list(words)) == list(words.values())
        assert each._lookup(list(words)).min() > 0
    assert again.same(found)


def test_other_words_are_hardly_ever_taken_for_listed_ones():
    listed = {f"word{n}": f"{n % 4096:012b}" for n in range(20_000)}
    found = clusters(words=listed)
    assert paths(found, list(listed)) == list(listed.values())
    taken = found.numbers_of([f"other-{'x' * (n % 7)}{n:x}g" for n in range(20_000)]) > 0
    assert taken.mean() < 0.015
    assert sum(a.nbytes for a in found.arrays().values()) < 4 * len(listed)


def test_templates_read_prefixes_of_paths(tmp_path):
    b = block(tmp_path, "Ada O\nsings O\nin O\nOslo O\n")
    text = "cluster[0]\ncluster3[0]\ncluster2[-1] cluster[0]\ncluster9[1]\n"
    got = names(b, Extractor(templates.parse(text, "t"), [clusters()]))
    assert got[0] == [
        "cluster:en[0]=0010",
        "cluster3:en[0]=001",
        "cluster2:en[-1]=<boundary> cluster:en[0]=0010",
    ]
    assert got[1] == ["cluster9:en[1]=0011"]
    assert got[3] == [
        "cluster:en[0]=01",
        "cluster3:en[0]=01",
        "cluster2:en[-1]=00 cluster:en[0]=01",
        "cluster9:en[1]=<boundary>",
    ]


def test_a_template_stands_for_all_resources_of_its_kinds(tmp_path):
    b = block(tmp_path, "Oslo O\n")
    both = [clusters("a"), clusters("b"), Gazetteer.of("g", ["oslo"])]
    text = "cluster[0] gaz[0]\ncluster2[0] cluster[0]\ncluster2:b[0]"
    assert names(b, Extractor(templates.parse(text, "t"), both)) == [[
        "cluster:a[0]=01 gaz:g[0]=U",
        "cluster:b[0]=01 gaz:g[0]=U",
        "cluster2:a[0]=01 cluster:a[0]=01",
        "cluster2:b[0]=01 cluster:b[0]=01",
        "cluster2:b[0]=01",
    ]]  # fmt: skip
    none = Extractor(templates.parse("cluster[0]\nword[0]", "t"))
    assert len(none.templates) == 1
    with pytest.raises(DataError, match="the templates need clusters 'c', which is not given"):
        Extractor(templates.parse("cluster4:c[0]", "t"), both)


def test_arcs_read_clusters_and_gazetteers(tmp_path):
    row = "{}\t{}\t_\t_\t_\t_\t0\troot\t_\t_\n"
    b = block(tmp_path, row.format(1, "Ada") + row.format(2, "in") + row.format(3, "Oslo"))
    given = [clusters(), Gazetteer.of("g", ["oslo"])]
    parsed = arcs.parse("h:cluster2 m:cluster dir\nm:gaz\nm:cluster3:en[-1]", "t")
    words = arcs.Words(parsed, resources=given)
    expanded = words.expanded(parsed)
    assert [str(t) for t in expanded] == [
        "h:cluster2:en[0] m:cluster:en[0] dir", "m:gaz:g[0]", "m:cluster3:en[-1]"
    ]  # fmt: skip
    matrix = words.matrix(b)
    keys, ends = arcs.ArcExtractor(parsed, words).keys(
        matrix, np.array([0, 1, 2, 3]), np.array([2, 1, 1], np.int32)
    )
    assert ends.tolist() == [2, 4, 7]  # Ada: both but no gazetteer; Oslo: all three
    assert np.unique(keys).size == 6  # cluster3[-1] of `in` and Oslo is the same
    again = arcs.parse("\n".join(map(str, expanded)), "t")
    assert words.expanded(again) == expanded
    for wrong in ("b:cluster4 h:upos", "set:gaz h:upos", "count:cluster"):
        with pytest.raises(DataError, match="not part of an arc template"):
            arcs.parse(wrong, "t")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "f: holds no words"),
        ("a\t01\nb 01\n", "f, line 2: expected a word, a tab and a path of 0 and 1"),
        ("a\t01\n\t01\n", "f, line 2: expected a word"),
        ("a\t012\n", "f, line 1: expected a word"),
        ("a\t\n", "f, line 1: expected a word"),
        ("a\t01\n\na\t011\n", "f, line 3: 'a' has another path above"),
        (f"a\t{64 * '1'}\n", "f, line 1: a path has at most 63 bits"),
        (b"\xff\t01\n", "f: cannot be read as clusters"),
    ],
)
def test_a_wrong_file_is_told_by_its_line(tmp_path, text, said):
    path = tmp_path / "f"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError) as e:
        Clusters.read("en", str(path))
    assert said in str(e.value).replace(str(path), "f")


def test_files_may_have_marks_counts_and_empty_lines(tmp_path):
    path = tmp_path / "f"
    path.write_bytes("\ufeffa b\t01\t17\r\n\r\nc\t1\nc\t1\n".encode())
    assert paths(Clusters.read("en", str(path)), ["a b", "c"]) == ["01", "1"]


def test_resources_are_stored_with_a_model():
    given = [
        Gazetteer.of("g", ["New York"]),
        clusters(),
        clusters("long", {"a": 30 * "01", "b": "1"}),
    ]
    header, arrays = resource_names(given), resource_arrays(given)
    assert header == {"gazetteers": ["g"], "clusters": ["en", "long"]}
    again = load_resources(header, arrays)
    assert [r.name for r in again] == ["g", "en", "long"]
    assert paths(again[2], ["a"]) == [30 * "01"]
    for name, wrong in (
        ("clusters.en.slots", arrays["clusters.en.slots"][:-1]),
        ("clusters.en.paths", arrays["clusters.en.paths"][1:]),
        ("clusters.en.paths", np.full_like(arrays["clusters.en.paths"], 1)),
        ("clusters.en.shape", np.array([0, 5, 0, 0])),
        ("clusters.en.shape", np.array([1 << 40, 5, 0, 0])),
    ):
        with pytest.raises(ValueError, match="clusters"):
            load_resources(header, arrays | {name: wrong})


def test_clusters_of_a_model_to_go_on_from_cannot_be_others():
    old = [clusters(), Gazetteer.of("g", ["Oslo"])]
    new = [clusters(), Gazetteer.of("g", ["Rome"]), clusters("more", {"a": "1"})]
    assert [r.name for r in kept_resources(old, new)] == ["g", "en", "more"]
    with pytest.raises(UsageError, match="--init has other clusters 'en'"):
        kept_resources(old, [clusters(words={"a": "1"})])
