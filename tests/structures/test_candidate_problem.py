"""Sparse rows and candidate lists as training problems."""

import itertools

import numpy as np
import pytest

from tests.problems import chain_problem
from tests.structures.problem_conformance import ExactProblem, Instance
from turbotag.structures import candidates
from turbotag.structures.candidate_lists import Lists, Parts, met, slots, whole
from turbotag.structures.candidate_problem import CandidateProblem
from turbotag.structures.sparse_rows import SparseRowProblem, seen
from turbotag.structures.transitions import NONE, transitions

SMALL = {"n": 5, "longest": 4, "K": 4}


def occurrences(problem):
    return problem.offsets, problem.rows, problem.positions, problem.values


class TestSparseRows(ExactProblem):
    def make(self, beta, gamma):
        given = chain_problem(order=0, **SMALL)
        where = given.sentences, occurrences(given), given.labels
        cells = seen(*where, given.n_attributes, given.K)
        problem = SparseRowProblem(*where, cells, given.K, beta, gamma)
        return problem, [self.known(problem, i) for i in range(problem.n)]

    def known(self, problem, i):
        a, b = problem.sentences[i], problem.sentences[i + 1]
        gold, K = problem.labels[a:b], problem.K
        F = np.zeros((problem.cells.size, problem.size(i)))
        for o in range(problem.offsets[i], problem.offsets[i + 1]):
            row = problem.rows[o]
            for c in range(problem.cells.first[row], problem.cells.first[row + 1]):
                F[c, problem.positions[o] * K + problem.cells.labels[c]] += problem.values[o]
        every = np.array(list(itertools.product(range(K), repeat=b - a)))
        z = np.eye(K)[every].reshape(len(every), -1)
        costs = (every != gold).sum(axis=1)
        return Instance(F, z, costs, int(costs.argmin()))

    def test_cells_are_those_of_gold(self):
        problem, _ = self.make(1.0, 0.0)
        first, labels = problem.cells
        found = {
            (r, int(k)) for r in range(first.size - 1) for k in labels[first[r] : first[r + 1]]
        }
        token = problem.positions + np.repeat(problem.sentences[:-1], np.diff(problem.offsets))
        assert found == set(zip(problem.rows.tolist(), problem.labels[token].tolist(), strict=True))
        assert len(found) == problem.cells.size < problem.n_attributes * problem.K


class TestCandidates(ExactProblem):
    """Lists of one to three of five labels; labels have two parts beside the whole, and share
    weights by them or not."""

    variants = ({"order": 0, "shared": False}, {"order": 1, "shared": False},
                {"order": 0, "shared": True}, {"order": 1, "shared": True})  # fmt: skip
    parts = (["a", "x", "1"], ["b", "x", "1"], ["c", "x", "2"], ["d", "y", "1"], ["e", "y", "3"])

    def make(self, beta, gamma, order, shared):
        given, rng = chain_problem(n=5, longest=4, K=5), np.random.default_rng(5)
        lists = [sorted({gold, *rng.integers(0, 5, 2).tolist()}) for gold in given.labels.tolist()]
        cuts = np.concatenate([[0], np.cumsum([len(words) for words in lists])])
        found = Lists(cuts, np.array([k for words in lists for k in words], np.int32))
        where = given.sentences, occurrences(given)
        names = sorted({part for label in self.parts for part in label})
        of = [sorted(map(names.index, label)) for label in self.parts]
        every = Parts(np.arange(6) * 3, np.array(of, np.int32).reshape(-1))
        parts = every if shared else whole(given.K)
        here = slots(found, parts)
        cells = met(*where, here.lists, given.n_attributes, parts.n)
        pairs = transitions(self.parts) if order else NONE
        problem = CandidateProblem(*where, given.labels, here, cells, pairs, beta, gamma)
        alone = [[k] for k in range(given.K)]
        known = [
            self.known(problem, given, lists, of if shared else alone, i) for i in range(problem.n)
        ]
        return problem, known

    def known(self, problem, given, lists, of, i):
        """of: the parts of each label. What all candidates of a word have has no cell there."""
        a, b = given.sentences[i], given.sentences[i + 1]
        here, gold, cells = lists[a:b], given.labels[a:b], problem.cells
        cuts = np.concatenate([[0], np.cumsum([len(words) for words in here])])
        F = np.zeros((problem.shape[0], problem.size(i)))
        for o in range(given.offsets[i], given.offsets[i + 1]):
            row, t = given.rows[o], given.positions[o]
            for c in range(cells.first[row], cells.first[row + 1]):
                having = [n for n, k in enumerate(here[t]) if cells.labels[c] in of[k]]
                if len(having) < len(here[t]):
                    F[c, cuts[t] + np.array(having, int)] += given.values[o]
        at = cuts[-1]
        if problem.pairs.order:
            for t in range(1, b - a):
                for j, k in itertools.product(here[t - 1], here[t]):
                    begin = cells.size
                    for g in range(3):
                        names = sorted({label[g] for label in self.parts})
                        x, y = names.index(self.parts[j][g]), names.index(self.parts[k][g])
                        F[begin + x * len(names) + y, at] = 1.0
                        begin += len(names) ** 2
                    at += 1
        every = np.array(list(itertools.product(*here)))
        z = np.zeros((len(every), problem.size(i)))
        for y, stats in zip(every, z, strict=True):
            places = [words.index(k) for words, k in zip(here, y, strict=True)]
            candidates.indicator(np.array(places), cuts, stats)
        costs = (every != gold).sum(axis=1)
        return Instance(F, z, costs, int(costs.argmin()))

    def test_gold_must_be_a_candidate(self):
        problem, _ = self.make(1.0, 0.0, 1, True)
        lists = Lists(problem.lists.cuts, problem.lists.labels * 0)
        where = problem.sentences, occurrences(chain_problem(n=5, longest=4, K=5))
        gold = np.ones(lists.n_words, np.int32)
        with pytest.raises(ValueError, match="is no candidate"):
            CandidateProblem(*where, gold, slots(lists, whole(5)), problem.cells)

    def test_every_part_that_tells_candidates_apart_has_a_cell(self):
        """The rows of the features of a word have its slots, and no row has more than it met."""
        problem, _ = self.make(1.0, 0.0, 0, True)
        given, (first, parts) = chain_problem(n=5, longest=4, K=5), problem.cells
        cuts, found = problem.slots.lists
        met_at = [set() for _ in range(given.n_attributes)]
        token = given.positions + np.repeat(given.sentences[:-1], np.diff(given.offsets))
        for row, t in zip(given.rows, token, strict=True):
            met_at[row] |= {*found[cuts[t] : cuts[t + 1]].tolist()}
        assert [sorted(x) for x in met_at] == [x.tolist() for x in np.split(parts, first[1:-1])]
