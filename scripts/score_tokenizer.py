"""Score turbotag.corpus.text on a CoNLL-U file: F1 of tokens, words and sentences, and its speed.

The raw text is built from the file: sentences of a paragraph (`# newpar`, `# newdoc`) are joined by
one space, or by none after SpaceAfter=No, and paragraphs by a blank line. Spans are counted in
characters without white space, as in the CoNLL 2018 shared task; words of a multiword token match
if they are in the longest common subsequence of the forms.

    python scripts/score_tokenizer.py dev.conllu --errors 40
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from turbotag.corpus.text import to_conllu

Span = tuple[int, int]


@dataclass
class Corpus:
    """Tokens, their words and sentences by position among the characters that are not blank."""

    characters: str = ""
    raw: str = ""
    tokens: list[Span] = field(default_factory=list)
    words: list[list[str]] = field(default_factory=list)  # of each token
    sentences: list[Span] = field(default_factory=list)


def parse(text: str) -> Corpus:
    """A CoNLL-U file and the raw text that its `# text` comments and paragraphs stand for."""
    corpus = Corpus()
    pieces, characters = [], []
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
            solid = "".join(form.split())
            characters.append(solid)
            corpus.tokens.append((at, at + len(solid)))
            corpus.words.append([] if inside else [form])
            at += len(solid)
            gap = "" if "SpaceAfter=No" in misc else " "
    corpus.characters, corpus.raw = "".join(characters), "".join(pieces) + "\n"
    return corpus


def common(a: list[str], b: list[str]) -> int:
    """Length of the longest common subsequence."""
    row = [0] * (len(b) + 1)
    for x in a:
        corner = 0
        for j, y in enumerate(b, 1):
            corner, row[j] = row[j], corner + 1 if x == y else max(row[j], row[j - 1])
    return row[-1]


def regions(gold: Corpus, system: Corpus) -> list[tuple[range, range]]:
    """The smallest runs of tokens, in both, that begin and end at the same characters."""
    found = []
    i = j = 0
    while i < len(gold.tokens):
        first_i, first_j = i, j
        a, b = gold.tokens[i][1], system.tokens[j][1]
        while a != b:
            if a < b:
                i += 1
                a = gold.tokens[i][1]
            else:
                j += 1
                b = system.tokens[j][1]
        i, j = i + 1, j + 1
        found.append((range(first_i, i), range(first_j, j)))
    return found


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


def compare(gold: Corpus, system: Corpus) -> dict[str, tuple[int, int, int]]:
    """How many match, are gold, and were found."""
    out = {}
    for name, ours, theirs in (
        ("tokens", gold.tokens, system.tokens),
        ("sentences", gold.sentences, system.sentences),
    ):
        out[name] = len({*ours} & {*theirs}), len(ours), len(theirs)
    words = sum(map(len, gold.words)), sum(map(len, system.words))
    return out | {"words": (matching_words(gold, system), *words)}


def f1(matched: int, gold: int, system: int) -> str:
    precision, recall = 100 * matched / system, 100 * matched / gold
    mean = 200 * matched / (gold + system)
    return f"{mean:6.2f} F1 {precision:7.2f} precision {recall:7.2f} recall {gold:8} in the file"


def token_errors(gold: Corpus, system: Corpus) -> Counter[str]:
    """How often one run of tokens, with its words, stands where the file has another."""
    errors: Counter[str] = Counter()

    def show(corpus: Corpus, tokens: range) -> str:
        return " | ".join(" ".join(corpus.words[i]) for i in tokens)

    for a, b in regions(gold, system):
        x, y = show(gold, a), show(system, b)
        if x.lower() != y.lower():
            errors[f"{x}   <-   {y}"] += 1
    return errors


def sentence_errors(gold: Corpus, system: Corpus) -> Counter[str]:
    """The last token before, and the first after, each boundary that is missed or too many."""
    errors: Counter[str] = Counter()
    after = {end: i for i, (_, end) in enumerate(gold.tokens)}
    ours, theirs = ({end for _, end in c.sentences} for c in (system, gold))
    for kind, ends in (("missed", theirs - ours), ("too many", ours - theirs)):
        for end in ends:
            i = after.get(end)
            if i is not None:
                errors[f"{kind}: {_kind(gold, i)} || {_kind(gold, i + 1)}"] += 1
    return errors


def _kind(corpus: Corpus, i: int) -> str:
    begin, end = corpus.tokens[i]
    form = corpus.characters[begin:end]
    for name, pattern in (("Word", r"[A-Z]\w*"), ("word", r"[a-z]\w*"), ("0", r"\d.*")):
        if re.fullmatch(pattern, form):
            return name
    return form


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", help="CoNLL-U with # text comments")
    parser.add_argument("--errors", type=int, default=0, help="how many kinds of error to list")
    args = parser.parse_args()
    gold = parse(Path(args.file).read_text(encoding="utf-8"))
    rates = []
    for _ in range(2):  # the second time, every chunk of the text is remembered
        start = time.process_time()
        output = to_conllu(gold.raw)
        rates.append(len(gold.tokens) / (time.process_time() - start))
    system = parse(output.decode())
    if not gold.tokens or gold.characters != system.characters:
        sys.exit(f"{args.file}: its # text comments do not spell its tokens")
    for name, counts in compare(gold, system).items():
        print(f"{name:<10}", f1(*counts))
    print(f"{'speed':<10} {rates[0]:.0f} tokens/s, once more {rates[1]:.0f} tokens/s")
    if args.errors:
        for title, errors in (
            ("tokens: in the file <- found", token_errors(gold, system)),
            ("sentences", sentence_errors(gold, system)),
        ):
            print(f"\n{title}: {errors.total()}")
            for error, count in errors.most_common(args.errors):
                print(f"{count:6}  {error}")


if __name__ == "__main__":
    main()
