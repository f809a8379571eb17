"""A linear-chain CRF as an estimator of scikit-learn, with the interface of sklearn-crfsuite.

Nothing here imports scikit-learn: an estimator is an object with `fit`, `get_params` and
`set_params`, and scikit-learn itself asks for the rest (`__sklearn_tags__`).
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from turbotag.api.tagger import Tokens
from turbotag.corpus import lists
from turbotag.errors import ArgumentError, NotTrainedError, UsageError, did_you_mean
from turbotag.integrations.crfsuite import (
    ModelFile,
    SequenceTagger,
    TrainingLog,
    by_name,
    frequent,
)

Labels = Sequence[Sequence[str]]

ELASTIC = (None, "lbfgs", "sdca", "owl-qn")  # algorithms that can have c1
# For each algorithm of CRFsuite, the algorithm here that does the same, and its loss
TRANSLATED = {
    "lbfgs": ("sdca", "crf"),
    "l2sgd": ("sdca", "crf"),
    "pa": ("dca", "svm"),
    "ap": ("perceptron", "perceptron"),
}
CONVEX = ("lbfgs", "l2sgd")
NUMBERS = ("c1", "c2", "c", "C", "beta", "gamma", "max_iterations", "min_freq", "patience", "seed")
NO_C2 = 1e-9  # in place of a c2 of 0
STEPS = 100  # of L-BFGS without any regularization, if max_iterations is not given
REFUSED = {
    "variance": "AROW is not among the algorithms here",
    "trainer_cls": "there is no trainer beside the estimator here",
}
# parameters that say how CRFsuite looks for the minimum, not where the minimum is
OWN_STOP = "training ends at a proven gap: stop_gap and max_iterations say when"
NO_RATE = "the optimizer has no learning rate"
LEFT_OUT = {
    **dict.fromkeys(
        ("num_memories", "epsilon", "period", "delta", "linesearch", "max_linesearch"), OWN_STOP
    ),
    **dict.fromkeys(
        (
            *("calibration_eta", "calibration_rate", "calibration_samples"),
            *("calibration_candidates", "calibration_max_trials"),
        ),
        NO_RATE,
    ),
}
# parameters of `pa`, and the only values for which its step is min{c, loss / |gradient|^2}
PASSIVE_AGGRESSIVE = {"pa_type": 1, "error_sensitive": True, "averaging": True}


@dataclass(eq=False, repr=False)
class CRF:
    """A linear-chain CRF for those who come from sklearn-crfsuite: its parameters, methods and
    attributes, and an estimator of scikit-learn.

        crf = turbotag.CRF(algorithm="lbfgs", c2=0.1, max_iterations=100)
        crf.fit(X_train, y_train)
        crf.predict(X_test)

    X is a list of sentences, a sentence a list of tokens, y the labels of the tokens. A token is a
    dict of features in python-crfsuite's meaning, a list of feature names, or a word (str), of
    which `template` makes features; all tokens are of one kind. A sentence without tokens has no
    labels. clone, cross_val_score, cross_val_predict, GridSearchCV, Pipeline and joblib take it;
    scikit-learn need not be installed.

    `crf.tagger_` is the trained `turbotag.Tagger`, whose `save` writes what `turbotag predict`
    reads, with the verbs of `pycrfsuite.Tagger` (`tag`, `set`, `probability`, `marginal`,
    `labels`, `info`); `crf.training_log_` has a dict for each pass: epoch, seconds, primal, dual,
    gap, dev.

    Parameters of sklearn-crfsuite come first, in its order; None is the default.

    - algorithm: what is minimised, and how. "lbfgs", the default, and "l2sgd" are CRFsuite's
      ways to the smallest regularized negative log-likelihood; that minimum is one point, and
      here `sdca` finds it, with a proof of how near it came (`certificate_`). "ap" is the
      averaged perceptron, "pa" passive-aggressive learning of type I on the hinge loss (`dca`
      here); "arow" is refused. Other names are those of `turbotag train --algorithm`.
    - c2: weight of the squared norm, c2 |w|^2 beside the sum of the losses; 1 by default. 0 is
      taken for 1e-9, which moves the minimum by 1e-9 |w|^2 at most: with c1 by OWL-QN, to a
      certified gap; without c1 there may be no minimum at all, and L-BFGS makes `max_iterations`
      steps towards it, 100 by default, with a warning.
    - c1: weight of the absolute norm, c1 |w|_1, for "lbfgs" (`sdca` and `owl-qn` have it too):
      many weights are 0 then, and are not stored.
    - max_iterations: passes over the data, at most; training ends before, at `stop_gap`.
    - c: the largest step of "pa"; 1 by default.
    - all_possible_states, all_possible_transitions: accepted; every feature always has a weight
      for every label here, and so has every pair of labels.
    - pa_type, error_sensitive, averaging: accepted with CRFsuite's defaults only.
    - min_freq: features that the training data have less often get no weights. (CRFsuite counts
      a feature for each label apart.)
    - num_memories, epsilon, period, delta, linesearch, max_linesearch, calibration_...: left out,
      with a warning: they say how CRFsuite looks for the minimum, not where it is.
    - verbose: show a line for each pass on standard error.
    - model_filename: `fit` writes the model there, as `crf.tagger_.save` does; a CRF that was not
      trained reads it from there.
    - keep_tempfiles: accepted; there are no such files.
    - gamma: weight of the cost in the loss; in CRFsuite a parameter of AROW.
    - variance, trainer_cls: refused, with the reason.

    Parameters of turbotag:

    - loss: crf, softmax-margin, svm or perceptron; by default that of the algorithm; beta,
      gamma: inverse temperature and weight of the cost, for any loss between those;
    - C: weight of the losses, C = 1 / (2 c2);
    - stop_gap: the certified duality gap to stop at, such as 1e-4 or "1%";
    - order: of the chain, 1 or 2;
    - template: of words, a shipped set of templates or a file;
    - patience: passes without a better result on X_dev, after which training ends;
    - seed: of all that is drawn;
    - label_cost: what a mistake on a token costs, by its right label, such as {"B-ORG": 3}; the
      default loss is then softmax-margin in place of crf.
    """

    algorithm: str | None = None
    min_freq: float | None = None
    all_possible_states: bool | None = None
    all_possible_transitions: bool | None = None
    c1: float | None = None
    c2: float | None = None
    max_iterations: int | None = None
    num_memories: int | None = None
    epsilon: float | None = None
    period: int | None = None
    delta: float | None = None
    linesearch: str | None = None
    max_linesearch: int | None = None
    calibration_eta: float | None = None
    calibration_rate: float | None = None
    calibration_samples: int | None = None
    calibration_candidates: int | None = None
    calibration_max_trials: int | None = None
    pa_type: int | None = None
    c: float | None = None
    error_sensitive: bool | None = None
    averaging: bool | None = None
    variance: float | None = None
    gamma: float | None = None
    verbose: bool = False
    model_filename: str | None = None
    keep_tempfiles: bool = False
    trainer_cls: Any = None
    _: KW_ONLY
    loss: str | None = None
    beta: float | None = None
    C: float | None = None
    stop_gap: float | str | None = None
    order: int | None = None
    template: str | None = None
    patience: int | None = None
    seed: int | None = None
    label_cost: dict[str, float] | None = None

    # ---- What scikit-learn asks for --------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters of the constructor; deep: ignored, as no parameter has parameters."""
        return {name: getattr(self, name) for name in _names()}

    def set_params(self, **params: Any) -> CRF:
        """Set parameters of the constructor by name."""
        for name, value in params.items():
            if name not in _names():
                known = did_you_mean(name, _names())
                raise ArgumentError(f"CRF has no parameter {name!r}{known}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(CRF).parameters
        given = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if value is not defaults[name].default
        ]
        return f"CRF({', '.join(given)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        reads = InputTags(two_d_array=False, string=True, dict=True)
        return Tags(estimator_type=None, target_tags=TargetTags(required=True), input_tags=reads)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "tagger_")

    # ---- Training --------------------------------------------------------------------------------

    def fit(
        self,
        X: Sequence[Tokens],
        y: Labels,
        X_dev: Sequence[Tokens] | None = None,
        y_dev: Labels | None = None,
        sample_weight: Sequence[float] | None = None,
    ) -> CRF:
        """Train on sentences and the labels of their tokens.

        sample_weight: how often each sentence counts in the loss; 2 counts it twice.
        X_dev, y_dev: held-out sentences and labels; the weights after the pass that is best on them
        are kept.
        """
        if (X_dev is None) != (y_dev is None):
            raise UsageError("X_dev and y_dev go together: give both or none")
        X, y = _paired(X, y)
        if sample_weight is not None and len(sample_weight) == len(X):
            sample_weight = [w for w, tokens in zip(sample_weight, X, strict=True) if len(tokens)]
        X, y = _with_tokens(X, y)
        if not X:
            raise UsageError("X has no sentence with tokens: there is nothing to learn from")
        own = lists.weighed(X, y, sample_weight)
        n = sum(own[2]) or len(own[0])
        tagger = SequenceTagger("pos", calibration=False, **self._options(n))
        if self.min_freq:
            X = frequent(X, self.min_freq)
        dev = None if X_dev is None else _with_tokens(*_paired(X_dev, y_dev, "_dev"))
        if dev is not None and not dev[0]:
            raise UsageError("X_dev has no sentence with tokens: leave it out")
        tagger.fit(X, y, dev, self.verbose, sample_weight=sample_weight)
        self.tagger_, self.training_log_ = tagger, TrainingLog(tagger.history)
        if self.model_filename:
            tagger.save(self.model_filename)
        return self

    def _options(self, n: float) -> dict[str, Any]:
        """The parameters as options of `Tagger`, for a training of n sentences."""
        self._check()
        name = self.algorithm or "lbfgs"
        algorithm, loss = TRANSLATED.get(name, (name, "crf"))
        if {self.beta, self.gamma} == {None}:
            usual = "softmax-margin" if self.label_cost and loss == "crf" else loss
            loss = self.loss or usual
        epochs = self.max_iterations
        if self.c2 == 0:
            algorithm = "owl-qn" if self.c1 else "lbfgs"
            epochs = STEPS if epochs is None and not self.c1 else epochs
        C = 1.0 if self.C is None else self.C
        if name == "pa" and self.c is not None:
            C = self.c
        elif self.C is None and (self.c2 is not None or name in CONVEX):
            C = 0.5 / (1.0 if self.c2 is None else self.c2 or NO_C2)
        return {
            "algorithm": algorithm,
            "loss": loss,
            "C": C,
            # here the objective has the mean of the losses, in CRFsuite their sum
            **({"l1": self.c1 / (n or 1)} if self.c1 else {}),
            "epochs": epochs,
            **{
                name: getattr(self, name)
                for name in (
                    "beta",
                    "gamma",
                    "stop_gap",
                    "order",
                    "template",
                    "patience",
                    "seed",
                    "label_cost",
                )
            },
        }

    def _check(self) -> None:
        """Refuse parameters of sklearn-crfsuite that have no meaning here."""
        for name in NUMBERS:
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, Real)):
                raise UsageError(f"{name} is {value!r:.40}: it must be a number")
        if self.algorithm == "arow":
            raise UsageError("algorithm 'arow' is not available: 'pa' is the nearest to it")
        for name, reason in REFUSED.items():
            if getattr(self, name):
                raise UsageError(f"{name} is for CRFsuite: {reason}")
        for name, reason in LEFT_OUT.items():
            if getattr(self, name) is not None:
                warnings.warn(f"{name} is for CRFsuite, and left out: {reason}", stacklevel=4)
        for name, value in PASSIVE_AGGRESSIVE.items():
            if getattr(self, name) not in (None, value):
                raise UsageError(f"{name} is {getattr(self, name)!r}: it must be {value!r}")
        if self.c1 and self.algorithm not in ELASTIC:
            raise UsageError(f"c1 is {self.c1}: {self.algorithm!r} cannot have c1, 'lbfgs' can")
        if self.c2 is not None and self.C is not None:
            raise UsageError("c2 and C say the same, C = 1 / (2 c2): give one of them")
        if self.c2 is not None and not self.c2 >= 0:
            raise UsageError(f"c2 is {self.c2}: it must be at least 0")
        if self.c2 == 0 and self.algorithm not in (None, *CONVEX, "owl-qn"):
            raise UsageError(f"c2 is 0: {self.algorithm!r} needs a c2 above 0, 'lbfgs' does not")
        if self.c2 == 0 and not self.c1:
            warnings.warn(
                "c1 and c2 are 0: there may be no minimum, as weights may grow for ever. L-BFGS "
                f"makes {self.max_iterations or STEPS} steps, with c2 = {NO_C2:g}",
                stacklevel=4,
            )

    # ---- Prediction ------------------------------------------------------------------------------

    def predict(self, X: Sequence[Tokens]) -> np.ndarray:
        """(sentences,) for each sentence the list of its best labels."""
        return _each(X, self._fitted().predict)

    def predict_single(self, xseq: Tokens) -> list[str]:
        """The best labels of one sentence."""
        found: list[str] = self.predict([xseq])[0]
        return found

    def predict_marginals(self, X: Sequence[Tokens]) -> np.ndarray:
        """(sentences,) for each sentence a list of {label: probability}, one for each token."""
        return _each(X, self._fitted().predict_marginals)

    def predict_marginals_single(self, xseq: Tokens) -> list[dict[str, float]]:
        """{label: probability} of each token of one sentence."""
        found: list[dict[str, float]] = self.predict_marginals([xseq])[0]
        return found

    def score(self, X: Sequence[Tokens], y: Labels) -> float:
        """The share of tokens with the right label."""
        X, y = _paired(X, y)
        right = []
        for s, (found, gold) in enumerate(zip(self.predict(X), y, strict=True)):
            if len(found) != len(gold):
                raise UsageError(f"sentence {s} has {len(found)} tokens, but {len(gold)} labels")
            right += [a == b for a, b in zip(found, gold, strict=True)]
        return sum(right) / max(1, len(right))

    # ---- Inspection ------------------------------------------------------------------------------

    def _fitted(self) -> SequenceTagger:
        if not hasattr(self, "tagger_"):
            if not self.model_filename or not Path(self.model_filename).is_file():
                raise NotTrainedError("this CRF is not trained: call fit first")
            self.tagger_ = SequenceTagger.load(self.model_filename)
        return self.tagger_

    @property
    def modelfile(self) -> ModelFile:
        """The model file: `name` is model_filename, `bytes` the content."""
        return ModelFile(self.model_filename, getattr(self, "tagger_", None))

    @property
    def _model(self) -> Any:
        return self._fitted().model

    @property
    def classes_(self) -> list[str]:
        """The labels, in alphabetical order."""
        return list(self._model.labels)

    @property
    def certificate_(self) -> dict[str, float]:
        """Primal and dual objective, and their gap."""
        return dict(self._model.header["certificate"])

    @property
    def attributes_(self) -> list[str]:
        """The names of the features."""
        model = self._model
        return [model.feature_name(row) for row in range(model.keys.size)]

    @property
    def num_attributes_(self) -> int:
        """The number of the features."""
        return int(self._model.keys.size)

    @property
    def size_(self) -> int:
        """Bytes of the weights and the keys of their features."""
        return int(self._model.keys.nbytes + self._model.weights.nbytes)

    @property
    def state_features_(self) -> dict[tuple[str, str], float]:
        """{(feature, label): weight}, those that are not 0."""
        return self._fitted().info().state_features

    @property
    def transition_features_(self) -> dict[tuple[str, str], float]:
        """{(label, next label): weight}, those that are not 0."""
        return by_name(self._model.trans, self.classes_, self.classes_)


def _names() -> list[str]:
    """The parameters of the constructor."""
    return list(inspect.signature(CRF).parameters)


def _paired(X: Any, y: Any, name: str = "") -> tuple[list[Any], list[Any]]:
    """Sentences and their labels as lists, from any iterables; refuses unequal numbers of both."""
    X = _sentences(X, f"X{name}")
    y = lists.listed(y, f"y{name} is", "lists of labels")
    if len(X) != len(y):
        raise UsageError(f"X{name} has {len(X)} sentences, y{name} has labels of {len(y)}")
    return X, [_sized(labels, f"the labels of sentence {s} are") for s, labels in enumerate(y)]


def _sentences(X: Any, name: str = "X") -> list[Any]:
    X = lists.listed(X, f"{name} is", "sentences, each a list of tokens")
    return [_sized(tokens, f"sentence {s} is") for s, tokens in enumerate(X)]


def _sized(given: Any, what: str) -> Any:
    """`given` itself if it has a length; else, such as for a generator, a list of it."""
    return given if hasattr(given, "__len__") else lists.listed(given, what, "tokens")


def _with_tokens(X: list[Any], y: list[Any]) -> tuple[list[Any], list[Any]]:
    """Sentences and their labels, without the sentences that have no tokens and no labels."""
    kept = [i for i, (tokens, own) in enumerate(zip(X, y, strict=True)) if len(tokens) or len(own)]
    return [X[i] for i in kept], [y[i] for i in kept]


def _each(X: Any, predict: Any) -> np.ndarray:
    """(sentences,) what `predict` finds for each sentence; [] for one without tokens. It is an
    array of objects, since cross_val_predict can join those."""
    X = _sentences(X)
    kept = [i for i, tokens in enumerate(X) if len(tokens)]
    out = np.empty(len(X), object)
    out[:] = [[] for _ in X]
    for i, found in zip(kept, predict([X[i] for i in kept]), strict=True):
        out[i] = found
    return out
