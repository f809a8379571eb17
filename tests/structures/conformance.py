"""What every structure promises, as test classes that the tests of each structure inherit.

A subclass names its module and draws small instances with all their structures; what remains for
its own file is what only that structure can get wrong.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import pytest

from tests.oracles import Gibbs, random_mask, sequences, stats
from tests.tree_oracles import draw, is_projective, is_tree, trees
from turbotag.structures import chain

BETAS = (1.0, 0.3, 3.0)
DRAWS = 5_000
both = pytest.mark.parametrize("single_root", [False, True])


@dataclass
class Case:
    """Scores, a domain and, for small ones, all structures of it with the parts they have."""

    scores: np.ndarray
    domain: tuple
    every: np.ndarray
    stats: np.ndarray

    def gibbs(self, beta: float = 1.0) -> Gibbs:
        used, each = self.stats > 0, np.zeros(self.stats.shape)  # scores of others may be NaN
        np.multiply(self.stats, self.scores, out=each, where=used)
        return Gibbs(each.sum(axis=tuple(range(1, each.ndim))), self.stats, beta)

    def at(self, structure: np.ndarray) -> int:
        """Which of all structures it is: there must be one."""
        (found,) = np.flatnonzero((self.every == structure).all(axis=1))
        return int(found)

    def new(self) -> np.ndarray:
        """Room for a structure."""
        return np.full(self.every.shape[1], -1, np.int32)


class Instances:
    """What a subclass says of its structure."""

    structure: ModuleType
    sizes = range(1, 6)

    def draw(self, size: int, seed: int, banned: bool, scale: float = 1.0) -> Case:
        """A random instance; `banned` leaves some structures out, all of them perhaps."""
        raise NotImplementedError

    def cases(self, scale: float = 1.0):
        for size, banned, seed in itertools.product(self.sizes, (False, True), range(4)):
            yield self.draw(size, seed, banned, scale)

    def impossible(self):
        """Instances without a structure."""
        return [case for case in self.cases() if not (case.gibbs().scores > -math.inf).any()]

    def constant(self, case: Case, stats: np.ndarray) -> np.ndarray:
        """Sums of parts that are the same for all structures, such as the labels of a word."""
        raise NotImplementedError

    def counted(self):
        """(a large instance, the logarithm of the number of its structures)."""
        raise NotImplementedError

    def probabilities(self, case: Case, mu: np.ndarray) -> np.ndarray:
        """The numbers of mu that are probabilities."""
        return mu

    def marginals(self, case: Case, beta: float = 1.0) -> tuple[float, np.ndarray]:
        before, mu = case.scores.copy(), np.full_like(case.scores, np.nan)
        log_z = self.structure.marginals(case.scores, *case.domain, beta, mu)
        np.testing.assert_array_equal(case.scores, before)
        return log_z, mu

    def argmax(self, case: Case) -> tuple[float, np.ndarray]:
        best = case.new()
        return self.structure.argmax(case.scores, *case.domain, best), best


class Probabilities(Instances):
    """Exact or not, marginals are probabilities, and the verbs agree with each other."""

    @pytest.mark.parametrize("scale", [1.0, 30.0, 700.0])
    def test_marginals_are_probabilities(self, scale):
        for case in self.cases(scale):
            _, mu = self.marginals(case)
            p = self.probabilities(case, mu)
            assert p.min() >= 0.0
            assert p.max() <= 1.0 + 1e-9

    def test_verbs_agree(self):
        for beta, case in zip(itertools.cycle(BETAS), self.cases(), strict=False):
            log_z, mu = self.marginals(case, beta)
            arguments = case.scores, *case.domain, beta
            assert self.structure.log_partition(*arguments) == pytest.approx(log_z, rel=1e-13)
            if log_z > -math.inf:
                expected = log_z - beta * float(case.scores[mu > 0] @ mu[mu > 0])
                assert self.structure.entropy(*arguments) == pytest.approx(expected, abs=1e-9)


class Exact(Probabilities):
    """Sums are those of all structures."""

    tolerance = 1e-10

    def exact_parts(self, case: Case) -> np.ndarray:
        """Which marginals are exact."""
        return np.full(case.scores.shape, True)

    def check(self, case: Case, beta: float = 1.0, tolerance: float | None = None) -> None:
        tolerance = tolerance or self.tolerance
        exact = case.gibbs(beta)
        log_z, mu = self.marginals(case, beta)
        if exact.log_partition == -math.inf:
            assert log_z == -math.inf
            assert not mu.any()
            return
        assert log_z == pytest.approx(exact.log_partition, rel=1e-12, abs=tolerance)
        at = self.exact_parts(case)
        np.testing.assert_allclose(mu[at], exact.marginals[at], atol=tolerance)
        entropy = self.structure.entropy(case.scores, *case.domain, beta)
        assert entropy == pytest.approx(exact.entropy, abs=tolerance * max(1.0, abs(log_z)))
        sums = self.constant(case, mu)
        np.testing.assert_allclose(sums, self.constant(case, case.stats[0]), atol=tolerance)

    def test_sums_are_those_of_all_structures(self):
        for beta, case in zip(itertools.cycle(BETAS), self.cases(), strict=False):
            self.check(case, beta)

    def test_counts(self):
        """Where all scores are 0, log Z and the entropy are the log of the number of structures."""
        for case in self.cases():
            case.scores[:] = 0.0
            log_z = self.structure.log_partition(case.scores, *case.domain, 1.0)
            assert log_z == pytest.approx(math.log(len(case.every)), abs=self.tolerance)
        for case, log_count in self.counted():
            for verb in (self.structure.log_partition, self.structure.entropy):
                assert verb(case.scores, *case.domain, 0.7) == pytest.approx(log_count, rel=1e-12)

    def test_marginals_are_the_derivatives_of_log_partition(self):
        step, beta, log_partition = 1e-5, 0.7, self.structure.log_partition
        for seed, banned in itertools.product(range(2), (False, True)):
            case = self.draw(4, seed, banned)
            _, mu = self.marginals(case, beta)
            for part in zip(*np.nonzero(self.exact_parts(case) & (mu > 0)), strict=True):
                up, down = case.scores.copy(), case.scores.copy()
                up[part] += step
                down[part] -= step
                both = (log_partition(s, *case.domain, beta) for s in (up, down))
                assert np.subtract(*both) / (2 * step) == pytest.approx(beta * mu[part], abs=1e-7)


class Extreme(Exact):
    """Any scores that a double can hold."""

    @pytest.mark.parametrize("scale", [200.0, 700.0])
    def test_huge_scores(self, scale):
        for seed, banned in itertools.product(range(8), (False, True)):
            case = self.draw(4, seed, banned, scale)
            self.check(case, tolerance=1e-9)
            signs = np.random.default_rng(seed).choice([-scale, scale], case.scores.shape)
            case.scores = np.where(case.scores == -np.inf, case.scores, signs)
            self.check(case, tolerance=1e-9)

    @pytest.mark.parametrize("scale", [1e6, 1e10, 1e13, 1e16, 1e20, 1e26])
    def test_scores_that_rounding_decides(self, scale):
        """Marginals are those of some distribution, near the best structure."""
        for seed, beta in itertools.product(range(12), (1.0, 1.1e3)):
            case, rng = self.draw(5, seed, False), np.random.default_rng(seed)
            lone = np.full(case.scores.size, -1.0)
            lone[rng.integers(lone.size)] = 1.0
            signs, spread = rng.choice([-1.0, 1.0], lone.size), rng.uniform(-1, 1, lone.size)
            for scores in (lone, signs, spread):
                case.scores = scale * scores.reshape(case.scores.shape)
                log_z, mu = self.marginals(case, beta)
                p = self.probabilities(case, mu)
                assert p.min() >= 0.0
                assert p.max() <= 1.0 + 1e-12
                expected = self.constant(case, case.stats[0])
                np.testing.assert_allclose(self.constant(case, mu), expected, atol=2e-3)
                best = beta * self.argmax(case)[0]
                assert log_z == pytest.approx(best, rel=1e-12, abs=20.0)


class Best(Instances):
    """The best structure."""

    @pytest.mark.parametrize("scale", [1.0, 700.0])
    def test_argmax(self, scale):
        for case in self.cases(scale):
            before, exact = case.scores.copy(), case.gibbs()
            value, best = self.argmax(case)
            assert value == pytest.approx(exact.scores.max(initial=-math.inf), rel=1e-12)
            if value > -math.inf:
                np.testing.assert_array_equal(best, case.every[exact.scores.argmax()])
            np.testing.assert_array_equal(case.scores, before)

    def test_argmax_with_ties(self):
        for k, case in enumerate(self.cases()):
            draws = np.random.default_rng(k).integers(0, 2, case.scores.shape)
            case.scores = np.where(case.scores == -np.inf, case.scores, draws)
            value, best = self.argmax(case)
            exact = case.gibbs()
            assert value == pytest.approx(exact.scores.max(initial=-math.inf))
            assert value == -math.inf or exact.scores[case.at(best)] == pytest.approx(value)

    def test_indicator(self):
        case = self.draw(4, 1, False)
        for structure, expected in zip(case.every, case.stats, strict=True):
            found = np.full_like(case.scores, np.nan)
            self.indicator(case, structure.astype(np.int32), found)
            np.testing.assert_array_equal(found, expected)

    def indicator(self, case: Case, structure: np.ndarray, found: np.ndarray) -> None:
        raise NotImplementedError


class KBest(Instances):
    """The k best structures."""

    def check_list(self, case: Case, k: int) -> None:
        exact = case.gibbs()
        found, values = self.structure.kbest(case.scores, *case.domain, k)
        possible = np.sort(exact.scores[exact.scores > -math.inf])[::-1]
        np.testing.assert_allclose(values, possible[:k], atol=1e-10)
        assert len({tuple(y) for y in found.tolist()}) == len(found) == len(values)
        for y, value in zip(found, values, strict=True):
            assert exact.scores[case.at(y)] == pytest.approx(value)

    def test_kbest(self):
        for k, case in zip(itertools.cycle([1, 7, 40]), self.cases(), strict=False):
            if len(case.every) < 200:
                self.check_list(case, k)

    def test_kbest_gives_every_structure_once(self):
        for seed in range(4):
            case = self.draw(3, seed, seed % 2 == 1)
            case.scores = np.round(case.scores)  # with ties
            self.check_list(case, 10_000)


class Samples(Instances):
    """Random structures."""

    @pytest.mark.parametrize("banned", [False, True])
    def test_samples_have_the_right_frequencies(self, banned):
        for seed in (2, 3):
            case, beta = self.draw(3, seed, banned), 0.8
            exact, rng, drawn = case.gibbs(beta), np.random.default_rng(seed), case.new()
            if exact.log_partition == -math.inf:
                continue
            index = {tuple(y): n for n, y in enumerate(case.every.tolist())}
            counts = np.zeros(len(case.every))
            for _ in range(DRAWS):
                log_z = self.structure.sample(case.scores, *case.domain, beta, rng, drawn)
                counts[index[tuple(drawn.tolist())]] += 1
            assert log_z == pytest.approx(exact.log_partition)
            assert not counts[exact.p == 0].any()
            expected = DRAWS * exact.p
            often = expected > 5
            chi_sq = float(((counts - expected)[often] ** 2 / expected[often]).sum())
            assert chi_sq < often.sum() + 5 * math.sqrt(2 * often.sum())
            _, mu = self.marginals(case, beta)
            mean = np.tensordot(counts / DRAWS, case.stats, axes=1)
            np.testing.assert_allclose(mean, mu, atol=0.05)

    def test_same_seed_same_sample(self):
        case, found = self.draw(5, 6, False), []
        for _ in range(2):
            drawn = case.new()
            self.structure.sample(case.scores, *case.domain, 1.0, np.random.default_rng(3), drawn)
            found.append(drawn)
        np.testing.assert_array_equal(*found)


class Conformance(Extreme, Best, KBest, Samples):
    """All verbs."""

    def test_no_structure(self):
        rng = np.random.default_rng(0)
        for case in self.impossible():
            self.check(case)
            assert self.argmax(case)[0] == -math.inf
            sampled = self.structure.sample(case.scores, *case.domain, 1.0, rng, case.new())
            assert sampled == -math.inf
            found, values = self.structure.kbest(case.scores, *case.domain, 5)
            assert found.shape == (0, case.every.shape[1])
            assert values.shape == (0,)


# ---- Chains and trees ----------------------------------------------------------------------------


class ChainConformance(Conformance):
    """Label sequences; `order` 0 has no mask."""

    order = 1

    def instance(self, T: int, K: int, rng: np.random.Generator, banned: bool, scale: float):
        """(scores, mask)."""
        mask = random_mask(rng, K) if banned and self.order else chain.free(K)
        size = T * K + sum(K**o for o in range(2, self.order + 2))
        return scale * rng.normal(size=size), mask

    def draw(self, size: int, seed: int, banned: bool, scale: float = 1.0) -> Case:
        rng = np.random.default_rng([size, seed])
        K = int(rng.integers(1, 5)) if size < 5 else 3
        scores, mask = self.instance(size, K, rng, banned, scale)
        return self.case(scores, size, K, mask)

    def case(self, scores: np.ndarray, T: int, K: int, mask) -> Case:
        every = np.array(list(sequences(T, K, mask)), np.int32).reshape(-1, T)
        z = np.array([stats(tuple(y), K, self.order) for y in every]).reshape(-1, scores.size)
        return Case(scores, mask if self.order else (K,), every, z)

    def impossible(self):
        """No label pair but 0 0, which cannot start, or cannot end, a sentence."""
        allowed = np.zeros((2, 2))
        allowed[0, 0] = 1.0
        free, shut = np.ones(2), np.array([0.0, 1.0])
        for start, end, T in itertools.product((free, shut), (free, shut), (2, 3, 4)):
            if start is shut or end is shut:
                for scale in (1.0, 700.0):
                    scores = scale * np.random.default_rng(T).normal(size=2 * T + 4)
                    scores = np.append(scores, np.zeros(8 if self.order == 2 else 0))
                    yield self.case(scores, T, 2, (allowed, start, end))

    def constant(self, case: Case, stats: np.ndarray) -> np.ndarray:
        """The labels of each word, and all transitions."""
        T, K = case.every.shape[1], self.labels(case)
        rest = [stats[T * K : T * K + K * K].sum()] if self.order else []
        return np.append(stats[: T * K].reshape(T, K).sum(axis=1), rest)

    def labels(self, case: Case) -> int:
        return case.domain[-1].size if self.order else case.domain[0]

    def probabilities(self, case: Case, mu: np.ndarray) -> np.ndarray:
        return mu[: case.every.shape[1] * self.labels(case)]

    def counted(self):
        for T, K in ((100, 1), (30, 5), (500, 2)):
            scores, mask = self.instance(T, K, np.random.default_rng(0), False, 0.0)
            domain = mask if self.order else (K,)
            yield Case(scores, domain, np.zeros((0, T)), np.zeros((0, 0))), T * math.log(K)

    def indicator(self, case: Case, structure: np.ndarray, found: np.ndarray) -> None:
        self.structure.indicator(structure, self.labels(case), found)


class TreeConformance(Conformance):
    """Dependency trees, with a single root at even seeds; a third of the arcs may be banned."""

    projective = False

    def draw(self, size: int, seed: int, banned: bool, scale: float = 1.0) -> Case:
        return self.case(draw(size, seed, banned, scale)[0], single_root=seed % 2 == 0)

    def case(self, scores: np.ndarray, single_root: bool) -> Case:
        every = trees(len(scores) - 1, single_root, self.projective)
        z, words = np.zeros((len(every), *scores.shape)), np.arange(1, len(scores))
        z[np.arange(len(every))[:, None], every, words] = 1.0
        return Case(scores, (single_root,), every, z)

    def impossible(self):
        """A word without a head; a cycle as the only choice; no root."""
        headless, cycle, rootless = np.zeros((4, 4)), np.full((4, 4), -np.inf), np.zeros((4, 4))
        headless[:, 2] = rootless[0] = -np.inf
        cycle[[2, 1, 0], [1, 2, 3]] = 0.0
        for scores, single_root in itertools.product((headless, cycle, rootless), (False, True)):
            yield self.case(scores, single_root)

    def constant(self, case: Case, stats: np.ndarray) -> np.ndarray:
        """The heads of each word, and the root's modifiers if there is one."""
        roots = [stats[0].sum()] if case.domain[0] else []
        return np.append(stats[:, 1:].sum(axis=0), roots)

    def indicator(self, case: Case, structure: np.ndarray, found: np.ndarray) -> None:
        self.structure.indicator(structure, found)

    def count(self, n: int, single_root: bool) -> int:
        """The number of trees of n words."""
        raise NotImplementedError

    def counted(self):
        for n, single_root in itertools.product((30, 100), (False, True)):
            scores, none = np.zeros((n + 1, n + 1)), np.zeros((0, n))
            yield Case(scores, (single_root,), none, none), math.log(self.count(n, single_root))

    @both
    def test_many_roots_only(self, single_root):
        scores = np.full((3, 3), -np.inf)
        scores[0] = 0.5
        case = self.case(scores, single_root)
        self.check(case)
        assert self.argmax(case)[0] == (-math.inf if single_root else 1.0)

    @both
    def test_a_cycle_of_best_heads(self, single_root):
        """1 and 2 are each other's heads but for one tree in e^300; so are 3 and 4."""
        for depth in (20.0, 300.0, 590.0, 2000.0):
            case = self.case(-depth + draw(5, 0)[0], single_root)
            for a, b in ((1, 2), (3, 4)):
                case.scores[[a, b], [b, a]] += depth
            self.check(case)
            _, mu = self.marginals(case)
            assert mu[1, 2] + mu[2, 1] == pytest.approx(1.0, abs=1e-6)

    @both
    @pytest.mark.parametrize("scale", [0.0, 1.0, 30.0, 150.0, 700.0])
    def test_a_long_sentence(self, single_root, scale):
        n = 50
        scores, rng = draw(n, 2, scale=scale)
        case = Case(scores, (single_root,), np.zeros((0, n)), np.zeros((0, n)))
        log_z, mu = self.marginals(case)
        assert mu.min() >= 0.0
        assert not mu[:, 0].any()
        np.testing.assert_allclose(self.constant(case, mu), 1.0, atol=1e-8)
        assert mu[0].sum() >= 1.0 - 1e-8
        value, best = self.argmax(case)
        assert value - 1e-9 * abs(log_z) <= log_z <= value + n * math.log(n + 1)
        assert scores[best, np.arange(1, n + 1)].sum() == pytest.approx(value)
        assert is_tree(best)
        assert (best == 0).sum() == 1 or not single_root
        assert is_projective(best) or not self.projective
        scores[:, 1:] += 300.0 * rng.normal(size=n)  # the arcs of one word by one number
        np.testing.assert_allclose(self.marginals(case)[1], mu, atol=1e-10)
