"""SDCA on shards: the dual rises in every round, bytes depend on shards alone, proofs hold."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.arc_problems import arc_problem
from tests.problems import chain_problem, optimum
from turbotag.distributed import changes
from turbotag.distributed.changes import Piece
from turbotag.distributed.engine import LostShards
from turbotag.distributed.sharded import ShardedSDCA
from turbotag.errors import UsageError
from turbotag.optim.certificate import certify_dual
from turbotag.optim.run import Limits, run
from turbotag.optim.sdca import SDCA
from turbotag.optim.trace import Trace
from turbotag.training.options import options_for

LAM = 0.05
PROBLEMS = {
    "chain": lambda **loss: chain_problem(n=40, **loss),
    "multiclass": lambda **loss: chain_problem(n=40, order=0, **loss),
    "tree": lambda **loss: arc_problem(n=40, **loss),
    "projective": lambda **loss: arc_problem(n=40, decoder="projective", **loss),
}
structures = pytest.mark.parametrize("structure", PROBLEMS)


def sharded(problem, shards, threads=1, **params):
    return ShardedSDCA(problem, LAM, np.random.default_rng(1), shards, threads, **params)


@structures
@pytest.mark.parametrize("shards", [1, 2, 4, 8])
def test_certificates_of_any_number_of_shards_bracket_the_same_optimum(structure, shards):
    problem = PROBLEMS[structure](beta=2.0, gamma=0.5)
    expected, _ = optimum(problem, LAM)
    found = run(sharded(problem, shards), Limits(300, 1e-6), Trace()).certificate
    assert found.gap <= 1e-6
    assert found.dual - 1e-9 <= expected <= found.primal + 1e-9


@pytest.mark.parametrize(("beta", "gamma"), [(1.0, 0.0), (math.inf, 1.0)])
@pytest.mark.parametrize("shards", [1, 3, 7])
def test_the_dual_never_falls_and_is_what_a_full_pass_finds(shards, beta, gamma):
    problem = chain_problem(n=40, beta=beta, gamma=gamma)
    opt = sharded(problem, shards)
    for _ in range(6):
        opt.epoch()
        assert min(opt.rises) >= -1e-12
        running = opt.dual
        full, gaps = certify_dual(problem, LAM, opt.W, opt.point)
        certificate = opt.certify()
        assert certificate.dual == pytest.approx(running, abs=1e-10)
        assert certificate.as_dict() == pytest.approx(full.as_dict(), abs=1e-10)
        np.testing.assert_allclose(opt.state()["gaps"], gaps, atol=1e-10)
        assert gaps.min() >= -1e-9
        W = opt.W.copy()
        opt.finish()
        np.testing.assert_allclose(opt.W, W, atol=1e-10)


@structures
def test_bytes_depend_on_shards_alone(structure):
    found = {}
    for shards in (2, 4):
        for threads in (1, 2, 4):
            opt = sharded(PROBLEMS[structure](), shards, threads)
            opt.epoch()
            opt.epoch()
            found.setdefault(shards, set()).add(opt.W.tobytes() + opt.state()["mu"].tobytes())
            opt.close()
    assert [len(each) for each in found.values()] == [1, 1]


def test_copies_of_all_shards_are_equal_between_rounds():
    opt = sharded(chain_problem(n=40), 4)
    opt.epoch()
    first, *others = opt.engine.call("weights", [()] * 4)
    assert all((first == other).all() for other in others)


def test_one_shard_needs_as_many_epochs_as_sdca():
    problem = chain_problem(n=40)
    plain = SDCA(problem, LAM, np.random.default_rng(1))
    counts = []
    for opt in (plain, sharded(problem, 1)):
        run(opt, Limits(300, 1e-6), Trace())
        counts.append(opt.epochs)
    assert abs(counts[0] - counts[1]) <= 3


def test_a_resumed_run_is_bit_identical():
    whole, half = sharded(chain_problem(n=40), 3), sharded(chain_problem(n=40), 3)
    for opt in (whole, half):
        opt.epoch()
        opt.epoch()
    other = sharded(chain_problem(n=40), 3, 2)
    other.restore({name: array.copy() for name, array in half.state().items()})
    other.epochs, other.rng.bit_generator.state = half.epochs, half.rng.bit_generator.state
    for opt in (whole, other):
        opt.epoch()
    assert whole.W.tobytes() == other.W.tobytes()
    assert whole.dual == other.dual


def test_more_shards_than_sentences():
    opt = sharded(chain_problem(n=3), 8, 2)
    assert opt.S == 3
    assert run(opt, Limits(300, 1e-6), Trace()).certificate.gap <= 1e-6


def test_merged_pieces_are_the_sum():
    rng = np.random.default_rng(5)
    rows = [rng.choice(30, 12, replace=False) for _ in range(3)]
    whole = [Piece(r.astype(np.int32), rng.normal(size=(12, 4))) for r in rows]
    expected = np.zeros((30, 4))
    for piece in whole:
        expected[piece.rows] += piece.changes
    total, norm = np.zeros((30, 4)), 0.0
    place = np.full(10, -1, np.int64)
    for j in range(3):
        mine = [Piece(p.rows[p.rows % 3 == j], p.changes[p.rows % 3 == j]) for p in whole]
        merged, square = changes.merge(mine, place)
        total[merged.rows] += merged.changes
        norm += square
        assert (place == -1).all()
    np.testing.assert_allclose(total, expected)
    assert norm == pytest.approx(np.vdot(expected, expected))


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"threads": 2, "algorithm": "dca"}, "sdca"),
        ({"shards": 2, "params": {"dual": "exact"}}, "compact"),
        ({"threads": 0}, "threads"),
        ({"shards": 2, "params": {"l1": 0.1}}, "--l1"),
    ],
)
def test_what_shards_do_not_serve_is_refused(given, match):
    with pytest.raises(UsageError, match=match):
        options_for("pos", train=b"", **given)


def test_threads_are_no_part_of_what_a_training_is():
    def dealt(**given):
        fit = options_for("pos", train=b"", **given).fit
        return replace(fit, epochs=3).dealt

    assert dealt(threads=4) == dealt(threads=2, shards=4) == dealt(shards=4) == 4
    assert dealt() == 0


class Backwards:
    """An engine of one's own, with data of its own for each shard: it calls the shards from the
    last to the first."""

    def __init__(self, parts):
        self.parts, self.S = [part.alone() for part in parts], len(parts)
        self.shards = [part.shard() for part in self.parts]

    def call(self, method, arguments):
        order = [k for k in reversed(range(self.S)) if arguments[k] is not None]
        found = {k: getattr(self.shards[k], method)(*arguments[k]) for k in order}
        return [found.get(k) for k in range(self.S)]

    def replace(self, shards):
        for k in shards:
            self.shards[k] = self.parts[k].shard()

    def close(self):
        pass


@structures
def test_any_engine_gives_the_bytes_of_threads(structure):
    both = [sharded(PROBLEMS[structure](), 3, **given) for given in ({}, {"engine": Backwards})]
    for opt in both:
        for _ in range(3):
            opt.epoch()
    assert both[0].W.tobytes() == both[1].W.tobytes()
    assert both[0].dual == both[1].dual
    one, other = (opt.state() for opt in both)
    assert all(one[name].tobytes() == other[name].tobytes() for name in one)


class Lossy(Backwards):
    """Loses shards in some calls, some of them after the call was carried out by others. In some
    more, a shard gives up, but is not lost."""

    def __init__(self, parts, seed):
        super().__init__(parts)
        self.rng, self.losses = np.random.default_rng(seed), 0

    def call(self, method, arguments):
        if self.rng.random() < 0.03:
            k = int(self.rng.integers(self.S))
            super().call(method, [None if j == k else a for j, a in enumerate(arguments)])
            if self.rng.random() < 0.3:
                raise LostShards([])
            self.losses += 1
            self.shards[k] = None
            raise LostShards([k])
        return super().call(method, arguments)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("saves", [False, True])
def test_lost_workers_do_not_spoil_the_certificate(seed, saves):
    problem = chain_problem(n=40)
    expected, _ = optimum(problem, LAM)
    engines = []
    opt = sharded(problem, 4, engine=lambda parts: engines.append(Lossy(parts, seed)) or engines[0])
    for _ in range(6):
        opt.epoch()
        assert min(opt.rises, default=0.0) >= -1e-12
        if saves:
            opt.state()
    assert engines[0].losses
    assert len(opt.notes()) >= engines[0].losses
    engines[0].call = Backwards.call.__get__(engines[0])
    found = run(opt, Limits(300, 1e-6), Trace()).certificate
    assert found.gap <= 1e-6
    assert found.dual - 1e-9 <= expected <= found.primal + 1e-9
    full, _ = certify_dual(problem, LAM, opt.W, opt.point)
    assert found.as_dict() == pytest.approx(full.as_dict(), abs=1e-10)
