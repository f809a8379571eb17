"""Training that goes on from a model (--init): what the model knows stays, and new data add to it.

The weights of the model are w0, and training looks for a change v of them. It minimises

    lambda/2 |v|^2 + 1/n sum_i L(w0 + v; i).

So the regulariser pulls towards the model instead of 0, like a Gaussian prior whose mean is w0
(Chelba and Acero 2004, "Adaptation of maximum entropy capitalizer: little data can help a lot"). At
v = 0 this is the old model, whatever the optimizer. A feature that the new data do not have keeps
its weight; a new feature begins at 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from turbotag.corpus.hashing import KeyTable
from turbotag.features import compact
from turbotag.models.parser import Parser, classes_of
from turbotag.models.tagger import Tagger
from turbotag.optim.problem import Problem


def origin(path: str, header: dict[str, Any]) -> dict[str, Any]:
    """What the header of a model says of the model that it went on from."""
    return {"name": Path(path).name, "data": header["data"], "licence": header["licence"]}


@dataclass(frozen=True)
class Continued:
    """The features of a model to be, and the weights w0 that it begins with.

    keys: n features of the new data, of which the old model has `known`, then the features that
    only the old model has; weights: (keys + shared, K), with the rows that belong to no feature
    last.
    """

    keys: np.ndarray
    weights: np.ndarray
    n: int
    known: int

    def begin(self, problem: Problem) -> None:
        """Let the weights of a problem be changes of the old model's weights."""
        rows = [self.weights[: self.n], self.weights[self.keys.size :]]
        problem.anchor(np.concatenate(rows))
        if problem.certified:
            problem.certified += ", regularised towards the old model"

    def whole(self, change: np.ndarray) -> np.ndarray:
        """All weights of the model, from a change of the weights that the training problem has."""
        out = self.weights.copy()
        out[: self.n] += change[: self.n]
        out[self.keys.size :] += change[self.n :]
        return out

    def __str__(self) -> str:
        alone = self.keys.size - self.n
        return (
            f"kept {self.known + alone} features, of which the new data have {self.known}; "
            f"added {self.n - self.known}"
        )


def continued(
    keys: np.ndarray,
    found: np.ndarray,
    old_keys: np.ndarray,
    old: np.ndarray,
    shared: np.ndarray | None = None,
) -> Continued:
    """keys: features of the new data; found: their rows in the old model, -1 for none; old_keys and
    old: (rows, K) the features of that model and their weights, as `columns` gives them."""
    known = np.flatnonzero(found >= 0)
    weights = np.zeros((keys.size, old.shape[1]))
    weights[known] = old[found[known]]
    alone = np.ones(old_keys.size, bool)
    alone[found[known]] = False
    rows = [weights, old[alone], *([] if shared is None else [shared])]
    return Continued(
        np.concatenate([keys, old_keys[alone]]), np.concatenate(rows), keys.size, known.size
    )


def columns(weights: np.ndarray, labels: list[str], union: list[str]) -> np.ndarray:
    """(rows, K) weights for labels that include those of the given weights; 0 for the others."""
    out = np.zeros((weights.shape[0], len(union)))
    out[:, places(labels, union)] = weights
    return out


def places(labels: list[str], union: list[str]) -> np.ndarray:
    at = {label: k for k, label in enumerate(union)}
    return np.array([at[label] for label in labels], np.int64)


def continue_tagger(old: Tagger, labels: list[str], order: int, keys: np.ndarray) -> Continued:
    """labels, order: of the tagger to be, whose labels include those of the old one; keys: of its
    data."""
    K, at = len(labels), places(old.labels, labels)
    pairs, triples = np.zeros((K, K)), np.zeros((K, K, K))
    pairs[np.ix_(at, at)] = old.trans
    if old.order == 2:
        triples[np.ix_(at, at, at)] = old.triple
    shared = np.concatenate([pairs, triples.reshape(-1, K)][:order]) if order else pairs[:0]
    weights = columns(old.weights[: old.keys.size], old.labels, labels)
    return continued(keys, old.lookup(keys), old.keys, weights, shared)


class OldStage:
    """A stage of a parser to go on from; its keys are folded (features/compact)."""

    def __init__(self, old: Parser, stage: str):
        self.keys, weights = old.rows(stage)
        self.classes = classes_of(old.header, stage)
        self.weights = weights if self.classes else weights[:, None]
        self.table = KeyTable.of(self.keys)

    def lookup(self, keys: np.ndarray) -> np.ndarray:
        return self.table.lookup(compact.fold(keys))

    def continued(self, keys: np.ndarray, classes: list[str] | None = None) -> Continued:
        """keys: of the new data; classes: of the parser to be, which include those of the old
        one."""
        weights = columns(self.weights, self.classes, classes) if classes else self.weights
        return continued(keys, self.lookup(keys), self.keys, weights)


class WholeTable:
    """Rows of all features of a Continued: those of the new data by their keys, others folded."""

    def __init__(self, new: KeyTable, kept: Continued):
        self.new, self.size = new, kept.keys.size
        self.alone = KeyTable.of(kept.keys[kept.n :])

    def lookup(self, keys: np.ndarray) -> np.ndarray:
        rows, other = self.new.lookup(keys), self.alone.lookup(compact.fold(keys))
        return np.where((rows < 0) & (other >= 0), other + np.int32(self.new.size), rows)
