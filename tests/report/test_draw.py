"""Drawings: reading, layout, SVG, the page in a real browser, text, and the command."""

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.processes import run
from turbotag.cli.main import main
from turbotag.errors import DataError
from turbotag.report.draw import Drawing, ascii, html, read_drawings, svg
from turbotag.report.draw_layout import Arc, set_levels, spread_ends
from turbotag.report.draw_svg import frame, picture
from turbotag.report.drawing import columns

NASTY = ["<script>alert(1)</script>", "&amp;", "\"quoted'", "]]>", "\x1b[31m", "-->", "</template>"]


def rows(text):
    """A drawing from lines of word, tag, head and label."""
    words, tags, heads, labels = zip(*map(str.split, text.strip().splitlines()), strict=True)
    return Drawing(list(words), list(tags), list(map(int, heads)), list(labels))


SHORT = rows("""
Mira PROPN 3 nsubj
Oake PROPN 1 flat
bought VERB 0 root
a DET 5 det
lamp NOUN 3 obj
today ADV 3 advmod
that PRON 9 nsubj
barely ADV 9 advmod
glows VERB 5 acl:relcl
. PUNCT 3 punct
""")
SHORT.entities = [(0, 1, "PER"), (5, 5, "DATE")]

LONG = rows("""
When SCONJ 5 mark
the DET 3 det
storm NOUN 5 nsubj
finally ADV 5 advmod
reached VERB 19 advcl
Port PROPN 5 obj
Aldenmoor PROPN 6 flat
on ADP 9 case
Tuesday PROPN 3 nmod
, PUNCT 5 punct
Captain PROPN 19 nsubj
Mirela PROPN 11 flat
Ostrand PROPN 11 flat
of ADP 17 case
the DET 17 det
Harbour PROPN 17 compound
Watch PROPN 11 nmod
had AUX 19 aux
ordered VERB 0 root
every DET 21 det
crew NOUN 19 obj
that PRON 24 nsubj
still ADV 24 advmod
worked VERB 21 acl:relcl
beneath ADP 28 case
the DET 28 det
old ADJ 28 amod
bridge NOUN 33 obl
to PART 30 mark
leave VERB 19 xcomp
its PRON 32 nmod:poss
tools NOUN 30 obj
behind ADV 30 advmod
, PUNCT 36 punct
which PRON 36 obj
surprised VERB 30 acl:relcl
nobody PRON 36 obj
who PRON 39 nsubj
remembered VERB 21 acl:relcl
it PRON 39 obj
. PUNCT 19 punct
""")


def against_gold():
    """SHORT with two wrong heads, a wrong label, and entities of all kinds."""
    gold = Drawing(SHORT.words, SHORT.tags, SHORT.heads[:], SHORT.labels[:])
    heads, labels = SHORT.heads[:], SHORT.labels[:]
    heads[5], heads[8], labels[1], labels[8] = 5, 3, "compound", "conj"
    found = [(0, 0, "PER"), (5, 5, "DATE"), (4, 4, "MISC")]
    chances = [0.95, 0.6, 1.0, 0.9, 0.8, 0.4, 0.99, 0.7, 0.3, 1.0]
    return Drawing(
        *(SHORT.words, SHORT.tags, heads, labels, chances, found),
        *(gold.heads, gold.labels, SHORT.entities),
        number=2,
    )


@st.composite
def trees(draw, longest=12):
    """A sentence with a random tree, crossing arcs and all."""
    n = draw(st.integers(1, longest))
    order = draw(st.permutations(range(1, n + 1)))
    heads = [0] * n
    for k, m in enumerate(order[1:], 1):
        heads[m - 1] = draw(st.sampled_from(order[:k]))
    words = draw(st.lists(st.text("ilmwAW灯é", min_size=1, max_size=9), min_size=n, max_size=n))
    labels = draw(st.lists(st.sampled_from(["det", "acl:relcl", "x"]), min_size=n, max_size=n))
    return Drawing(words, ["NOUN"] * n, heads, labels)


# ---- Reading -------------------------------------------------------------------------------------

CONLLU = """\
# text = Mira Oake sings in Velm .
1\tMira\t_\tPROPN\t_\t_\t3\tnsubj\t_\tNER=B-PER|HeadProb=0.9300
2\tOake\t_\tPROPN\t_\t_\t1\tflat\t_\tNER=I-PER|HeadProb=0.5000
3-4\tsings in\t_\t_\t_\t_\t_\t_\t_\t_
3\tsings\t_\tVERB\t_\t_\t0\troot\t_\tNER=O|HeadProb=1.0000
4\tin\t_\tADP\t_\t_\t5\tcase\t_\tNER=O|HeadProb=0.7000
5\tVelm\t_\tPROPN\t_\t_\t3\tobl\t_\tNER=S-LOC|HeadProb=0.8000

1\tYes\t_\tINTJ\t_\t_\t0\troot\t_\tNER=O
"""


@pytest.fixture
def file(tmp_path):
    def write(text, name="in.conllu"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def test_reading_conllu(file):
    first, second = read_drawings(file(CONLLU))
    assert first.words == ["Mira", "Oake", "sings", "in", "Velm"]
    assert first.heads == [3, 1, 0, 5, 3]
    assert first.labels[-1] == "obl"
    assert first.probabilities == [0.93, 0.5, 1.0, 0.7, 0.8]
    assert first.entities == [(0, 1, "PER"), (4, 4, "LOC")]
    assert (second.number, second.probabilities, second.entities) == (2, None, [])


def test_reading_conllx(file):
    """Probabilities are in PHEAD, unless that holds heads."""
    text = "1\tYes\t_\t_\tUH\t_\t0\tROOT\t{}\t_\n\n"
    scored, headed = (read_drawings(file(text.format(p), f"{p}.conll"))[0] for p in ("0.9000", "0"))
    assert (scored.probabilities, scored.tags) == ([0.9], ["UH"])
    assert headed.probabilities is None


def test_entities_without_trees(file):
    bare = re.sub(r"\t[0-9]\t[a-z]+\t_\t", "\t_\t_\t_\t", CONLLU)
    first, _ = read_drawings(file(bare))
    assert (first.heads, first.labels, first.probabilities) == (None, None, None)
    assert first.entities == [(0, 1, "PER"), (4, 4, "LOC")]
    assert "<path" not in svg(first)
    assert "PER" in ascii(first)
    other = read_drawings(file(bare.replace("NER=", "Entity=")))
    assert other[0].entities == first.entities
    assert read_drawings(file(bare.replace("NER=", "Entity=(e1-")))[0].entities == []


def test_refused_files(file):
    with pytest.raises(DataError, match="line 7: NER=LOC is not an IOB tag"):
        read_drawings(file(CONLLU.replace("S-LOC", "LOC")))
    with pytest.raises(DataError, match="line 2: head 9 is outside"):
        read_drawings(file(CONLLU.replace("_\t3\tnsubj", "_\t9\tnsubj")))
    with pytest.raises(DataError, match="is columns"):
        read_drawings(file("Mira B-PER\n", "a.iob2"))


def test_gold_files(file):
    path = file(CONLLU)
    gold = file(CONLLU.replace("3\tobl", "2\tnmod").replace("S-LOC", "S-ORG"), "gold.conllu")
    first, second = read_drawings(path, gold)
    assert (first.errors, second.errors) == (3, 0)  # an arc, a missed and a spurious entity
    assert first.missed == [(4, 4, "ORG")]
    assert first.spurious == [(4, 4, "LOC")]
    with pytest.raises(DataError, match=r"in.conllu, line 7: has 'Velm' where .*line 7 has 'Urd'"):
        read_drawings(path, file(CONLLU.replace("5\tVelm", "5\tUrd"), "gold.conllu"))
    untagged = file(re.sub(r"\tNER=.*", "\t_", CONLLU), "gold.conllu")
    assert read_drawings(path, untagged)[0].gold_entities is None
    bare = file(re.sub(r"\t[0-9]\t[a-z]+\t_\t.*", "\t_\t_\t_\t_", CONLLU), "gold.conllu")
    with pytest.raises(DataError, match="neither trees nor entities in common"):
        read_drawings(path, bare)


# ---- SVG -----------------------------------------------------------------------------------------


@given(trees())
def test_levels_and_ends(tree):
    arcs = [Arc(h - 1, m, "", "") for m, h in enumerate(tree.heads)]
    set_levels(arcs)
    spread_ends(arcs, len(arcs))
    for a, b in permutations((arc for arc in arcs if arc.head >= 0), 2):
        if a.covers(b):  # the outer one begins and ends outside
            assert a.left < b.left or a.ends[0] < b.ends[0]
            assert a.right > b.right or a.ends[1] > b.ends[1]
    for a, b in combinations(arcs, 2):
        if a.head >= 0 and b.head >= 0 and a.left < b.right and b.left < a.right:
            assert a.level != b.level
            assert not a.covers(b) or a.level > b.level
            assert not b.covers(a) or b.level > a.level
        elif a.head < 0 and b.covers(a):
            assert a.level > b.level


def boxes(markup, width, height):
    """The boxes behind the labels, which lie on their arcs and in the picture; x of the words."""
    root = ET.fromstring(f"<g>{markup}</g>")
    found = []
    for group in root.iter("g"):
        if group.get("class") == "arcs":
            y = float(re.match(r"translate\(.5 (.*)\)", group.get("transform"))[1])
            for arc in group.findall("g"):
                line, r = arc.find("path"), arc.find("rect")
                left, top, w, h = (float(r.get(k)) for k in ("x", "y", "width", "height"))
                found.append((left, y + top, left + w, y + top + h))
                ends = re.fullmatch(r"M(\d+) 0V.* (-?8) .*H(\d+)q.*", line.get("d"))
                if ends:  # the label stays clear of the round corners
                    a, b = sorted((int(ends[1]), int(ends[3]) + int(ends[2])))
                    assert a + 7 <= left < left + w <= b - 7
    for left, top, right, bottom in found:
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height
    words = next(g for g in root.iter("g") if g.get("class") == "words")
    return found, [float(t.get("x")) for t in words]


@given(trees())
def test_no_overlap(tree):
    labels, words = boxes(*picture(tree, {}))
    for a, b in combinations(labels, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    assert words == sorted(words)


def test_lean():
    twenty = Drawing(*(c[:20] for c in (LONG.words, LONG.tags, LONG.heads, LONG.labels)))
    twenty.heads = [h if h <= 20 else 19 for h in twenty.heads]
    assert len(frame(*picture(twenty, {}))) < 6000


def test_svg_is_escaped():
    d = Drawing(NASTY, NASTY, [0, 1, 1, 1, 1, 1, 1], NASTY, None, [(0, 1, "<b>&")])
    root = ET.fromstring(svg(d))
    texts = ["".join(t.itertext()) for t in root.iter("{http://www.w3.org/2000/svg}text")]
    shown = [w.replace("\x1b", "\ufffd") for w in NASTY]
    assert all(texts.count(w) >= 3 for w in shown)
    assert "<b>&" in texts
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))


def test_probabilities_are_line_widths():
    d = against_gold()
    found = re.findall(r'<title>([^<]*)</title><path stroke-width="([0-9.]+)"', svg(d))
    widths = {title: float(w) for title, w in found}
    assert len(widths) == len(d.words)
    assert widths["bought → Mira: nsubj 0.95"] > widths["bought → glows: conj 0.30"]


def test_gold_in_svg():
    markup, _, _ = picture(against_gold(), {"PER": 0, "DATE": 1, "MISC": 2})
    assert "UAS 80.0 · LAS 70.0 · entities: 1 right, 1 missed, 2 spurious" in markup
    arcs = re.findall(r'<g class="(wrong|missed)"><title>(?:gold: )?([^<]*?):', markup)
    assert sorted(arcs) == [
        ("missed", "bought → today"),
        ("missed", "lamp → glows"),
        ("wrong", "bought → glows"),
        ("wrong", "lamp → today"),
    ]
    assert '<tspan class="struck">compound</tspan> flat' in markup
    assert "✗ conj" in markup
    assert "✗ MISC" in markup


def test_stacked_and_legend():
    both = ET.fromstring(svg(SHORT, against_gold()))
    one, other = ET.fromstring(svg(SHORT)), ET.fromstring(svg(against_gold()))
    assert float(both.get("height")) > float(other.get("height"))
    texts = ["".join(t.itertext()) for t in one.iter() if t.get("class") == "score"]
    assert texts == ["DATE", "PER"]
    assert any(t.text and t.text.startswith("sentence 2 · UAS") for t in both.iter())


# ---- Text ----------------------------------------------------------------------------------------


def test_ascii():
    assert (
        ascii(SHORT)
        == """\
┌──►┌─   1  Mira    PROPN  nsubj      ┐ PER
│   └►   2  Oake    PROPN  flat       ┘
├─────   3  bought  VERB   root
│ ┌──►   4  a       DET    det
├►├───   5  lamp    NOUN   obj
├─│──►   6  today   ADV    advmod     ] DATE
│ │ ┌►   7  that    PRON   nsubj
│ │ ├►   8  barely  ADV    advmod
│ └►└─   9  glows   VERB   acl:relcl
└────►  10  .       PUNCT  punct"""
    )
    assert ascii(Drawing(["Yes"])) == "1  Yes"
    assert ascii(Drawing(["Yes"], heads=[0])) == "1  Yes  root"


def test_ascii_against_gold():
    lines = ascii(against_gold()).splitlines()
    assert lines[0].endswith("] PER ✗   ┐ PER missed")
    assert lines[1].endswith("✗ gold: flat")
    assert lines[5].endswith("✗ gold: 3 bought advmod")
    assert sum("✗ gold" in line for line in lines) == 3


def test_ascii_alignment():
    """Wide and joining characters; control characters do not reach the terminal."""
    words = ["東京タワー", "🎉", "e\u0301te\u0301", "\x1b[31mred", "ok"]
    lines = ascii(Drawing(words, ["X"] * 5, [2, 0, 2, 3, 3])).splitlines()
    assert len({columns(line.partition("X")[0]) for line in lines}) == 1
    assert "\x1b" not in "".join(lines)


@given(trees())
def test_ascii_shows_the_tree(tree):
    """The heads can be read off: from the arrow left to a line, along it to the word it leaves."""
    tree.words = ["w"] * len(tree.words)
    lines = [re.split(" +[0-9]+ +w ", f" {line} ")[0][1:] for line in ascii(tree).splitlines()]
    own = [max((k for k, c in enumerate(x) if c in "┌├└"), default=-1) for x in lines]
    own = [k if k > x.find("►") else -1 for k, x in zip(own, lines, strict=True)]
    heads = []
    for m, line in enumerate(lines):
        arrow = line.find("►")
        column = max((k for k in range(arrow) if line[k] in "┌├└"), default=-1)
        rows = [m]
        while column >= 0 and lines[rows[0]][column] != "┌":
            rows.insert(0, rows[0] - 1)
        while column >= 0 and lines[rows[-1]][column] != "└":
            rows.append(rows[-1] + 1)
        heads.append(next((r + 1 for r in rows if column >= 0 and own[r] == column), 0))
    assert heads == tree.heads


# ---- The page ------------------------------------------------------------------------------------

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--enable-logging=stderr",  # what the console says
]
NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)

# Clicks on the third sentence, and reports on what is seen then.
PROBE = """
<script>
const box = element => {
  const r = element.getBoundingClientRect();
  return [r.left, r.top, r.right, r.bottom];
};
const shown = () => [...document.querySelectorAll("li")].filter(i => i.querySelector("figure"));
const press = key => dispatchEvent(new KeyboardEvent("keydown", {key, cancelable: true}));
const seen = {first: shown().map(i => i.id)};
document.querySelectorAll("li button")[2].click();
seen.clicked = shown().map(i => i.id);
seen.hash = location.hash;
const figure = document.querySelector("figure");
seen.figure = box(figure.querySelector("svg"));
seen.display = getComputedStyle(figure).display;
for (const part of ["words", "arcs", "tags", "entities"])
  seen[part] = [...figure.querySelectorAll("." + part + " text")].map(box);
seen.backs = [...figure.querySelectorAll(".arcs rect")].map(box);
seen.scrolls = figure.scrollWidth > figure.clientWidth && getComputedStyle(figure).overflowX;
press("ArrowDown");
seen.down = shown().map(i => i.id);
press("ArrowUp");
only.click();
press("ArrowUp");
seen.errors = shown().map(i => i.id);
seen.listed = [...document.querySelectorAll("li")].filter(i => box(i)[3] > box(i)[1]).length;
document.querySelectorAll("li button")[1].click();
seen.closed = shown().length;
location.hash = "#s4";
addEventListener("hashchange", () => {
  seen.at = shown().map(i => i.id);
  seen.odd = [...document.querySelectorAll("figure .words text")].map(box);
  document.body.replaceChildren(JSON.stringify(seen));
});
</script>
"""
CATCH = "<script>addEventListener('error', e => console.error(e.message));</script>"


def browse(page, tmp_path):
    """The document after its scripts have run, and the lines of the console."""
    path = tmp_path / "page.html"
    path.write_text(page, encoding="utf-8")
    done = subprocess.run(
        [BROWSER, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", path.as_uri()],
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0
    console = [x for x in done.stderr.decode(errors="replace").splitlines() if "CONSOLE" in x]
    return done.stdout.decode(), console


def apart(boxes, gap=0.0):
    return all(
        a[2] + gap <= b[0] or b[2] + gap <= a[0] or a[3] <= b[1] or b[3] <= a[1]
        for a, b in combinations(boxes, 2)
    )


@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
@pytest.mark.parametrize("font", ["", "DejaVu Sans", "Liberation Sans"])
def test_page_in_a_browser(tmp_path, font):
    LONG.number, LONG.entities = 3, [(5, 6, "LOC"), (10, 12, "PER"), (38, 38, "ORGANISATION")]
    nasty = Drawing(
        [*NASTY, "東京タワー", "🎉🎉", "السلام", "WWWWMMMM", "x" * 80],
        *(["PROPN"] * 12, [0, *[1] * 11], ["acl:relcl"] * 12),
        number=4,
    )
    page = html([SHORT, against_gold(), LONG, nasty], "<b>title & 'quotes'</b>")
    style = f"<style>.drawing{{font-family:'{font}'}}</style></head>" if font else "</head>"
    page = page.replace("</head>", CATCH + style, 1)
    seen, console = browse(page.replace("</body>", PROBE + "</body>"), tmp_path)
    assert console == []
    seen = json.loads(re.search(r"<body>(.*)</body>", seen, re.S)[1])
    assert seen["first"] == ["s1"]
    assert seen["clicked"] == ["s3"]
    assert seen["hash"] == "#s3"
    assert seen["down"] == ["s4"]
    assert (seen["errors"], seen["listed"]) == (["s2"], 1)
    assert seen["closed"] == 0
    assert seen["at"] == ["s4"]
    assert (seen["display"], seen["scrolls"]) == ("block", "auto")
    left, top, right, bottom = seen["figure"]
    assert right - left > 1500
    n = len(LONG.words)
    assert [len(seen[part]) for part in ("words", "arcs", "tags")] == [n] * 3
    assert apart(seen["words"], 4)
    assert apart(seen["tags"], 2)
    assert apart(seen["arcs"])
    assert apart(seen["backs"])
    assert len(seen["odd"]) == len(nasty.words)
    assert apart(seen["odd"], 4)
    assert seen["odd"] == sorted(seen["odd"])  # right-to-left words keep their place
    for box in [x for part in ("words", "arcs", "tags", "entities") for x in seen[part]]:
        assert left < box[0] < box[2] < right
        assert top <= box[1] < box[3] <= bottom
    for text, back in zip(seen["arcs"], seen["backs"], strict=True):
        assert back[0] <= text[0] + 1
        assert text[2] <= back[2] + 1


def test_page_is_escaped_and_alone():
    page = html([Drawing(NASTY, NASTY, [0, 1, 1, 1, 1, 1, 1], NASTY)], "</title><script>")
    assert page.count("<script") == 1
    assert page.count("<template>") == page.count("</template>") == 1
    assert not re.search(r"https?:|url\(|@import|src=|href=", page)


def test_page_size():
    """Two thousand sentences stay below what a browser opens at once."""
    page = html([LONG] * 50)
    assert len(page) / 50 / len(LONG.words) < 330


# ---- The command ---------------------------------------------------------------------------------


def command(*arguments):
    with pytest.raises(SystemExit) as end:
        main(["draw", *map(str, arguments)])
    return end.value.code


def test_command(file, tmp_path, capsys):
    path, out, picture = file(CONLLU), tmp_path / "out.html", tmp_path / "out.svg"
    assert command(path, "-o", out) == 0
    assert out.read_text("utf-8").count("<template>") == 2
    assert capsys.readouterr() == ("", "")
    assert command(path, "-o", picture) == 0
    assert "the first of 2 sentences" in capsys.readouterr().err
    assert picture.read_text("utf-8").count('class="words"') == 1
    assert command(path, "--gold", path, "--sentences", "1-2", "-o", picture) == 0
    assert capsys.readouterr() == ("", "")
    assert picture.read_text("utf-8").count('class="words"') == 2
    damaged = file(CONLLU.replace("\t0\troot", "\t4\troot", 1))
    assert command(damaged, "-o", out) == 1
    assert "line 2: the sentence that starts here has no root" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.conllu", "out.html", "out.svg"]


def test_command_in_a_pipe():
    piped = run("draw", "-", "--ascii", "--sentences", "2", stdin=CONLLU)
    assert (piped.stdout, piped.stderr) == ("1  Yes  INTJ  root\n", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "either -o FILE or --ascii"),
        (["--ascii", "-o", "a.svg"], "either -o FILE or --ascii"),
        (["-o", "a.png"], ".html or .svg, not 'a.png'"),
        (["--ascii", "--sentences", "3-1"], "a list such as 1-5,8, not '3-1'"),
        (["--ascii", "--sentences", "1-9,2"], "--sentences is 1-9,2, but"),
    ],
)
def test_bad_usage(file, arguments, message, capsys):
    assert command(file(CONLLU), *arguments) == 2
    assert message in capsys.readouterr().err
