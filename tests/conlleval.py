"""An oracle for span scores: what conlleval.pl prints of a file whose last two columns are the gold
and the guessed tag, written from the script's documented behaviour.

It walks over the lines once and never builds spans: at each line it asks whether a chunk ends and
whether one begins, for both columns. A blank line is a boundary outside of all chunks and no token;
a -DOCSTART- line is a token like any other. Percentages are 100 * correct / all, printed with two
decimals, and F1 is made of these percentages, not of the counts. Tags are O, B and I with types;
the script has no S.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

Tag = tuple[str, str]  # prefix and type
OUTSIDE = ("O", "")


@dataclass
class Report:
    """Counts, and percentages as text."""

    tokens: int = 0
    right_tags: int = 0
    gold: Counter[str] = field(default_factory=Counter)
    guessed: Counter[str] = field(default_factory=Counter)
    correct: Counter[str] = field(default_factory=Counter)

    @property
    def accuracy(self) -> str:
        return f"{100 * self.right_tags / self.tokens:.2f}"

    def scores(self, kind: str | None = None) -> tuple[str, str, str]:
        """Precision, recall and F1 of one type, or of all."""
        counts = [self.correct, self.guessed, self.gold]
        correct, guessed, gold = (c.total() if kind is None else c[kind] for c in counts)
        precision = 100 * correct / guessed if guessed else 0.0
        recall = 100 * correct / gold if gold else 0.0
        both = precision + recall
        f1 = 2 * precision * recall / both if both else 0.0
        return f"{precision:.2f}", f"{recall:.2f}", f"{f1:.2f}"


def split_tag(text: str) -> Tag:
    prefix, _, kind = text.partition("-")
    return prefix, kind


def ends(before: Tag, now: Tag) -> bool:
    """A chunk that `before` is in is over at `now`."""
    return before[0] != "O" and (now[0] in ("O", "B") or before[1] != now[1])


def begins(before: Tag, now: Tag) -> bool:
    """`now` opens a chunk."""
    return now[0] != "O" and (now[0] == "B" or before[0] == "O" or before[1] != now[1])


def report(lines: list[str]) -> Report:
    """Score lines 'word ... gold guessed'; an empty line is a sentence boundary."""
    found = Report()
    together = False  # a gold and a guessed chunk of one type began together, and both go on
    last_gold = last_guessed = OUTSIDE
    for line in [*lines, ""]:
        fields = line.split()
        gold, guessed = map(split_tag, fields[-2:]) if fields else (OUTSIDE, OUTSIDE)
        gold_ends, guessed_ends = ends(last_gold, gold), ends(last_guessed, guessed)
        if together and gold_ends and guessed_ends:
            found.correct[last_gold[1]] += 1
        if gold_ends or guessed_ends:
            together = False
        opened = begins(last_gold, gold), begins(last_guessed, guessed)
        found.gold[gold[1]] += opened[0]
        found.guessed[guessed[1]] += opened[1]
        if all(opened) and gold[1] == guessed[1]:
            together = True
        found.tokens += bool(fields)
        found.right_tags += bool(fields) and gold == guessed
        last_gold, last_guessed = gold, guessed
    return found
