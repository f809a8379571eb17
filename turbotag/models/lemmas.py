"""The lemmatizer: a tagger whose labels are edit scripts (corpus/scripts), with a table of known
forms.

If a form was seen with its part of speech, its candidates are the scripts that it was seen with.
Mostly there is only one, and the table decides. The candidates of any other form are all scripts
that fit it, and the model chooses by the letters and tags of the form. The form itself is always a
possible lemma.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from turbotag.corpus.hashing import KeyTable, hash_strings
from turbotag.corpus.reader import Block, Column
from turbotag.corpus.scripts import IRREGULAR, apply, encode
from turbotag.models.gold import Corpus
from turbotag.models.lists import ListTagger
from turbotag.storage.checks import expect
from turbotag.storage.tensors import Entries
from turbotag.structures.candidate_lists import Lists

SAME = "k > >"  # the script of a form that is its own lemma
RARE = 3  # scripts of fewer forms are candidates only of the forms that they were seen with
MOST_FORMS = 100_000  # whose scripts are remembered


def _pairs(block: Block) -> Column:
    """Form and part of speech of each word, as one string."""
    forms, upos = (_column(block, name) for name in ("word", "upos"))
    codes = forms.ids.astype(np.int64) * len(upos.strings) + upos.ids
    found, ids = np.unique(codes, return_inverse=True)
    k = len(upos.strings)
    return Column([f"{forms.strings[c // k]}\t{upos.strings[c % k]}" for c in found.tolist()], ids)


def _column(block: Block, name: str) -> Column:
    """A column, empty if there is none."""
    at = block.format.index(name)
    return Column([""], np.zeros(block.n_tokens, np.int64)) if at is None else block.column(at)


def script_column(lemmas: Column, block: Block) -> Column:
    """The scripts of lemmas of a block."""
    forms = _column(block, "word")
    codes = forms.ids.astype(np.int64) * len(lemmas.strings) + lemmas.ids
    found, ids = np.unique(codes, return_inverse=True)
    k = len(lemmas.strings)
    scripts = [encode(forms.strings[c // k], lemmas.strings[c % k]) for c in found.tolist()]
    strings = list(dict.fromkeys(scripts))
    at = {script: n for n, script in enumerate(strings)}
    return Column(strings, np.array([at[s] for s in scripts], np.int32)[ids])


@dataclass(frozen=True)
class Known:
    """The scripts that forms were seen with: for `form TAB upos` all of them, for `form TAB` the
    irregular ones, and for the empty string those that are candidates of every form that they fit.

    keys: (n,) hashes of these strings; the scripts of string i are labels[first[i]:first[i+1]].
    """

    keys: np.ndarray
    first: np.ndarray
    labels: np.ndarray

    @classmethod
    def learn(cls, corpus: Corpus) -> Known:
        """Learn from gold scripts. corpus.strings are the labels of the model to be."""
        pairs, scripts = _pairs(corpus.block), corpus.strings
        word = _column(corpus.block, "word").ids.astype(np.int64)
        each = np.unique(word * len(scripts) + corpus.ids) % len(scripts)
        common = np.bincount(each, minlength=len(scripts)) >= RARE
        irregular = np.array([s.startswith(IRREGULAR) for s in scripts])
        lists: dict[str, set[int]] = {"": set(np.flatnonzero(common & ~irregular).tolist())}
        seen = np.unique(pairs.ids.astype(np.int64) * len(scripts) + corpus.ids)
        for code in seen.tolist():
            pair, script = pairs.strings[code // len(scripts)], code % len(scripts)
            lists.setdefault(pair, set()).add(script)
            if irregular[script]:
                lists.setdefault(pair[: pair.rindex("\t") + 1], set()).add(script)
        first = np.cumsum([0, *(len(s) for s in lists.values())])
        labels = np.array([k for s in lists.values() for k in sorted(s)], np.int32)
        return cls(hash_strings(list(lists)), first, labels)

    @classmethod
    def of(cls, arrays: dict[str, np.ndarray], K: int) -> Known:
        """From a file; ValueError if they are not from `arrays`."""
        labels = arrays["known.labels"].astype(np.int32)
        first = np.append(0, np.cumsum(arrays["known.counts"], dtype=np.int64))
        if first[-1] != labels.size or labels.max(initial=0) >= K:
            raise ValueError("scripts of known forms do not fit")
        return cls(arrays["known.keys"], first, labels)

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            "known.keys": self.keys,
            "known.counts": np.diff(self.first).astype(np.uint16),
            "known.labels": self.labels.astype(np.uint16),
        }


class Fitting:
    """Which scripts are candidates of a form."""

    def __init__(self, known: Known, scripts: list[str]):
        self.known, self.table, self.scripts = known, KeyTable.of(known.keys), scripts
        self.same = scripts.index(SAME)
        self.by_ending: dict[str, list[int]] = {}
        for k in self._seen([""])[0]:
            ending = scripts[k].split(" ")[2].split(">")[0]
            self.by_ending.setdefault(ending, []).append(k)
        self.remembered: dict[str, list[int]] = {}

    def _seen(self, strings: list[str]) -> list[list[int]]:
        first = self.known.first
        return [
            self.known.labels[first[r] : first[r + 1]].tolist() if r >= 0 else []
            for r in self.table.lookup(hash_strings(strings)).tolist()
        ]

    def of_form(self, form: str) -> list[int]:
        """All scripts that fit, in order."""
        low, found = form.lower(), {self.same, *self._seen([form + "\t"])[0]}
        for n in range(len(low) + 1):
            for k in self.by_ending.get(low[len(low) - n :], ()):
                if apply(form, self.scripts[k]) is not None:
                    found.add(k)
        return sorted(found)

    def lists(self, block: Block, learning: bool = False) -> Lists:
        """Candidate scripts of the words of a block: those that form and part of speech were seen
        with or, if there are none, all that fit the form. learning: both, so that each is learned
        against the others."""
        pairs = _pairs(block)
        if len(self.remembered) > MOST_FORMS:
            self.remembered.clear()
        both = zip(self._seen(pairs.strings), pairs.strings, strict=True)
        if learning:
            return _listed([sorted({*s, *self._fitting(p)}) for s, p in both], pairs.ids)
        return _listed([s or self._fitting(p) for s, p in both], pairs.ids)

    def _fitting(self, pair: str) -> list[int]:
        form = pair[: pair.rindex("\t")]
        if form not in self.remembered:
            self.remembered[form] = self.of_form(form)
        return self.remembered[form]


def _listed(found: list[list[int]], ids: np.ndarray) -> Lists:
    """The list found[ids[t]] for each word t."""
    counts = np.array([len(f) for f in found])
    first = np.append(0, np.cumsum(counts))
    flat = np.array([k for f in found for k in f], np.int32)
    cuts = np.append(0, np.cumsum(counts[ids]))
    at = np.repeat(first[:-1][ids] - cuts[:-1], counts[ids]) + np.arange(cuts[-1])
    return Lists(cuts, flat[at])


class Lemmatizer(ListTagger):
    """A tagger of edit scripts, which writes lemmas; coarse: Known."""

    def __init__(self, *given: Any, **named: Any):
        super().__init__(*given, **named)
        self.fitting = Fitting(self.coarse, self.labels)

    def candidates(self, block: Block, *features: np.ndarray) -> Lists:
        return self.fitting.lists(block)

    def coarse_arrays(self, small: bool) -> dict[str, np.ndarray]:
        found: dict[str, np.ndarray] = self.coarse.arrays()
        return found

    def known(self, gold: Column, block: Block) -> np.ndarray:
        return super().known(script_column(gold, block), block)

    def output_labels(self, tags: np.ndarray, block: Block, first: int = 0) -> Column:
        """The lemmas that scripts make of the block's forms."""
        forms = _column(block, "word")
        form = forms.ids[first : first + tags.size].astype(np.int64)
        codes, ids = np.unique(form * len(self.labels) + tags, return_inverse=True)
        both = (divmod(code, len(self.labels)) for code in codes.tolist())
        return Column(self.lemmas((forms.strings[f], self.labels[k]) for f, k in both), ids)

    def lemmas(self, pairs: Iterable[tuple[str, str]]) -> list[str]:
        """What scripts make of forms; the form itself where a script does not fit."""
        return [apply(form, script) or form for form, script in pairs]


class Scripts:
    """The coder of lemmas (models/tasks)."""

    name, kind, added = "scripts", Lemmatizer, (SAME,)

    def encoded(self, corpus: Corpus) -> Corpus:
        scripts, ids = script_column(corpus.tags, corpus.block)
        return replace(corpus, strings=scripts, ids=ids)

    def learn(self, corpus: Corpus) -> Known:
        return Known.learn(corpus)

    def candidates(self, listing: Known, corpus: Corpus) -> Lists:
        # The table decides known forms, but they teach the model what becomes of similar ones.
        return Fitting(listing, corpus.strings).lists(corpus.block, learning=True)

    def alike(self, corpus: Corpus) -> tuple[np.ndarray, np.ndarray]:
        """Words of one form are alike; those that were seen with several scripts and the same part
        of speech are learned from as often as they occur."""
        pairs = _pairs(corpus.block).ids.astype(np.int64)
        each = np.unique(pairs * len(corpus.strings) + corpus.ids) // len(corpus.strings)
        return _column(corpus.block, "word").ids, (np.bincount(each) > 1)[pairs]

    def expected(self, entries: Entries) -> list[str]:
        m = expect(entries, "known.keys", "uint64", (None,))
        expect(entries, "known.counts", "uint16", (m,))
        expect(entries, "known.labels", "uint16", (None,))
        return ["known.keys", "known.counts", "known.labels"]

    def load(self, arrays: dict[str, np.ndarray], K: int) -> Known:
        return Known.of(arrays, K)


CODER = Scripts()
