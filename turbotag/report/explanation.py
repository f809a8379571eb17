"""What an explanation says, and how it reads in a terminal."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

SHOWN = 10  # features, if nothing else is said


@dataclass(frozen=True)
class Feature:
    """A feature of one of the two structures.

    words: those of its part, numbered from 1 (a tag has one, a pair of tags two, an arc its head
    and its modifier, 0 is the root); part: the same as text; weight: what it adds to the difference
    of the scores, below 0 if it speaks for the other structure.
    """

    name: str
    words: tuple[int, ...]
    part: str
    weight: float


@dataclass(frozen=True)
class Change:
    """A word, numbered from 1, for which the two structures differ."""

    word: int
    form: str
    chosen: str
    other: str


@dataclass(frozen=True)
class Explanation:
    """Why a word has its tag, head or label.

    of: what is explained: upos, xpos, ner, ..., head, label or supertag; word, form: its number in
    the sentence, from 1, and the word itself; chosen, other: what the model gave, and what the best
    other structure has (of heads, the number of the word, 0 is the root); difference: of the scores
    of the two structures, which is the sum of the weights of all features; features: the heaviest
    first, each with its name, the words of its part (as numbers, and as text) and its weight;
    changes: all words for which the structures differ, each with what it has in both; alternatives:
    the most probable values, each with its probability; words: those of the sentence.
    """

    of: str
    word: int
    form: str
    chosen: str
    other: str
    difference: float
    features: list[Feature]
    changes: list[Change]
    alternatives: list[tuple[str, float]]
    words: list[str]

    def as_dict(self) -> dict[str, Any]:
        """The explanation as a dict, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return self.text()

    def text(self, top: int = SHOWN) -> str:
        """For a terminal: the `top` heaviest features, and the sum of the rest in one line."""
        shown, rest = self.features[:top], self.features[top:]
        chance = dict(self.alternatives)
        lines = [
            f"{self.of} of {self.word} {self.form}: {self._value(self.chosen, chance)}, "
            f"not {self._value(self.other, chance)}",
            f"{self.difference:+9.4f}  difference of the scores, the sum of",
        ]
        width = max((len(f.part) for f in shown), default=0)
        lines += [f"{f.weight:+9.4f}    {f.part:<{width}}  {f.name}" for f in shown]
        if rest:
            lines.append(f"{sum(f.weight for f in rest):+9.4f}    {len(rest)} more")
        for c in self.changes:
            if c.word != self.word:
                change = f"{self.name(c.chosen)} to {self.name(c.other)}"
                lines.append(f"           the other would change {c.word} {c.form} from {change}")
        return "\n".join(lines)

    def name(self, value: str) -> str:
        """A value as text: a head as its number and its word."""
        if self.of != "head":
            return value
        return f"{value} {self.words[int(value) - 1]}" if value != "0" else "0 (the root)"

    def _value(self, value: str, chance: dict[str, float]) -> str:
        return self.name(value) + (f" ({chance[value]:.4f})" if value in chance else "")


def summary(found: list[Explanation]) -> str:
    """A line for each explanation: what was chosen and the next best with their probabilities, by
    how much the scores differ, and the feature that speaks most for what was chosen."""
    rows = [("word", "", "of", "chosen", "", "other", "", "difference", "most for it")]
    for e in found:
        chance = dict(e.alternatives)
        most = max(e.features, key=lambda f: f.weight, default=None)
        rows.append(
            (
                *(str(e.word), e.form, e.of),
                *(e.name(e.chosen), f"{chance[e.chosen]:.4f}"),
                *(e.name(e.other), f"{chance[e.other]:.4f}"),
                f"{e.difference:.4f}",
                "" if most is None else f"{most.weight:+.4f} {most.name}",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines)
