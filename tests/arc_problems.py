"""Small random problems of dependency trees for the structure and optimizer tests."""

from __future__ import annotations

import numpy as np

from tests.tree_oracles import trees
from turbotag.structures.arc_problem import ArcProblem
from turbotag.structures.arc_verbs import Arcs


def arc_problem(
    seed: int = 0,
    n: int = 12,
    beta: float = 1.0,
    gamma: float = 0.0,
    decoder: str = "nonprojective",
    single_root: bool = True,
    pruned: bool = False,
    longest: int = 5,
    n_rows: int = 14,
    repeated: bool = True,
    most: int = 4,
) -> ArcProblem:
    """n sentences with random gold trees. An arc has up to `most` features, few enough that arcs
    share them, and, if `repeated`, that an arc has some of them twice; pruning leaves gold alone.
    """
    rng = np.random.default_rng(seed)
    gold, sentences = [], []
    for length in rng.integers(1, longest + 1, n).tolist():
        every = trees(length, single_root, decoder == "projective")
        best = every[rng.integers(len(every))].tolist()
        gold += best
        heads, features = [], []
        for m, right in enumerate(best, 1):
            heads.append([])
            for h in range(length + 1):
                if h == right or (h != m and not (pruned and rng.random() < 0.4)):
                    heads[-1].append(h)
                    size = rng.integers(0, most + 1)
                    features.append(rng.choice(n_rows, size, replace=repeated))
        sentences.append((heads, features))
    arcs = assemble(sentences)
    return ArcProblem(arcs, np.array(gold, np.int32), n_rows, beta, gamma, decoder, single_root)


def assemble(sentences: list[tuple[list[list[int]], list[np.ndarray]]]) -> Arcs:
    """Arcs of sentences, each the candidate heads of its words and the features of its parts."""
    lengths, cuts, firsts, ends = [0], [0], [0], [0]
    candidates, local, rows = [], [], []
    for heads, features in sentences:
        lengths.append(len(heads))
        cuts += [len(h) for h in heads]
        candidates += [h for mine in heads for h in mine]
        ends += [f.size for f in features]
        different, numbers = np.unique(np.concatenate(features), return_inverse=True)
        firsts.append(different.size)
        rows.append(different)
        local.append(numbers)
    return Arcs(
        np.cumsum(lengths),
        np.cumsum(cuts),
        np.array(candidates, np.int32),
        np.cumsum(ends)[1:],
        np.concatenate(local).astype(np.uint16),
        np.cumsum(firsts),
        np.concatenate(rows).astype(np.int32),
    )


def dense(problem: ArcProblem, i: int) -> np.ndarray:
    """F_i as a dense matrix: (weights, candidate arcs of sentence i)."""
    arcs = problem.arcs
    begin, end = arcs.cuts[arcs.sentences[i : i + 2]]
    F = np.zeros((problem.n_rows, end - begin))
    for e in range(begin, end):
        for o in range(arcs.ends[e - 1] if e else 0, arcs.ends[e]):
            F[arcs.rows[arcs.firsts[i] + arcs.local[o]], e - begin] += 1.0
    return F


def between_words(problem: ArcProblem, i: int) -> np.ndarray:
    """Where the candidate arcs of sentence i pass from one word to the next."""
    cuts = problem.arcs.cuts[slice(*problem.arcs.sentences[i : i + 2])]
    return cuts[1:] - cuts[0]


def gold_heads(problem: ArcProblem, i: int) -> np.ndarray:
    a, b = problem.arcs.sentences[i : i + 2]
    return problem.arcs.heads[problem.gold_arc[a:b]]


def structures(problem: ArcProblem, i: int) -> tuple[np.ndarray, np.ndarray]:
    """(heads, stats) of all trees that the candidate arcs of sentence i allow."""
    arcs = problem.arcs
    a, b = arcs.sentences[i : i + 2]
    modifiers = np.repeat(np.arange(b - a), np.diff(arcs.cuts[a : b + 1]))
    candidates = arcs.heads[arcs.cuts[a] : arcs.cuts[b]]
    heads = trees(int(b - a), problem.single_root, problem.projective)
    stats = (heads[:, modifiers] == candidates).astype(float)
    allowed = stats.sum(axis=1) == b - a
    return heads[allowed], stats[allowed]
