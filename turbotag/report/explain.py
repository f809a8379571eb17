"""Why a model chose a tag, a head or a label: the features that speak for it, and their weights.

The score of a structure, a tag sequence or a tree, is a sum of weights of features. So is the
difference of the scores of the structure that the model chose and of the best one in which a word
has another tag or head: what both have in common cancels, and the rest is the explanation. Words
other than the one asked about may change too, as when a tag or an arc cannot stand alone.

Features are named from the sentence at hand, so that models need not keep names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from turbotag.corpus.reader import Block, Source, display_name, from_bytes
from turbotag.errors import UsageError, did_you_mean
from turbotag.features import compact
from turbotag.features.arc_names import Namer, PartNamer, Values, values
from turbotag.features.extract import Extractor
from turbotag.features.parts import ROLES
from turbotag.models.lemmas import Lemmatizer
from turbotag.models.model import BEST
from turbotag.models.parser import Parser
from turbotag.models.pipeline import Model, Pipeline
from turbotag.models.prediction import annotate, blocks_of, sentence_of, tag_name
from turbotag.models.scanner import Scanner
from turbotag.models.tagger import Tagger
from turbotag.report.heaviest import supertags
from turbotag.structures import parts

SHOWN = 10  # features, if nothing else is said
ALTERNATIVES = 5
MERGED = str.maketrans("SE", "BI")  # prefixes of IOBES that IOB2 writes as others


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
        """All of it for JSON."""
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
        """A value; a head with its word."""
        if self.of != "head":
            return value
        return f"{value} {self.words[int(value) - 1]}" if value != "0" else "0 (the root)"

    def _value(self, value: str, chance: dict[str, float]) -> str:
        return self.name(value) + (f" ({chance[value]:.4f})" if value in chance else "")


# A feature: what it cancels by, its name, words and weight
Item = tuple[object, str, tuple[int, ...], float]


def explain(
    model: Model | Pipeline,
    block: Block,
    sentence: int,
    words: Iterable[int] | None = None,
    against: str | None = None,
) -> list[Explanation]:
    """Explanations of what a model, or each stage of a pipeline, gives to words of a sentence.

    sentence: its number in the block, from 0; words: their numbers in it, from 1, by default all;
    against: a tag, a label or the number of a head to compare with in place of the next best: only
    what can have that value is explained. UsageError if nothing can, or if it is what was chosen.
    """
    one = sentence_of(block, sentence)
    wanted = [*range(1, one.n_tokens + 1)] if words is None else [*words]
    wrong = next((w for w in wanted if not 1 <= w <= one.n_tokens), None)
    if wrong is not None:
        raise UsageError(f"there is no word {wrong}: the sentence has words 1 to {one.n_tokens}")
    explainers = [
        e
        for stage, extractor, seen in _stages(model, one)
        for e in _explainers(stage, extractor, seen)
    ]
    known = dict.fromkeys(value for e in explainers for value in e.values)
    if against is not None and against not in known:
        raise UsageError(f"nothing here can be {against!r}{did_you_mean(against, known)}")
    return [
        found
        for word in wanted
        for e in explainers
        if against is None or against in e.values
        for found in e.explain(word - 1, against)
    ]


def find_sentence(
    model: Model | Pipeline,
    path: Source,
    number: int,
    format: str | None = None,
    columns: tuple[str, ...] | None = None,
    warn: Callable[[str], object] | None = None,
) -> tuple[Block, int]:
    """The block of a file, as a model reads it, with the sentence of a number from 1, and where it
    stands there; UsageError if there are fewer."""
    seen = 0
    for block in blocks_of(model, path, format, columns, warn):
        if number <= seen + block.n_sentences:
            return block, number - seen - 1
        seen += block.n_sentences
    raise UsageError(f"there is no sentence {number}: {display_name(path)} has {seen}")


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


def _stages(model: Model | Pipeline, block: Block) -> Iterator[tuple[Any, Any, Block]]:
    """Each model with its extractor and the block as it reads it. A block in which all stages have
    written is as good as what each of them read: none reads what a later one writes."""
    if not isinstance(model, Pipeline):
        yield model, model.extractor, block
        return
    extractors = model.extractor
    data = annotate(model, block, extractors, BEST)
    whole = from_bytes(data, block.path, block.format)
    for stage, extractor in zip(model.models, extractors, strict=True):
        yield stage, extractor, whole


def _explainers(model: Any, extractor: Any, block: Block) -> list[_Explainer]:
    """Those of the decisions that a model makes."""
    if isinstance(model, Tagger):
        return [_Tags(model, extractor, block)]
    return _of_tree(model, extractor, block) if isinstance(model, Parser) else []


def _forms(block: Block) -> list[str]:
    at = block.format.index("word")
    return [str(i + 1) for i in range(block.n_tokens)] if at is None else block.strings(at)


def _difference(plus: Iterable[Item], minus: Iterable[Item]) -> list[tuple[str, tuple, float]]:
    """(name, words, weight) of the features of one structure, and with their signs turned those of
    another, without pairs that cancel."""
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


class _Explainer:
    """What explains one kind of decision on the words of a sentence."""

    arrow = " "  # between the two words of a part

    def __init__(self, of: str, known: list[str], block: Block):
        """known: the values that there are to decide between."""
        self.of, self.values, self.forms = of, known, _forms(block)

    def explain(self, t: int, against: str | None) -> Iterator[Explanation]:
        """Of word t, counted from 0; nothing if there is no other structure."""
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
        """Of word t, counted from 0; chosen and other: the values of all words."""
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


# ---- Taggers -------------------------------------------------------------------------------------


class _Tags(_Explainer):
    """Tags: two sequences differ in features of words and in pairs (and triples) of tags."""

    def __init__(self, tagger: Tagger, extractor: Extractor, block: Block):
        self.written = _written(tagger, _forms(block))
        known = dict.fromkeys(value for values in self.written for value in values)
        super().__init__(tag_name(tagger), list(known), block)
        self.tagger, self.extractor, self.block = tagger, extractor, block
        self.scores = tagger.scores(block, extractor)
        self.best = tagger.viterbi(self.scores, block.sentences)
        self.posterior = tagger.posterior(self.scores, block.sentences)
        self.found = extractor.occurrences(block)

    def explain(self, t: int, against: str | None) -> Iterator[Explanation]:
        written = np.array(self.written[t])
        mine = self.written[t][self.best[t]]
        self._same(mine, against, t)
        allowed = written != mine if against is None else written == against
        other = self.tagger.best_with(self.scores, t, allowed)
        if other is None:
            return
        # Of labels that are written alike the most probable, as `predict --marginals` has it.
        chances: dict[str, float] = {}
        for value, chance in zip(self.written[t], self.posterior[t].tolist(), strict=True):
            chances[value] = max(chance, chances.get(value, 0.0))
        chances[mine] = float(self.posterior[t, self.best[t]])
        found = [*self._words(other), *_difference(self._tags(self.best), self._tags(other))]
        yield self._made(t, self._strings(self.best), self._strings(other), found, chances)

    def _strings(self, path: np.ndarray) -> list[str]:
        strings, ids = self.tagger.output_labels(path, self.block)
        return [strings[i] for i in ids.tolist()]

    def _words(self, other: np.ndarray) -> Iterator[tuple[str, tuple, float]]:
        """Features of the words whose tags differ."""
        found, rows = self.found, self.tagger.lookup(self.found.keys)
        at = np.flatnonzero((rows >= 0) & (self.best != other)[found.token])
        token = found.token[at]
        gain = self.tagger.row_weights(rows[at], self.best[token]).astype(np.float64)
        gain -= self.tagger.row_weights(rows[at], other[token])
        gain *= found.values[at]
        at, token, gain = at[gain != 0], token[gain != 0], gain[gain != 0]
        origins = self.extractor.origins(
            token, found.which[at], found.ids, self.block.sentences
        ).tolist()
        vocabulary = self.extractor.vocabulary()
        for origin, t, weight in zip(origins, token.tolist(), gain.tolist(), strict=True):
            yield self.extractor.describe(origin, vocabulary), (t + 1,), weight

    def _tags(self, path: np.ndarray) -> Iterator[Item]:
        """Pairs of neighbouring tags, and triples at order 2, in the tagger's own labels."""
        tagger = self.tagger
        for order in range(1, tagger.order + 1):
            weights = tagger.trans if order == 1 else tagger.triple
            for t in range(order, path.size):
                at = path[t - order : t + 1].tolist()
                name = " ".join(f"tag[{n - order}]={tagger.labels[k]}" for n, k in enumerate(at))
                words = tuple(range(t - order + 1, t + 2))
                yield (words, name), name, words, float(weights[tuple(at)])


def _written(tagger: Tagger, forms: list[str]) -> list[list[str]]:
    """Each label as it is written at each word: scripts as the lemmas that they make of the word;
    IOB2 files have fewer tags than IOBES models have labels."""
    labels = tagger.labels
    if isinstance(tagger, Lemmatizer):
        return [tagger.lemmas((form, script) for script in labels) for form in forms]
    if (tagger.header["scheme"], tagger.header["file_scheme"]) == ("iobes", "iob2"):
        labels = [x[:1].translate(MERGED) + x[1:] if x[1:2] == "-" else x for x in labels]
    return [labels] * len(forms)


# ---- Parsers -------------------------------------------------------------------------------------


Part = tuple[str, tuple[int, ...]]  # its kind, '' for arcs, and its words


class _Trees(_Explainer):
    """Heads: two trees differ in arcs, and at second order in parts of two arcs."""

    arrow = " → "

    def __init__(
        self, parser: Parser, scanner: Scanner, block: Block, matrix: np.ndarray, named: Values
    ):
        super().__init__("head", [str(h) for h in range(block.n_tokens + 1)], block)
        self.parser, self.scanner, self.matrix, self.named = parser, scanner, matrix, named
        self.best = parser.scored(matrix, scanner).decode("viterbi")[0]
        self.probabilities = parser.arc_probabilities(matrix, scanner)
        self.namer = Namer(scanner.stage["arc"], scanner.words)
        self.part_namers = {k: PartNamer(x, scanner.words) for k, x in scanner.parts.items()}

    def explain(self, t: int, against: str | None) -> Iterator[Explanation]:
        mine = int(self.best[t])
        self._same(str(mine), against, t)
        allowed = np.ones(len(self.forms) + 1, bool)
        if against is not None:
            allowed[:] = False
            allowed[int(against)] = True
        allowed[[mine, t + 1]] = False
        other = self.parser.other_tree(self.matrix, self.scanner, t + 1, allowed)
        if other is None:
            return
        ours, theirs = self._parts(self.best), self._parts(other)
        found = _difference(self._items(ours - theirs), self._items(theirs - ours))
        chances = {str(h): float(p) for h, p in enumerate(self.probabilities[:, t + 1])}
        yield self._made(t, _numbers(self.best), _numbers(other), found, chances)

    def _parts(self, heads: np.ndarray) -> Counter[Part]:
        """The parts of a tree; a word without children has the siblings START, END twice."""
        n = heads.size
        found: Counter[Part] = Counter(("", (int(h), m)) for m, h in enumerate(heads, 1))
        if not self.part_namers:
            return found
        p = parts.parts(np.arange(n + 1), heads, self.scanner.all_siblings)
        z = np.empty(parts.size(p))
        parts.indicator(heads, p, z)
        _, *seconds = parts.split(z, p)
        for kind, here, at in zip(ROLES, seconds, parts.positions(p), strict=True):
            if kind in self.part_namers:
                found.update((kind, tuple(words)) for words in at[here > 0].tolist())
        return found

    def _items(self, of: Counter[Part]) -> Iterator[Item]:
        for kind, words in sorted(of.elements()):
            if kind:
                named = self.part_namers[kind].features(self.matrix, self.named, words)
            else:
                head, modifier = words
                named = self.namer.features(self.matrix, self.named, head, modifier)
            keys = np.array([key for key, _ in named], np.uint64)
            weights = self.parser.tables["arc"].sums(keys, np.arange(1, keys.size + 1))
            for (key, name), weight in zip(named, weights.tolist(), strict=True):
                yield key, name, words, weight


class _Classes(_Explainer):
    """Labels or supertags: each word decides by itself, once the tree is known."""

    arrow = " → "

    def __init__(
        self,
        stage: str,
        parser: Parser,
        scanner: Scanner,
        block: Block,
        matrix: np.ndarray,
        named: Values,
        heads: np.ndarray | None,
    ):
        labels = parser.labels if heads is not None else parser.header["supertags"]
        super().__init__("label" if heads is not None else "supertag", labels, block)
        self.parser, self.matrix, self.named, self.heads = parser, matrix, named, heads
        tagger = parser.supertagger
        chosen = tagger.classifier if tagger and heads is None else parser.labeler
        assert chosen is not None
        self.table, self.weights = chosen
        self.namer = Namer(scanner.stage[stage], scanner.words)
        if heads is not None:
            self.scores = parser.label_scores(matrix, heads, scanner)
        elif tagger:
            self.scores = tagger.scores(matrix, scanner)
        self.best = self.scores.argmax(axis=1)
        self.probabilities = parser.label_probabilities(self.scores, parser.label_confidence)

    def explain(self, t: int, against: str | None) -> Iterator[Explanation]:
        mine = self.values[self.best[t]]
        self._same(mine, against, t)
        if len(self.values) == 1:
            return
        scores = self.scores[t].copy()
        scores[self.best[t]] = -np.inf
        other = int(scores.argmax()) if against is None else self.values.index(against)
        head = 0 if self.heads is None else int(self.heads[t])
        named = self.namer.features(self.matrix, self.named, head, t + 1, self.heads)
        rows = self.table.lookup(compact.fold(np.array([key for key, _ in named], np.uint64)))
        at = (t + 1,) if self.heads is None else (head, t + 1)
        found = [
            (name, at, float(self.weights[row, self.best[t]]) - float(self.weights[row, other]))
            for (_, name), row in zip(named, rows.tolist(), strict=True)
            if row >= 0
        ]
        chances = dict(zip(self.values, self.probabilities[t].tolist(), strict=True))
        strings = [self.values[k] for k in self.best.tolist()]
        others = [*strings[:t], self.values[other], *strings[t + 1 :]]
        yield self._made(t, strings, others, [f for f in found if f[2]], chances)


def _of_tree(parser: Parser, scanner: Scanner, block: Block) -> list[_Explainer]:
    """What explains the decisions of a parser, in the order in which it makes them."""
    matrix = parser.matrix(block, scanner)
    named = values(scanner.words, block, supertags(parser, scanner, matrix))
    given = parser, scanner, block, matrix, named
    trees = _Trees(*given)
    out: list[_Explainer] = [trees]
    if parser.supertagger:
        out.insert(0, _Classes("super", *given, None))
    if parser.labelled:
        out.append(_Classes("label", *given, trees.best))
    return out


def _numbers(heads: np.ndarray) -> list[str]:
    return [str(h) for h in heads.tolist()]
