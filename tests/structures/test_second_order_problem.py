"""Second-order trees as training problems: features, losses, duals and certificates."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest

from tests.arc_problems import assemble
from tests.problems import optimum
from tests.second_order_oracles import SecondOrder, gibbs, structures
from tests.structures.problem_conformance import Instance, ProblemConformance
from tests.tree_oracles import trees
from turbotag.errors import UsageError
from turbotag.optim.algorithms import algorithm
from turbotag.optim.certificate import objective
from turbotag.optim.dca import DCA
from turbotag.optim.run import Dev, Limits, Saving, run
from turbotag.optim.sdca import SDCA, SETTLED
from turbotag.optim.trace import Trace
from turbotag.structures import convex_bound, second_order
from turbotag.structures.second_order import Approximation, Domain
from turbotag.structures.second_order_problem import BetheProblem, BoundProblem, believed_trees

LAM = 0.05
SMOOTH = [(1.0, 0.0), (1.0, 1.0), (3.0, 0.0), (3.0, 1.0)]
LOSSES = [*SMOOTH, (math.inf, 0.0), (math.inf, 1.0)]
EVEN = Approximation("convex", 1, 0.5, 1e9)  # no round is made: the split stays even
ROUNDS = Approximation("convex", 8, 0.5, 1e-4)
BETHE = Approximation("bethe", 30, 0.3, 1e-3)
FINE = Approximation("bethe", 500, 0.3, 1e-11)
both = pytest.mark.parametrize("kind", [BoundProblem, BetheProblem])
siblings = pytest.mark.parametrize("all_siblings", [False, True])
smooth = pytest.mark.parametrize(("beta", "gamma"), SMOOTH)
losses = pytest.mark.parametrize(("beta", "gamma"), LOSSES)


def rng(seed=0):
    return np.random.default_rng(seed)


@dataclass
class Known:
    """What is known of a sentence: its parts by name, features as a dense matrix, gold stats."""

    s: SecondOrder
    F: np.ndarray
    z: np.ndarray
    heads: np.ndarray


def draw(
    kind,
    seed=0,
    n=8,
    beta=1.0,
    gamma=0.0,
    all_siblings=False,
    approximation=None,
    single_root=True,
    longest=4,
    n_rows=25,
):
    """n sentences with random gold trees and candidates; a part has up to three features."""
    draws, known, sentences = rng(seed), [], []
    for length in draws.integers(1, longest + 1, n).tolist():
        every = trees(length, single_root)
        gold = every[draws.integers(len(every))]
        heads = [
            [h for h in range(length + 1) if h == g or (h != m and draws.random() < 0.7)]
            for m, g in enumerate(gold.tolist(), 1)
        ]
        cuts = np.cumsum([0, *map(len, heads)])
        s = SecondOrder(cuts, np.concatenate(heads).astype(np.int32), all_siblings)
        features = [draws.choice(n_rows, draws.integers(0, 4)) for _ in range(s.size)]
        F = np.transpose([np.bincount(rows, minlength=n_rows) for rows in features])
        z = s.stats([(h, m) for m, h in enumerate(gold.tolist(), 1)])
        sentences.append((heads, features))
        known.append(Known(s, F.astype(float), z, gold))
    arcs = assemble(sentences)
    approximation = approximation or (ROUNDS if kind is BoundProblem else BETHE)
    gold = np.concatenate([k.heads for k in known])
    settings = beta, gamma, single_root, all_siblings, approximation
    return kind(arcs, gold, n_rows, *settings), known


# ---- What every problem promises -----------------------------------------------------------------


class SecondOrderConformance(ProblemConformance):
    """Splits do not move: they are even, or those that the rounds end with."""

    kind = BoundProblem
    variants = (
        {"approximation": EVEN},
        {"approximation": EVEN, "all_siblings": True},
        {"approximation": ROUNDS, "single_root": False},
        {"approximation": ROUNDS, "all_siblings": True},
    )

    def make(self, beta, gamma, **variant):
        problem, known = draw(self.kind, 4, 5, beta, gamma, **variant)
        return problem, [self.instance(k, problem) for k in known]

    def instance(self, k, problem):
        heads, Z = structures(k.s, problem.single_root)
        costs = (heads != k.heads).sum(axis=1)
        return Instance(k.F, Z, costs, int(costs.argmin()))


class TestBound(SecondOrderConformance):
    def make(self, beta, gamma, **variant):
        problem, known = super().make(beta, gamma, **variant)
        if variant["approximation"] is ROUNDS:
            problem.hold(rng(1).normal(size=problem.shape) + 0.1)
            assert not problem.moving
        return problem, known

    def instance(self, k, problem):
        x, p = super().instance(k, problem), k.s.p
        roles = [convex_bound.together(e, p) for e in np.eye(k.s.size + 2 * k.s.E)]
        stats = np.array([convex_bound.copies(z, p) for z in x.stats])
        return Instance(x.F @ np.transpose(roles), stats, x.costs, x.gold)

    def check_loss(self, found, exact):
        assert found >= exact - 1e-9


class TestBethe(SecondOrderConformance):
    """Bethe's log Z is no bound, so that losses and gaps can be negative."""

    kind = BetheProblem
    variants = ({"approximation": FINE}, {"approximation": FINE, "all_siblings": True})
    test_loss_is_its_definition = None
    test_gaps_are_not_negative = None
    test_mixtures_gain_no_more_than_their_entropy = None

    def weights(self, problem, seed=1):
        """Small ones, so that beliefs converge."""
        return 0.3 * super().weights(problem, seed)


@both
def test_work_counts_the_features(kind):
    problem, known = draw(kind)
    rest = problem.work() - [k.F.sum() for k in known]
    assert (np.diff(rest[np.argsort(problem.lengths, kind="stable")]) >= 0).all()
    assert (rest > 0).all()


@both
def test_what_it_does_not_serve(kind):
    problem, _ = draw(kind)
    for call in (
        lambda: problem.infer(0, np.zeros(problem.size(0))),
        lambda: problem.kbest(0, np.zeros(problem.shape), 2),
        problem.radius_sq,
    ):
        with pytest.raises(UsageError, match="a second-order parser"):
            call()
    refusal = "--dual compact" if kind is BoundProblem else "not loopy"
    with pytest.raises(UsageError, match=refusal):
        SDCA(problem, LAM, rng(), dual="exact")


# ---- Losses --------------------------------------------------------------------------------------


@losses
@siblings
def test_the_bounds_loss_is_at_least_the_exact_one_while_splits_move(beta, gamma, all_siblings):
    for scale in (0.0, 0.3, 3.0):
        problem, known = draw(BoundProblem, 1, beta=beta, gamma=gamma, all_siblings=all_siblings)
        W = scale * rng(2).normal(size=problem.shape)
        for i, k in enumerate(known):
            heads, Z = structures(k.s, True)
            terms = (Z - k.z) @ (k.F.T @ W[:, 0]) + gamma * (heads != k.heads).sum(axis=1)
            exact = terms.max() if beta == math.inf else gibbs(beta * terms, Z)[0] / beta
            value, theta, nu = problem.oracle(i, W)
            loss = value - theta @ problem.gold(i)
            assert loss >= exact - 1e-9
            assert exact >= -1e-12
            entropy = value - theta @ nu
            assert entropy >= -1e-9
            assert beta < math.inf or abs(entropy) <= 1e-9
        tally = problem.tally()
        assert tally["calls"] == problem.n
        assert tally["rounds"] <= 8


def test_the_bounds_loss_is_never_counted_as_negative():
    problem, _ = draw(BoundProblem, n=60)
    for i in range(problem.n):
        problem.oracle(i, rng(i).normal(size=problem.shape))
    assert problem.tally()["negative_losses"] == 0


def test_bethes_loss_is_what_belief_propagation_says():
    problem, known = draw(BetheProblem, 3, beta=2.0, gamma=1.0, n=6)
    W, rounds, unsettled = 0.5 * rng(4).normal(size=problem.shape), [], 0
    for i, k in enumerate(known):
        theta, nu = k.F.T @ W[:, 0] - k.z * (np.arange(k.s.size) < k.s.E), np.empty(k.s.size)
        domain = Domain(k.s.p, True, BETHE)
        log_z, made, residual = second_order.bethe(theta, domain, 2.0, nu)
        found = problem.oracle(i, W)
        assert found[0] == pytest.approx(log_z / 2.0)
        np.testing.assert_allclose(found[1], theta)
        np.testing.assert_allclose(found[2], nu)
        rounds.append(made)
        unsettled += residual > BETHE.tolerance
    assert problem.tally() == {
        "calls": 6,
        "negative_losses": 0,
        "rounds": pytest.approx(np.mean(rounds), abs=0.006),
        "unconverged": unsettled,
    }
    assert problem.tally() == {"calls": 0, "negative_losses": 0, "rounds": 0.0, "unconverged": 0}


def test_bethes_loss_can_be_negative():
    """Where the gold tree is the best one; then DCA does nothing."""
    problem, known = draw(BetheProblem, n=100)
    W = 2.0 * rng(6).normal(size=problem.shape)
    best = [(k, *structures(k.s, True)) for k in known]
    gold = np.concatenate([y[(Z @ (k.F.T @ W[:, 0])).argmax()] for k, y, Z in best])
    problem = BetheProblem(problem.arcs, gold, problem.n_rows, 1.0, 0.0, approximation=BETHE)
    found = []
    for i in range(problem.n):
        value, theta, _ = problem.oracle(i, W)
        found.append(value - theta @ problem.gold(i))
    assert min(found) < -0.5
    assert problem.tally()["negative_losses"] >= 1
    dca = DCA(problem, LAM, rng())
    dca.W[:] = W
    dca.visit(np.array([np.argmin(found)]))
    np.testing.assert_array_equal(dca.W, W)


def test_tally_says_what_did_not_settle():
    for rounds, tolerance, share in ((1, 1e-9, 1.0), (1, 1e9, 0.0)):
        problem, _ = draw(
            BoundProblem, 3, approximation=Approximation("convex", rounds, 0.5, tolerance)
        )
        W = rng(1).normal(size=problem.shape)
        several = np.flatnonzero(
            np.diff(problem.arcs.cuts[problem.arcs.sentences]) > problem.lengths
        )
        for i in several:
            problem.oracle(i, W)
        tally = problem.tally()
        assert tally["rounds"] == share
        assert tally["unconverged"] == share * len(several) > 0 or share == 0.0


# ---- Training ------------------------------------------------------------------------------------


def watched(opt):
    """The optimizer with all its block gaps in a list."""
    seen, steps = [], opt.duals.steps

    def watch(visits, W, dual, shrunk):
        for t in range(visits.draws.shape[0]):
            one = slice(t, t + 1)
            visit = visits._replace(first=visits.first[one], draws=visits.draws[one])
            dual = steps(visit, W, dual, shrunk)
            seen.append(visits.gaps.min())
        return dual

    opt.duals.steps = watch
    return opt, seen


@smooth
@pytest.mark.parametrize("held", [False, True])
def test_sdca_reaches_the_optimum_where_splits_do_not_move(beta, gamma, held):
    problem, _ = draw(BoundProblem, 0, 8, beta, gamma, approximation=ROUNDS if held else EVEN)
    if held:
        problem.hold(rng(1).normal(size=problem.shape))
    expected = optimum(problem, LAM)[0]
    opt, gaps = watched(SDCA(problem, LAM, rng()))
    trace = Trace()
    certificate = run(opt, Limits(3000, 1e-6), trace).certificate
    assert certificate.gap <= 1e-6
    assert certificate.primal == pytest.approx(expected, abs=1e-6)
    assert certificate.dual <= expected + 1e-9
    assert min(gaps) >= -1e-9
    assert all(r.gap >= -1e-9 for r in trace.rows)


@losses
def test_certificates_hold_for_the_splits_of_their_pass(beta, gamma):
    """P, D and the block gaps recomputed; and the optimum at these splits lies between."""
    problem, known = draw(BoundProblem, 7, 8, beta, gamma)
    opt, gaps = watched(SDCA(problem, LAM, rng()))
    for epoch in range(1, SETTLED + 4):
        opt.epoch()
        opt.finish()
        certificate = opt.certify()
        assert min(gaps) >= -1e-9
        assert opt.block_gaps.min() >= -1e-9
        assert certificate.gap == pytest.approx(opt.block_gaps.mean(), abs=1e-9)
        assert problem.moving == (epoch <= SETTLED)
        w, losses, rewards = np.zeros(problem.n_rows), [], []
        for i, k in enumerate(known):
            mean = convex_bound.together(opt.point(i)[0], k.s.p)
            w += k.F @ (k.z - mean) / (LAM * problem.n)
        np.testing.assert_allclose(opt.W[:, 0], w, atol=1e-12)
        for i, k in enumerate(known):
            (mu, h), E = opt.point(i), k.s.E
            mean = convex_bound.together(mu, k.s.p)
            theta = k.F.T @ w - gamma * k.z * (np.arange(k.s.size) < E)
            value, pi, _ = problem.oracle(i, opt.W)
            losses.append(value - theta @ k.z)
            moved = pi @ mu - theta @ mean
            rewards.append(h + gamma * (k.s.n - k.z[:E] @ mean[:E]) + moved)
        half = 0.5 * LAM * w @ w
        assert certificate.primal == pytest.approx(half + np.mean(losses), abs=1e-9)
        assert certificate.dual == pytest.approx(-half + np.mean(rewards), abs=1e-9)
        if epoch in (1, SETTLED) and beta < math.inf:
            fixed, _ = draw(BoundProblem, 7, 8, beta, gamma)
            fixed.hold(opt.W)
            assert objective(fixed, LAM, opt.W)[0] == pytest.approx(certificate.primal, abs=1e-9)
            assert certificate.dual - 1e-9 <= optimum(fixed, LAM)[0] <= certificate.primal + 1e-9


@pytest.mark.parametrize(("beta", "gamma"), [*SMOOTH, (math.inf, 1.0)])
def test_sdca_holds_its_splits_and_gets_on(beta, gamma):
    problem, _ = draw(BoundProblem, 2, 8, beta, gamma)
    opt, gaps = watched(SDCA(problem, LAM, rng()))
    trace = Trace()
    certificate = run(opt, Limits(400, 1e-3), trace).certificate
    assert min(gaps) >= -1e-9
    assert not problem.moving
    assert 0.0 <= certificate.gap <= (1e-3 if beta < math.inf else 0.1)
    assert all(r.dual is None for r in trace.rows[:SETTLED] if not r.certified)
    duals = [r.dual for r in trace.rows[SETTLED:]]
    assert (np.diff(duals) >= -1e-9).all()  # from then on it is ascent
    assert [r.inference["calls"] for r in trace.rows if r.inference][:2] == [problem.n, problem.n]


@pytest.mark.parametrize(("seed", "n", "lam"), [(183, 1, 1.0), (23, 2, 0.3), (14, 2, 0.3)])
def test_sdca_with_all_siblings(seed, n, lam):
    problem, _ = draw(BoundProblem, seed, n, 1.0, 1.0, True, longest=3, n_rows=6 if n == 1 else 3)
    opt, gaps = watched(SDCA(problem, lam, rng()))
    run(opt, Limits(20, 1e-9), Trace())
    assert min(gaps) >= -1e-9


@siblings
@losses
def test_first_epoch_of_sdca_is_an_epoch_of_dca(beta, gamma, all_siblings):
    problem, _ = draw(BoundProblem, 8, 8, beta, gamma, all_siblings)
    sdca, dca = SDCA(problem, LAM, rng()), DCA(problem, LAM, rng())
    sdca.rng.random((problem.n, 2))  # sdca draws its samples before its permutation
    dca.rng.bit_generator.state = sdca.rng.bit_generator.state
    sdca.rng = rng()
    sdca.epoch()
    dca.epoch()
    np.testing.assert_allclose(sdca.W, dca.W, atol=1e-12)


@both
@siblings
@pytest.mark.parametrize("name", ["dca", "sgd"])
def test_online_optimizers(kind, name, all_siblings):
    problem, known = draw(kind, 9, 10, 1.0, 1.0, all_siblings, n_rows=80)
    trace = Trace()
    result = run(algorithm(name)(problem, 0.01, rng()), Limits(6), trace)
    assert result.certificate.gap >= 0.0
    assert result.certificate.primal < objective(problem, 0.01, np.zeros(problem.shape))[0]
    assert [r.inference["calls"] for r in trace.rows[:-1]][1:] == [problem.n] * 5
    assert trace.rows[-1].certified == (kind is BoundProblem)
    approximation = ROUNDS if kind is BoundProblem else BETHE
    heads = believed_trees(problem.arcs, result.weights, 1.0, True, all_siblings, approximation)
    assert np.mean(heads == np.concatenate([k.heads for k in known])) > 0.9


@pytest.mark.parametrize("saved_after", [2, SETTLED, SETTLED + 2])
def test_a_resumed_run_is_the_same_run(saved_after):
    """From before the splits are held, from just then, and from after."""

    def make():
        return SDCA(draw(BoundProblem, 10, 8, 1.0, 1.0)[0], LAM, rng(3))

    saved = []

    def save(arrays, text):
        saved.append(({k: v.copy() for k, v in arrays.items()}, text))

    limits = Limits(SETTLED + 4)
    one = run(make(), limits, Trace(), saving=Saving(save, 0))
    two = run(make(), limits, Trace(), resume=saved[saved_after - 1])
    assert one.weights.tobytes() == two.weights.tobytes()
    assert one.certificate == two.certificate


def test_the_best_epoch_may_be_one_before_the_splits_were_held():
    def trained(epochs):
        opt = SDCA(draw(BoundProblem, 10, 8, 1.0, 1.0)[0], LAM, rng(3))
        return run(opt, Limits(epochs), Trace(), Dev(lambda weights: float(opt.epochs == 2)))

    kept, ended = trained(SETTLED + 2), trained(2)
    assert kept.epoch == 2
    assert kept.weights.tobytes() == ended.weights.tobytes()
    assert kept.certificate == ended.certificate


def test_weights_may_be_changes_of_given_ones():
    """The certificate is that of the objective around them, at the splits that were held."""
    (problem, _), (plain, _) = (draw(BoundProblem, 11, 8, 1.0, 1.0) for _ in range(2))
    W = rng(1).normal(size=problem.shape)
    problem.anchor(W)
    opt, gaps = watched(SDCA(problem, LAM, rng()))
    found = run(opt, Limits(60, 1e-6), Trace())
    assert min(gaps) >= -1e-9
    assert 0.0 <= found.certificate.gap <= 1e-6
    plain.restore_splits(problem.splits)
    whole = objective(plain, LAM, W + found.weights)[0] - objective(plain, LAM, W)[0]
    square = 0.5 * LAM * (np.vdot(W + found.weights, W + found.weights) - np.vdot(W, W))
    own = 0.5 * LAM * np.vdot(found.weights, found.weights)
    start = objective(problem, LAM, np.zeros_like(W))[0]
    assert found.certificate.primal - start == pytest.approx(whole - square + own, abs=1e-9)
    assert found.certificate.primal < start


# ---- Decoding ------------------------------------------------------------------------------------


@siblings
@pytest.mark.parametrize("approximation", [ROUNDS, BETHE])
@pytest.mark.parametrize("beta", [1.0, 3.0])
def test_believed_trees(approximation, beta, all_siblings):
    problem, known = draw(BoundProblem, 12, all_siblings=all_siblings)
    W = rng(1).normal(size=problem.shape)
    heads = believed_trees(problem.arcs, W, beta, True, all_siblings, approximation)
    expected = []
    for k in known:
        mu = np.empty(k.s.size)
        second_order.marginals(k.F.T @ W[:, 0], Domain(k.s.p, True, approximation), beta, mu)
        every, Z = structures(k.s, True)
        expected += every[(Z[:, : k.s.E] @ mu[: k.s.E]).argmax()].tolist()
    assert heads.tolist() == expected


def test_trees_of_largest_score():
    problem, known = draw(BoundProblem, 12)
    W = rng(1).normal(size=problem.shape)
    heads = believed_trees(problem.arcs, W, math.inf, True, False, ROUNDS)
    expected = np.empty_like(heads)
    for k, (a, b) in zip(known, itertools.pairwise(problem.arcs.sentences), strict=True):
        second_order.argmax(k.F.T @ W[:, 0], Domain(k.s.p, True, ROUNDS), expected[a:b])
    assert heads.tolist() == expected.tolist()
