"""Brute force: second-order parts, trees, arc sets and head automata from their definitions."""

from __future__ import annotations

import functools
import itertools

import numpy as np

from tests.oracles import Gibbs
from tests.tree_oracles import trees
from turbotag.structures import parts, pruning

START, END = "START", "END"


def candidates(n: int, rng: np.random.Generator, pruned: bool) -> tuple[np.ndarray, np.ndarray]:
    """All arcs, or some of them with a chain of arcs so that there is a tree."""
    cuts, heads = pruning.full(n)
    if not pruned:
        return cuts, heads
    mods = np.repeat(np.arange(1, n + 1), n)
    keep = (rng.random(heads.size) < 0.6) | (heads == mods - 1)
    return np.cumsum(np.bincount(mods[keep], minlength=n + 1)), heads[keep]


def arcs_of(cuts, heads) -> list[tuple[int, int]]:
    """(head, modifier) of every candidate arc."""
    mods = np.repeat(np.arange(1, len(cuts)), np.diff(cuts))
    return list(zip(heads.tolist(), mods.tolist(), strict=True))


def children(h: int, side: int, arcs) -> list[int]:
    """The modifiers of h to its left (-1) or right (1), from h outwards."""
    return sorted((m for g, m in arcs if g == h and (m - h) * side > 0), key=lambda m: abs(m - h))


def sides(n: int):
    return [(h, side) for h in range(1, n + 1) for side in (-1, 1)]


def names(cuts, heads, all_siblings: bool) -> list[tuple]:
    """What every part is, in the order of the vectors: arcs, siblings, grandparents, all."""
    arcs, n = arcs_of(cuts, heads), len(cuts) - 1
    found: list[tuple] = [("arc", *a) for a in arcs]
    for h, side in sides(n):
        mine = children(h, side, arcs)
        steps = [(START, END), *((START, m) for m in mine), *((m, END) for m in mine)]
        steps += itertools.combinations(mine, 2)
        found += [("next", h, side, *s) for s in steps]
    for h in range(1, n + 1):
        mine = [m for side in (-1, 1) for m in children(h, side, arcs)]
        found += [("grand", g, h, m) for g, c in arcs if c == h for m in mine]
    if all_siblings:
        for h, side in sides(n):
            found += [
                ("both", h, *two) for two in itertools.combinations(children(h, side, arcs), 2)
            ]
    return found


def present(n: int, arcs) -> set[tuple]:
    """The parts of a set of arcs, a tree or not."""
    found: set[tuple] = {("arc", *a) for a in arcs}
    for h, side in sides(n):
        mine = children(h, side, arcs)
        found |= {("next", h, side, *s) for s in itertools.pairwise([START, *mine, END])}
        found |= {("both", h, *two) for two in itertools.combinations(mine, 2)}
    found |= {("grand", g, h, m) for g, h in arcs for k, m in arcs if k == h > 0 and m != g}
    return found


class SecondOrder:
    """Candidate arcs of a sentence, as the code under test and as names of parts."""

    def __init__(self, cuts, heads, all_siblings: bool):
        self.n, self.arcs = len(cuts) - 1, arcs_of(cuts, heads)
        self.names = names(cuts, heads, all_siblings)
        self.at = {name: i for i, name in enumerate(self.names)}
        self.size, self.E = len(self.names), len(self.arcs)
        self.p = parts.parts(cuts, heads, all_siblings)

    def stats(self, arcs) -> np.ndarray:
        z = np.zeros(self.size)
        z[[self.at[name] for name in present(self.n, arcs) if name in self.at]] = 1.0
        return z

    def kind(self, *kinds: str) -> np.ndarray:
        """Which parts are of these kinds."""
        return np.array([name[0] in kinds for name in self.names])

    def draw(self, rng: np.random.Generator, arc: float, pair: float) -> np.ndarray:
        """Random scores of these sizes."""
        return np.where(self.kind("arc"), arc, pair) * rng.normal(size=self.size)

    def sets(self) -> np.ndarray:
        """The stats of every set of candidate arcs."""
        every = itertools.product([False, True], repeat=self.E)
        return np.array([self.stats(list(itertools.compress(self.arcs, on))) for on in every])


@functools.lru_cache(64)
def structures(s: SecondOrder, single_root: bool) -> tuple[np.ndarray, np.ndarray]:
    """(heads, stats) of every tree whose arcs are candidates."""
    allowed, chosen, rows = set(s.arcs), [], []
    for heads in trees(s.n, single_root):
        arcs = [(h, m) for m, h in enumerate(heads.tolist(), 1)]
        if allowed.issuperset(arcs):
            chosen.append(heads)
            rows.append(s.stats(arcs))
    return np.array(chosen), np.array(rows)


def sentence(n: int, seed: int, pruned: bool, all_siblings: bool) -> SecondOrder:
    """Candidates that depend on nothing but the arguments."""
    return _sentence(n, seed if pruned else 0, pruned, all_siblings)


@functools.lru_cache(64)
def _sentence(n, seed, pruned, all_siblings):
    rng = np.random.default_rng(seed)
    return SecondOrder(*candidates(n, rng, pruned), all_siblings)


def gibbs(scores: np.ndarray, Z: np.ndarray) -> tuple[float, np.ndarray]:
    """(log of the sum of exp(score), mean of the rows of Z under it)."""
    exact = Gibbs(scores, Z)
    return exact.log_partition, exact.marginals


# ---- Head automata -------------------------------------------------------------------------------


def automaton(s: SecondOrder, h: int) -> np.ndarray:
    """Stats (u, v, siblings, grandparents) of every head of word h with every set of children."""
    mine = [m for g, m in s.arcs if g == h]
    rows = []
    for g in (g for g, m in s.arcs if m == h):
        for on in itertools.product([False, True], repeat=len(mine)):
            chosen = list(itertools.compress(mine, on))
            if g in chosen:
                continue
            u, v, rest = np.zeros(s.E), np.zeros(s.E), np.zeros(s.size - s.E)
            arcs = [(h, m) for m in chosen]
            u[[s.at[("arc", *a)] for a in arcs]] = 1.0
            v[s.at["arc", g, h]] = 1.0
            for name in present(s.n, [(g, h), *arcs]):
                if (name[0] == "next" and name[1] == h) or (name[0] == "grand" and name[2] == h):
                    rest[s.at[name] - s.E] = 1.0
            rows.append(np.concatenate([u, v, rest]))
    return np.array(rows)
