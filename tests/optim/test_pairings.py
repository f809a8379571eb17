"""Every declared pairing of an optimizer, a structure and a loss, and problems at their limits."""

import itertools
import math
from functools import cache

import numpy as np
import pytest

from tests.arc_problems import arc_problem
from tests.problems import chain_problem, optimum
from tests.structures.test_second_order_problem import EVEN, draw
from turbotag.errors import UsageError
from turbotag.optim.algorithms import ALGORITHMS, algorithm
from turbotag.optim.base import EXACT, SECOND_ORDER, serves
from turbotag.optim.certificate import certify_primal
from turbotag.optim.run import Limits, run
from turbotag.optim.trace import Trace
from turbotag.structures import sparse
from turbotag.structures.chain_problem import ChainProblem
from turbotag.structures.chain_verbs import label_sequences
from turbotag.structures.second_order_problem import BoundProblem

LAM, L1 = 0.05, 0.03
STRONG = 0.5  # lambda of the hinge, on which some methods are slow
HINGE, PERCEPTRON = (math.inf, 1.0), (math.inf, 0.0)
LOSSES = ((1.0, 0.0), (1.0, 1.0), (3.0, 0.5), HINGE, PERCEPTRON)
ONLINE = ("dca", "dca-planes", "mira", "perceptron", "sgd")  # which go near the optimum, no further
EPOCHS = {"sdca": 1000, "extragradient": 6000}  # on the hinge; 600 elsewhere
PAIRINGS = [
    (name, structure)
    for name, cls in ALGORITHMS.items()
    for structure in (*EXACT, SECOND_ORDER)
    if structure in cls.structures
]


def rng(seed=0):
    return np.random.default_rng(seed)


def problem_of(structure, beta, gamma):
    size = {"seed": 2, "n": 4, "beta": beta, "gamma": gamma}
    if structure in ("multiclass", "chain"):
        return chain_problem(**size, order=int(structure == "chain"), longest=3, values=False)
    if structure == SECOND_ORDER:  # with potentials that do not move
        return draw(BoundProblem, **size, longest=3, approximation=EVEN)[0]
    decoder = "projective" if structure == "projective" else "nonprojective"
    return arc_problem(**size, decoder=decoder, longest=3)


@cache
def best_of(structure, beta, gamma):
    """P*, from above and from below."""
    problem = problem_of(structure, beta, gamma)
    if math.isfinite(beta):
        return (optimum(problem, LAM)[0],) * 2
    lam = STRONG
    if structure == SECOND_ORDER:
        proof = run(algorithm("sdca")(problem, lam, rng(9)), Limits(400, 1e-3), Trace())
    else:
        proof = run(algorithm("svm-struct-n")(problem, lam, rng(9)), Limits(300, 1e-9), Trace())
    return proof.certificate.primal, proof.certificate.dual


@pytest.mark.parametrize(("name", "structure"), PAIRINGS)
def test_certificates_of_every_pairing_agree(name, structure):
    tried = 0
    for beta, gamma in LOSSES:
        if not serves(ALGORITHMS[name].losses, beta, gamma):
            continue
        problem = problem_of(structure, beta, gamma)
        assert problem.structure == structure
        high, low = best_of(structure, beta, gamma)
        lam = LAM if math.isfinite(beta) else STRONG
        opt, trace = algorithm(name)(problem, lam, rng()), Trace()
        smooth = math.isfinite(beta)
        epochs = 5 if name in ONLINE else 600 if smooth else EPOCHS.get(name, 600)
        gap = 2e-4 * max(high, 0.1) if math.isinf(beta) else 1e-8
        proof = run(opt, Limits(epochs, gap), trace).certificate
        assert all(r.gap is None or r.gap >= -1e-9 for r in trace.rows)
        assert proof.gap >= -1e-9
        assert proof.primal >= low - 1e-9
        assert proof.dual <= high + 1e-9
        if name in ONLINE:
            continue
        near = 1e-6 if smooth else 1e-3 * max(high, 0.1)
        assert proof.primal == pytest.approx(low, abs=near + high - low), (beta, gamma)
        tried += 1
    assert tried or name in ONLINE


@pytest.mark.parametrize(
    "name", [n for n, c in ALGORITHMS.items() if "l1" in {p.name for p in c.params}]
)
@pytest.mark.parametrize("structure", EXACT)
def test_certificates_with_l1_agree(name, structure):
    """Of optimizers with each other, and of the hinge with weights that others find: on chains
    alone, as the threshold of l1 does not know the loss."""
    for beta, gamma in LOSSES:
        if math.isinf(beta) and structure != "chain":
            continue
        if not serves(ALGORITHMS[name].losses, beta, gamma):
            continue
        problem = problem_of(structure, beta, gamma)
        limits = Limits(1000 if math.isfinite(beta) else 100, 1e-7)
        result = run(algorithm(name)(problem, LAM, rng(), l1=L1), limits, Trace())
        proof = result.certificate
        assert -1e-9 <= proof.gap <= (1e-7 if math.isfinite(beta) else 0.1)
        again = certify_primal(problem, LAM, result.weights, L1)
        assert again.primal == pytest.approx(proof.primal, abs=1e-9)
        for scale in (0.9, 1.0, 1.1):
            other = certify_primal(problem, LAM, scale * result.weights + 1e-3, L1)
            assert other.primal >= proof.dual - 1e-9
            assert other.dual <= proof.primal + 1e-9


# ---- Problems at their limits --------------------------------------------------------------------


def chains(lengths, labels, K, per_word=2, seed=0):
    """Sentences of given lengths and labels; words have so many attributes, maybe none."""

    def make(beta, gamma):
        sentences = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        tokens = int(sentences[-1])
        rows = rng(seed).integers(0, 5, tokens * per_word).astype(np.int32)
        token = np.repeat(np.arange(tokens), per_word)
        start = np.repeat(np.repeat(sentences[:-1], lengths), per_word)
        positions = (token - start).astype(np.int32)
        occurrences = sentences * per_word, rows, positions, np.ones(rows.size, np.float32)
        sparse.sort_occurrences(*occurrences)
        gold = np.array(labels, np.int32)
        return ChainProblem(sentences, occurrences, gold, 5, label_sequences(K), beta, gamma)

    return make


ODD = {
    "one sentence": chains([3], [0, 2, 1], 3),
    "one word": chains([1], [1], 2),
    "one label": chains([2, 3, 1], [0] * 6, 1),
    "words alone": chains([1, 1, 1, 1], [0, 1, 1, 0], 2),
    "twice the same": chains([2, 2, 2, 2], [0, 1] * 4, 2, per_word=0),
    "no features": chains([3, 2], [0, 1, 2, 2, 1], 3, per_word=0),
    "one tree": lambda beta, gamma: arc_problem(1, 1, beta, gamma),
    "trees of one word": lambda beta, gamma: arc_problem(1, 3, beta, gamma, longest=1),
    "trees without features": lambda beta, gamma: arc_problem(1, 3, beta, gamma, most=0),
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_odd_problems_are_trained_or_refused(name):
    served = [x for x in ((1.0, 1.0), HINGE, PERCEPTRON) if serves(ALGORITHMS[name].losses, *x)]
    for make, loss, C in itertools.product(ODD.values(), served[:2], (1e-6, 1e6)):
        problem = make(*loss)
        try:
            opt, trace = algorithm(name)(problem, 1.0 / (C * problem.n), rng()), Trace()
            result = run(opt, Limits(4, 1e-9), trace)
        except (UsageError, FloatingPointError):
            assert C == 1e6  # whose scores may overflow
            continue
        scale = max(1.0, abs(result.certificate.primal))
        assert all(r.gap is None or r.gap >= -1e-9 * scale for r in trace.rows)
        assert result.certificate.gap >= -1e-9 * scale
        assert np.isfinite(result.weights).all()
