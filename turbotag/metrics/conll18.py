"""Everything that CoNLL-U holds, scored from raw text as in the CoNLL 2018 shared task.

The two files may differ in their tokens, words and sentences, but have the same characters other
than blanks (category Zs). Tokens and sentences are right if both of their ends are. Words are
aligned, and a score counts the aligned words that have the same value; precision is taken of all
predicted words, recall of all gold words.

Words that are tokens are aligned if their ends are the same. Where a token of either file is a
multiword token, the ends of its words are unknown: there, in the smallest stretch of text that
cuts no multiword token of either file, words are aligned by a longest common subsequence of their
forms in lower case.

    UFeats   features of FEATS that are universal, in any order
    AllTags  UPOS, XPOS and UFeats
    Lemmas   any lemma is right where the gold file has none (_)
    UAS      the head is aligned to the gold head; LAS: the relation, without its subtype, is too
    CLAS     LAS of words with a content relation
    MLAS     CLAS, and UPOS and UFeats; and the function words below have the same UPOS, UFeats and
             relation
    BLEX     CLAS, and the lemma

The rules and the lists of features and relations are those of conll18_ud_eval.py 1.2, with one
exception: a sentence with more than one root is scored, where the script stops.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from turbotag.corpus.formats import Conll
from turbotag.corpus.reader import Block
from turbotag.corpus.surface import read_surface
from turbotag.corpus.trees import read_heads
from turbotag.errors import DataError
from turbotag.metrics.tags import Counts

CONVENTION = "conll18 (words aligned by characters; universal features; labels without subtypes)"
_CONTENT = (
    "acl advcl advmod amod appos ccomp compound conj csubj dep discourse dislocated expl fixed "
    "flat goeswith iobj list nmod nsubj nummod obj obl orphan parataxis reparandum root vocative "
    "xcomp"
)
_FUNCTION = "aux case cc clf cop det mark"
_UNIVERSAL = (
    "Abbr Animacy Aspect Case Definite Degree Evident Foreign Gender Mood NumType Number Person "
    "Polarity Polite Poss PronType Reflex Tense VerbForm Voice"
)
CONTENT, FUNCTION, UNIVERSAL = (frozenset(s.split()) for s in (_CONTENT, _FUNCTION, _UNIVERSAL))
SHOWN = 20  # characters of two files where they begin to differ

# What each score reads beside the words.
TREE = Conll.HEAD, Conll.DEPREL
READS: dict[str, tuple[Conll, ...]] = {
    "Tokens": (),
    "Sentences": (),
    "Words": (),
    "UPOS": (Conll.UPOS,),
    "XPOS": (Conll.XPOS,),
    "UFeats": (Conll.FEATS,),
    "AllTags": (Conll.UPOS, Conll.XPOS, Conll.FEATS),
    "Lemmas": (Conll.LEMMA,),
    "UAS": (Conll.HEAD,),
    "LAS": TREE,
    "CLAS": TREE,
    "MLAS": (*TREE, Conll.UPOS, Conll.FEATS),
    "BLEX": (*TREE, Conll.LEMMA),
}


@dataclass
class Aligned(Counts):
    """Gold, predicted and right items; aligned: how many of the gold ones have a counterpart."""

    aligned: int | None = None

    @property
    def f1(self) -> float:
        """2c / (g + p), which the script rounds to print, and not the mean of rounded values."""
        both = self.gold + self.predicted
        return 2 * self.correct / both if both else 0.0

    @property
    def percentages(self) -> tuple[float, float, float]:
        return 100 * self.precision, 100 * self.recall, 100 * self.f1

    @property
    def accuracy(self) -> float | None:
        """The share of the aligned items that are right."""
        return self.correct / self.aligned if self.aligned else None

    def as_dict(self) -> dict[str, float]:
        accuracy = self.accuracy
        return super().as_dict() | ({} if accuracy is None else {"aligned_accuracy": accuracy})


@dataclass
class Conll18Score:
    """Scores by the names of READS; missing: those whose columns a file does not fill."""

    scores: dict[str, Aligned]
    missing: list[str]
    convention: str = CONVENTION

    @property
    def measure(self) -> str:
        """LAS or, without trees, the last of the scores."""
        return "LAS" if "LAS" in self.scores else list(self.scores)[-1]

    @property
    def main(self) -> float:
        """The one number that models are compared by."""
        return self.scores[self.measure].f1

    def as_dict(self) -> dict[str, object]:
        return {
            "measure": self.measure,
            "convention": self.convention,
            "scores": {name: c.as_dict() for name, c in self.scores.items()},
            "missing": self.missing,
        }


class Treebank:
    """What is compared of one file.

    cuts: (tokens + 1,) where tokens begin among the characters; sentences: the same for sentences;
    token: (words,) the number of the token that each word belongs to.
    """

    def __init__(self, block: Block):
        self.block = block
        surface = read_surface(block)
        bare = [_without_blanks(form) for form in surface.forms]
        if not all(bare):
            t = int(surface.words[bare.index("")])
            raise block.error("the form is only blanks, which are not counted", t)
        self.characters = "".join(bare)
        self.cuts = np.cumsum([0, *map(len, bare)])
        self.sentences = self.cuts[surface.sentences]
        sizes = np.diff(surface.words)
        self.token = np.repeat(np.arange(sizes.size), sizes)
        self.multiword = surface.multiword[self.token]
        inner = block.strings(Conll.WORD)
        self.forms = [
            (inner[w] if multiword else bare[k]).lower()
            for w, (k, multiword) in enumerate(
                zip(self.token.tolist(), self.multiword.tolist(), strict=True)
            )
        ]

    @property
    def n_words(self) -> int:
        return self.token.size

    def filled(self, column: Conll) -> bool:
        """Whether any word has a value in a column."""
        return bool(self.block.filled(column).any())

    @cached_property
    def heads(self) -> np.ndarray:
        """(words,) the number of the head among all words, -1 for a root."""
        heads = read_heads(self.block).astype(np.int64)
        start = np.repeat(self.block.sentences[:-1], np.diff(self.block.sentences))
        return np.where(heads > 0, start + heads - 1, -1)

    def has_relation(self, wanted: frozenset[str]) -> np.ndarray:
        """(words,) whether DEPREL, without its subtype, is one of these."""
        strings, ids = self.block.column(Conll.DEPREL)
        return np.array([_universal_relation(s) in wanted for s in strings], np.bool_)[ids]


def score_treebanks(gold: Treebank, predicted: Treebank) -> Conll18Score:
    """Compare two files of the same text; DataError if their texts differ."""
    check_characters(gold, predicted)
    compared = _Comparison(gold, predicted)
    scores, missing = {}, []
    for name, columns in READS.items():
        if _comparable(columns, gold, predicted):
            scores[name] = compared.score(name)
        else:
            missing.append(name)
    return Conll18Score(scores, missing)


def _comparable(columns: tuple[Conll, ...], gold: Treebank, predicted: Treebank) -> bool:
    """Whether a score that reads these columns can be computed: each column is filled in both files
    or in neither, at least one is filled, and so are heads and relations, if among them."""
    ours, theirs = ([t.filled(column) for column in columns] for t in (gold, predicted))
    trees = [filled for column, filled in zip(columns, ours, strict=True) if column in TREE]
    return ours == theirs and all(trees) and (any(ours) or not columns)


def check_characters(gold: Treebank, predicted: Treebank) -> None:
    """DataError, with the line, where two files begin to differ in their characters."""
    ours, theirs = gold.characters, predicted.characters
    if ours == theirs:
        return
    n = min(len(ours), len(theirs))
    at = next((i for i in range(n) if ours[i] != theirs[i]), n)
    k = min(int(np.searchsorted(predicted.cuts, at, side="right")) - 1, predicted.cuts.size - 2)
    raise predicted.block.error(
        f"is not the text of {gold.block.path}: it has {theirs[at : at + SHOWN]!r} where that has "
        f"{ours[at : at + SHOWN]!r}",
        int(np.searchsorted(predicted.token, k)),
    )


def _without_blanks(form: str) -> str:
    if form.isascii():
        return form.replace(" ", "")
    return "".join(c for c in form if unicodedata.category(c) != "Zs")


def _universal_features(feats: str) -> str:
    return "|".join(sorted(f for f in feats.split("|") if f.split("=", 1)[0] in UNIVERSAL))


def _universal_relation(label: str) -> str:
    return label.split(":")[0]


# ---- Scores --------------------------------------------------------------------------------------


class _Comparison:
    """Aligned words of two files: gold word g[i] and predicted word p[i], in order.

    gold_of: (predicted words,) the gold word that each is aligned to, -2 for none.
    """

    def __init__(self, gold: Treebank, predicted: Treebank):
        self.gold, self.predicted = gold, predicted
        pairs = np.array(align(gold, predicted), np.int64).reshape(-1, 2)
        self.g, self.p = pairs[:, 0], pairs[:, 1]
        self.gold_of = np.full(predicted.n_words, -2, np.int64)
        self.gold_of[self.p] = self.g

    def score(self, name: str) -> Aligned:
        if name == "Tokens":
            return spans_score(self.gold.cuts, self.predicted.cuts)
        if name == "Sentences":
            return spans_score(self.gold.sentences, self.predicted.sentences)
        if name in ("CLAS", "MLAS", "BLEX"):
            content, theirs = (t.has_relation(CONTENT) for t in (self.gold, self.predicted))
            counted = content[self.g]
            right = counted & self._right[name]()
            return Aligned(int(content.sum()), int(theirs.sum()), int(right.sum()), counted.sum())
        n, gold, predicted = self.g.size, self.gold.n_words, self.predicted.n_words
        if name == "Words":
            return Aligned(gold, predicted, n)
        return Aligned(gold, predicted, int(self._right[name]().sum()), n)

    @property
    def _right(self) -> dict[str, Callable[[], np.ndarray]]:
        """(pairs,) bool for each score: what the aligned words have in common."""
        return {
            "UPOS": lambda: self.upos,
            "XPOS": lambda: self._same(Conll.XPOS),
            "UFeats": lambda: self.features,
            "AllTags": lambda: self.upos & self._same(Conll.XPOS) & self.features,
            "Lemmas": lambda: self.lemmas,
            "UAS": lambda: self.heads,
            "LAS": lambda: self.arcs,
            "CLAS": lambda: self.arcs,
            "MLAS": lambda: self.arcs & self.upos & self.features & self.function_words,
            "BLEX": lambda: self.arcs & self.lemmas,
        }

    def _same(self, column: Conll, cut: Callable[[str], str] = str) -> np.ndarray:
        """(pairs,) bool: the two words have the same value in a column, after `cut`."""
        number: dict[str, int] = {}

        def values(block: Block) -> np.ndarray:
            strings, ids = block.column(column)
            new = [number.setdefault(cut(s), len(number)) for s in strings]
            return np.array(new, np.int64)[ids]

        same: np.ndarray = values(self.gold.block)[self.g] == values(self.predicted.block)[self.p]
        return same

    @cached_property
    def upos(self) -> np.ndarray:
        return self._same(Conll.UPOS)

    @cached_property
    def features(self) -> np.ndarray:
        return self._same(Conll.FEATS, _universal_features)

    @cached_property
    def lemmas(self) -> np.ndarray:
        unknown: np.ndarray = ~self.gold.block.filled(Conll.LEMMA)[self.g]
        return unknown | self._same(Conll.LEMMA)

    @cached_property
    def relations(self) -> np.ndarray:
        return self._same(Conll.DEPREL, _universal_relation)

    @cached_property
    def heads(self) -> np.ndarray:
        theirs = self.predicted.heads
        aligned = np.where(theirs < 0, -1, self.gold_of[theirs])
        same: np.ndarray = self.gold.heads[self.g] == aligned[self.p]
        return same

    @cached_property
    def arcs(self) -> np.ndarray:
        return self.heads & self.relations

    @cached_property
    def function_words(self) -> np.ndarray:
        """(pairs,) bool: the function words below two words are aligned to each other, one to one,
        and are alike. Alignments never cross, so it is enough to count those that are."""
        ours = _children(self.gold.heads, self.gold.has_relation(FUNCTION))
        theirs = _children(self.predicted.heads, self.predicted.has_relation(FUNCTION))
        alike = self.heads & self.relations & self.upos & self.features
        alike &= self.gold.has_relation(FUNCTION)[self.g]
        common = np.zeros(self.predicted.n_words, np.bool_)
        common[self.p] = alike
        both = _children(self.predicted.heads, common)
        same: np.ndarray = (ours[self.g] == theirs[self.p]) & (theirs[self.p] == both[self.p])
        return same


def _children(heads: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """(words,) the number of counted words below each word."""
    found = heads[counted & (heads >= 0)]
    return np.bincount(found, minlength=heads.size)


def spans_score(gold: np.ndarray, predicted: np.ndarray) -> Aligned:
    """Spans between cuts of the same text, right if both ends are."""
    ours, theirs = (
        set(zip(c[:-1].tolist(), c[1:].tolist(), strict=True)) for c in (gold, predicted)
    )
    return Aligned(len(ours), len(theirs), len(ours & theirs))


# ---- Alignment -----------------------------------------------------------------------------------


class _Words:
    """The words of a file, one after the other: where their tokens begin and end."""

    def __init__(self, treebank: Treebank):
        self.start = treebank.cuts[treebank.token].tolist()
        self.end = treebank.cuts[treebank.token + 1].tolist()
        self.multiword = treebank.multiword.tolist()
        self.forms = treebank.forms
        self.n = treebank.n_words

    def beyond(self, i: int, end: int) -> bool:
        """Whether word i is outside a stretch of text that ends at `end`: it ends behind that. A
        multiword token, which a stretch never cuts, is outside if it begins there or behind."""
        if i >= self.n:
            return True
        return self.start[i] >= end if self.multiword[i] else self.end[i] > end


def align(gold: Treebank, predicted: Treebank) -> list[tuple[int, int]]:
    """Pairs of a gold and a predicted word, in order."""
    ours, theirs = _Words(gold), _Words(predicted)
    pairs: list[tuple[int, int]] = []
    g = p = 0
    while g < ours.n and p < theirs.n:
        if ours.multiword[g] or theirs.multiword[p]:
            first_g, first_p, g, p = _stretch(ours, theirs, g, p)
            pairs += _common(ours.forms, theirs.forms, range(first_g, g), range(first_p, p))
        elif ours.start[g] == theirs.start[p] and ours.end[g] == theirs.end[p]:
            pairs.append((g, p))
            g, p = g + 1, p + 1
        elif ours.start[g] <= theirs.start[p]:
            g += 1
        else:
            p += 1
    return pairs


def _stretch(ours: _Words, theirs: _Words, g: int, p: int) -> tuple[int, int, int, int]:
    """The smallest stretch of text that has the multiword token at g or p and cuts no other one:
    (first gold word, first predicted word, gold word behind, predicted word behind). A word that
    begins before that token is not in the stretch."""
    if ours.multiword[g]:
        end = ours.end[g]
        p += not theirs.multiword[p] and theirs.start[p] < ours.start[g]
    else:
        end = theirs.end[p]
        g += ours.start[g] < theirs.start[p]
    first_g, first_p = g, p
    while not (ours.beyond(g, end) and theirs.beyond(p, end)):
        if g < ours.n and (p >= theirs.n or ours.start[g] <= theirs.start[p]):
            end = max(end, ours.end[g]) if ours.multiword[g] else end
            g += 1
        else:
            end = max(end, theirs.end[p]) if theirs.multiword[p] else end
            p += 1
    return first_g, first_p, g, p


def _common(
    ours: list[str], theirs: list[str], gold: range, predicted: range
) -> Iterable[tuple[int, int]]:
    """Pairs of words in a longest common subsequence.

    longest[i][j] = max(longest[i+1][j], longest[i][j+1], and
                        1 + longest[i+1][j+1] if forms i and j are the same)
    """
    n, m = len(gold), len(predicted)
    longest = [[0] * (m + 1) for _ in range(n + 1)]
    for i in reversed(range(n)):
        for j in reversed(range(m)):
            same = ours[gold[i]] == theirs[predicted[j]]
            longest[i][j] = max(
                longest[i + 1][j], longest[i][j + 1], same and 1 + longest[i + 1][j + 1]
            )
    i = j = 0
    while i < n and j < m:
        if ours[gold[i]] == theirs[predicted[j]]:
            yield gold[i], predicted[j]
            i, j = i + 1, j + 1
        elif longest[i][j] == longest[i + 1][j]:
            i += 1
        else:
            j += 1


def score_blocks(gold: Block, predicted: Block) -> Conll18Score:
    """Compare two files of CoNLL-U."""
    for block in (gold, predicted):
        if block.format.name != "conllu":
            raise DataError(f"is {block.format.name}, but tokens are scored on CoNLL-U", block.path)
    return score_treebanks(Treebank(gold), Treebank(predicted))
