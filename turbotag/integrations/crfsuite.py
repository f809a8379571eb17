"""What programs for sklearn-crfsuite use of a trained CRF beside predictions: a tagger with the
methods of pycrfsuite.Tagger, the log of a training, and the model file."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from turbotag.api.tagger import Tagger, Tokens
from turbotag.corpus.lists import attributes
from turbotag.errors import DataError, NotTrainedError, UsageError


@dataclass(frozen=True)
class Info:
    """Labels and attributes with their numbers, and the weights that are not 0."""

    header: dict[str, str]
    labels: dict[str, str]
    attributes: dict[str, str]
    transitions: dict[tuple[str, str], float]
    state_features: dict[tuple[str, str], float]


class SequenceTagger(Tagger):
    """A `turbotag.Tagger` that answers as `pycrfsuite.Tagger` does, too: `labels`, `tag`, `set`,
    `probability`, `marginal` and `info`. A sentence that is set stays until another one is."""

    _sentence: Tokens | None = None

    def labels(self) -> list[str]:
        """The labels, in alphabetical order."""
        return list(self._fitted().labels)

    def tag(self, xseq: Tokens | None = None) -> list[str]:
        """The best labels of a sentence, by default of the one that is set."""
        if xseq is not None:
            self.set(xseq)
        return self.predict([self._given()])[0]

    def set(self, xseq: Tokens) -> None:
        """Take the sentence that `tag`, `probability` and `marginal` are asked about."""
        self._sentence = xseq

    def probability(self, yseq: Sequence[str]) -> float:
        """The probability that the labels of the sentence are exactly these."""
        block, model = self._block([self._given()]), self._fitted()
        scores = model.scores(block, self._extractor())
        if len(yseq) != len(scores):
            raise DataError(f"the sentence has {len(scores)} tokens, but {len(yseq)} labels")
        path = np.array([self._number(label) for label in yseq])
        return math.exp(model.sequence_score(scores, path) - model.log_partition(scores))

    def marginal(self, y: str, pos: int) -> float:
        """The probability of a label at a position of the sentence, from 0."""
        self._number(y)
        return self.predict_marginals([self._given()])[0][pos][y]

    def info(self) -> Info:
        """What the model consists of; numbers of labels and attributes are strings, as in
        python-crfsuite."""
        model, labels = self._fitted(), self.labels()
        names = [model.feature_name(row) for row in range(model.keys.size)]
        header = {
            "size": str(model.keys.nbytes + model.weights.nbytes),
            "num_labels": str(len(labels)),
            "num_attrs": str(len(names)),
        }
        return Info(
            header,
            {label: str(k) for k, label in enumerate(labels)},
            {name: str(row) for row, name in enumerate(names)},
            by_name(model.trans, labels, labels),
            by_name(model.weights[: len(names)], names, labels),
        )

    def _given(self) -> Tokens:
        if self._sentence is None:
            raise UsageError("no sentence is set: call set(xseq) first")
        return self._sentence

    def _number(self, label: str) -> int:
        labels = self.labels()
        if label not in labels:
            raise DataError(f"unknown label {label!r:.40}: the labels are {', '.join(labels[:20])}")
        return labels.index(label)


def by_name(W: np.ndarray, rows: list[str], labels: list[str]) -> dict[tuple[str, str], float]:
    """The weights that are not 0, by the names of their row and column."""
    found = zip(*(index.tolist() for index in np.nonzero(W)), W[W != 0.0].tolist(), strict=True)
    return {(rows[r], labels[k]): weight for r, k, weight in found}


class TrainingLog(list[dict[str, Any]]):
    """A dict for each pass: epoch, seconds, primal, dual, gap, dev."""

    @property
    def iterations(self) -> list[dict[str, Any]]:
        """The passes, with the names of python-crfsuite too: num, time, loss."""
        return [
            row | {"num": row["epoch"], "time": row["seconds"], "loss": row["primal"]}
            for row in self
        ]

    @property
    def last_iteration(self) -> dict[str, Any] | None:
        """The last pass, if there is any."""
        return self.iterations[-1] if self else None


@dataclass(frozen=True)
class ModelFile:
    """The file of a CRF: its name if one was given, and what it holds."""

    name: str | None
    tagger: Tagger | None

    @property
    def bytes(self) -> bytes:
        """The file, as `turbotag predict` reads it."""
        import tempfile
        from pathlib import Path

        if self.tagger is None:
            raise NotTrainedError("this CRF is not trained: call fit first")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "crf.model"
            self.tagger.save(str(path))
            return path.read_bytes()


def frequent(X: Sequence[Tokens], least: float) -> list[list[dict[str, float]]]:
    """Sentences of features without the features whose values sum to less than `least`."""
    counts: Counter[str] = Counter()
    for tokens in X:
        for token in tokens:
            if isinstance(token, str | tuple):
                raise UsageError(
                    "min_freq is for features of your own: tokens are words, so leave it out"
                )
            for name, value in attributes(token):
                counts[name] += value  # type: ignore[assignment]
    return [
        [{k: v for k, v in attributes(token) if counts[k] >= least} for token in tokens]
        for tokens in X
    ]
