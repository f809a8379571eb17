"""F1 of tokens, words and sentences that are cut from raw text, as in the CoNLL 2018 shared task.

The raw text is built from a CoNLL-U file: sentences of a paragraph (`# newpar`, `# newdoc`) are
joined by one space, or by none after SpaceAfter=No, and paragraphs by a blank line. Spans are
counted in characters without white space; words of a multiword token match if they are in the
longest common subsequence of the forms.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

Span = tuple[int, int]


@dataclass
class Corpus:
    """Tokens, their words and sentences by position among the characters that are not blank."""

    raw: str = ""
    tokens: list[Span] = field(default_factory=list)
    words: list[list[str]] = field(default_factory=list)  # of each token
    sentences: list[Span] = field(default_factory=list)


def parse(text: str) -> Corpus:
    """A CoNLL-U file and the raw text that its `# text` comments and paragraphs stand for."""
    corpus, pieces = Corpus(), list[str]()
    gap, begin, at, inside = "", 0, 0, 0
    for line in text.split("\n"):
        if line.startswith(("# newpar", "# newdoc")):
            gap = "\n\n" if pieces else ""
        elif line.startswith("# text = "):
            pieces += [gap, line[9:]]
        elif not line:
            if at > begin:
                corpus.sentences.append((begin, at))
            begin = at
        elif line[0] != "#":
            number, form, *_, misc = line.split("\t")
            if "." in number:
                continue
            if inside:
                corpus.words[-1].append(form)
                inside -= 1
                continue
            if "-" in number:
                first, last = map(int, number.split("-"))
                inside = last - first + 1
            end = at + len("".join(form.split()))
            corpus.tokens.append((at, end))
            corpus.words.append([] if inside else [form])
            at, gap = end, "" if "SpaceAfter=No" in misc else " "
    corpus.raw = "".join(pieces) + "\n"
    return corpus


def common(a: list[str], b: list[str]) -> int:
    """Length of the longest common subsequence."""
    row = [0] * (len(b) + 1)
    for x in a:
        corner = 0
        for j, y in enumerate(b, 1):
            corner, row[j] = row[j], corner + 1 if x == y else max(row[j], row[j - 1])
    return row[-1]


def regions(gold: Corpus, system: Corpus) -> Iterator[tuple[range, range]]:
    """The smallest runs of tokens, in both, that begin and end at the same characters."""
    i = j = 0
    while i < len(gold.tokens):
        first_i, first_j = i, j
        while (a := gold.tokens[i][1]) != (b := system.tokens[j][1]):
            i, j = i + (a < b), j + (a > b)
        i, j = i + 1, j + 1
        yield range(first_i, i), range(first_j, j)


def matching_words(gold: Corpus, system: Corpus) -> int:
    matched = 0
    for a, b in regions(gold, system):
        x = [w.lower() for i in a for w in gold.words[i]]
        y = [w.lower() for j in b for w in system.words[j]]
        if len(x) > len(a) or len(y) > len(b):
            matched += common(x, y)
        elif len(a) == len(b) == 1:
            matched += 1
    return matched


def f1(gold: Corpus, system: Corpus) -> dict[str, float]:
    counts = {
        name: (len({*ours} & {*theirs}), len(ours) + len(theirs))
        for name, ours, theirs in (
            ("tokens", gold.tokens, system.tokens),
            ("sentences", gold.sentences, system.sentences),
        )
    }
    both = sum(map(len, gold.words)) + sum(map(len, system.words))
    counts["words"] = matching_words(gold, system), both
    return {name: 2 * matched / total for name, (matched, total) in counts.items()}
