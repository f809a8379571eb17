"""What explanations of tags and of trees share: the features in which two structures differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from turbotag.corpus.reader import Block
from turbotag.errors import UsageError
from turbotag.report.explanation import Change, Explanation, Feature

ALTERNATIVES = 5
# A feature: what it cancels by, its name, words and weight
Item = tuple[object, str, tuple[int, ...], float]


def forms_of(block: Block) -> list[str]:
    at = block.format.index("word")
    return [str(i + 1) for i in range(block.n_tokens)] if at is None else block.strings(at)


def difference(plus: Iterable[Item], minus: Iterable[Item]) -> list[tuple[str, tuple, float]]:
    """(name, words, weight) of the features of one structure, and of another with the signs turned,
    without the pairs that cancel."""
    ours, theirs = [*plus], [*minus]
    both = Counter(item[0] for item in ours) & Counter(item[0] for item in theirs)
    out = []
    for items, sign in ((ours, 1.0), (theirs, -1.0)):
        left = both.copy()
        for key, name, words, weight in items:
            if left[key]:
                left[key] -= 1
            elif weight:
                out.append((name, words, sign * weight))
    return out


def _ranked(chances: dict[str, float], *wanted: str) -> list[tuple[str, float]]:
    """The most probable values, and those wanted, most probable first."""
    order = sorted(chances, key=lambda v: -chances[v])
    return [(v, chances[v]) for n, v in enumerate(order) if n < ALTERNATIVES or v in wanted]


class Explainer:
    """Explains one kind of decision on the words of a sentence."""

    arrow = " "  # between the two words of a part

    def __init__(self, of: str, known: list[str], block: Block):
        """known: the values to decide between."""
        self.of, self.known, self.forms = of, known, forms_of(block)

    def values(self, t: int) -> list[str]:
        """The values to decide between at word t, counted from 0."""
        return self.known

    def explain(self, t: int, against: str | None) -> Iterator[Explanation]:
        """The explanation of word t, counted from 0; none if there is no other structure."""
        raise NotImplementedError

    def _same(self, chosen: str, against: str | None, t: int) -> None:
        if against == chosen:
            word = f"word {t + 1} {self.forms[t]}"
            raise UsageError(f"{chosen} is what the model gives to {word}: compare with another")

    def _made(
        self,
        t: int,
        chosen: list[str],
        other: list[str],
        found: list[tuple[str, tuple, float]],
        chances: dict[str, float],
    ) -> Explanation:
        """The explanation of word t, counted from 0; chosen and other: the values of all words in
        the two structures."""
        features = [Feature(name, at, self._part(at), weight) for name, at, weight in found]
        features.sort(key=lambda f: -abs(f.weight))
        changes = [
            Change(u + 1, self.forms[u], a, b)
            for u, (a, b) in enumerate(zip(chosen, other, strict=True))
            if a != b
        ]
        return Explanation(
            self.of,
            t + 1,
            self.forms[t],
            chosen[t],
            other[t],
            float(sum(f.weight for f in features)),
            features,
            changes,
            _ranked(chances, chosen[t], other[t]),
            self.forms,
        )

    def _part(self, words: tuple[int, ...]) -> str:
        n = len(self.forms)
        names = {0: "root", n + 1: "start", n + 2: "end"}
        joint = self.arrow if len(words) == 2 else " "
        return joint.join(names.get(w) or self.forms[w - 1] for w in words)
