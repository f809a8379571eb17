"""Where the arcs and words of a drawn sentence go: heights, ends, spacing, places of labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from turbotag.report.drawing import columns

LABEL = 11  # size of the text on arcs
SLOT = 8  # between the ends of arcs at one word
PAD = 10  # from the label of an arc to its ends
MARGIN = 14


@dataclass
class Arc:
    """An arc between words numbered from 0; the root is -1, and its arc has only a lower end.

    label: its text; markup: the same as SVG; ends: x of the left and of the right end.
    """

    head: int
    modifier: int
    label: str
    title: str
    kind: str = ""
    markup: str = ""
    probability: float | None = None
    level: int = 0
    ends: list[int] = field(default_factory=lambda: [0, 0])

    def __post_init__(self) -> None:
        self.left, self.right = sorted(
            (self.modifier if self.head < 0 else self.head, self.modifier)
        )

    @property
    def width(self) -> float:
        return text_width(self.label, LABEL)

    def covers(self, other: Arc) -> bool:
        return self.left <= other.left and other.right <= self.right


def text_width(text: str, size: float) -> float:
    """About the width of a text, rather too wide than too narrow, because fonts differ."""
    return size * sum(map(_ems, text))


@lru_cache(maxsize=1 << 12)
def _ems(c: str) -> float:
    """The width of a character in a wide sans-serif font."""
    if c in "fijlrtIJ.,;:!|'`()[]{}/\\-\"* ·":
        return 0.4
    if c in "mwMW@%&—…✗":
        return 0.97
    return 0.7 if c.isupper() else 0.62 * columns(c)


def set_levels(arcs: list[Arc]) -> None:
    """Give each arc a level: above all arcs that it covers, and on the lowest level that no
    overlapping arc has. The arc of the root lies above all arcs that begin, end or pass at its
    word."""
    placed: list[Arc] = []
    for arc in sorted(arcs, key=lambda a: (a.head < 0, a.right - a.left, a.left)):
        if arc.head < 0:
            arc.level = 1 + max((p.level for p in placed if p.covers(arc)), default=0)
            continue
        near = [p for p in placed if p.left < arc.right and arc.left < p.right]
        arc.level = 1 + max((p.level for p in near if arc.covers(p)), default=0)
        taken = {p.level for p in near}
        while arc.level in taken:
            arc.level += 1
        placed.append(arc)


def spread_ends(arcs: list[Arc], n: int) -> list[int]:
    """Set the ends of arcs relative to the middle of their word, so that arcs do not cross there:
    of arcs to the left the lowest comes first, of arcs to the right the highest. Returns the width
    that the ends take at each of the n words."""
    at: list[list[tuple[int, int, Arc, int]]] = [[] for _ in range(n)]
    for arc in arcs:
        if arc.head < 0:
            at[arc.modifier].append((1, 0, arc, 0))
        else:
            at[arc.left].append((2, -arc.level, arc, 0))
            at[arc.right].append((0, arc.level, arc, 1))
    for ends in at:
        ends.sort(key=lambda end: end[:2])
        for k, (_, _, arc, side) in enumerate(ends):
            arc.ends[side] = SLOT * (2 * k - len(ends) + 1) // 2
    return [SLOT * len(ends) for ends in at]


def place_words(arcs: list[Arc], cells: list[float]) -> list[int]:
    """The middles of the words, each as far left as the widths of words and labels allow. The ends
    of the arcs are moved there."""
    closing: list[list[Arc]] = [[] for _ in cells]
    for arc in arcs:
        if arc.head >= 0:
            closing[arc.right].append(arc)
    x: list[int] = []
    for m, cell in enumerate(cells):
        at = x[-1] + (cells[m - 1] + cell) / 2 if x else MARGIN + cell / 2
        for arc in closing[m]:
            at = max(at, x[arc.left] + arc.ends[0] + arc.width + 2 * PAD - arc.ends[1])
        x.append(round(at))
    for arc in arcs:
        a, b = arc.ends
        arc.ends = [x[arc.left] + a, x[arc.right] + (a if arc.head < 0 else b)]
    return x


def label_middle(arc: Arc, arcs: list[Arc]) -> int:
    """The place of the label: the middle of the arc or, if lines of other arcs go through it there,
    the nearest place where none does."""
    a, b = arc.ends
    lines = [x for other in arcs if other.level > arc.level for x in other.ends if a < x < b]
    half, reach = arc.width / 2 + 4, arc.width / 2 + PAD
    middle = (a + b) / 2
    choices = [middle, *(x + side for x in lines for side in (-half, half))]
    free = [
        c for c in choices if a + reach <= c <= b - reach and all(abs(c - x) >= half for x in lines)
    ]
    best = min(free, key=lambda c: abs(c - middle), default=middle)
    return round(best)
