"""The convex bound of second-order trees against enumeration."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tree_oracles import trees
from turbotag.structures import pruning, second_order

roots = pytest.mark.parametrize("single_root", [False, True])


def candidates(n, rng, pruned):
    """All arcs, or some of them with a chain of arcs so that there is a tree."""
    cuts, heads = pruning.full(n)
    if not pruned:
        return cuts, heads
    mods = np.repeat(np.arange(1, n + 1), n)
    keep = (rng.random(heads.size) < 0.6) | (heads == mods - 1)
    counts = np.bincount(mods[keep], minlength=n + 1)
    return np.cumsum(counts), heads[keep]


def structures(n, p, single_root):
    """(stats, heads) of every tree whose arcs are candidates, built from the definition."""
    at = {(h, m): e for e, (h, m) in enumerate(zip(p.heads.tolist(), p.mods.tolist(), strict=True))}
    E, S = p.heads.size, int(p.siblings[-1])
    rows, found = [], []
    for heads in trees(n, single_root):
        if any((h, m) not in at for m, h in enumerate(heads.tolist(), 1)):
            continue
        z = np.zeros(second_order.size(p))
        chosen = [at[h, m] for m, h in enumerate(heads.tolist(), 1)]
        z[chosen] = 1.0
        for h in range(1, n + 1):
            for k in (2 * h, 2 * h + 1):
                arcs = p.arcs[p.first[k] : p.first[k + 1]].tolist()
                R, begin = len(arcs), E + int(p.siblings[k])
                path = [j for j, e in enumerate(arcs) if z[e]]
                if not path:
                    z[begin] = 1.0
                    continue
                z[begin + 1 + path[0]] = z[begin + 1 + R + path[-1]] = 1.0
                for i, j in zip(path, path[1:], strict=False):
                    z[begin + second_order.pair(i, j, R)] = 1.0
            arcs = p.arcs[p.first[2 * h] : p.first[2 * h + 2]].tolist()
            g = chosen[h - 1] - int(p.cuts[h - 1])
            for j, e in enumerate(arcs):
                if z[e]:
                    z[E + S + int(p.grands[h]) + g * len(arcs) + j] = 1.0
        rows.append(z)
        found.append(heads)
    return np.array(rows), found


def log_partition(theta, Z, beta=1.0):
    scores = beta * (Z @ theta)
    top = scores.max()
    return top + math.log(np.exp(scores - top).sum())


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 5),
    st.integers(0, 10_000),
    st.booleans(),
    st.booleans(),
    st.sampled_from([(0.0, 0.0), (1.0, 0.3), (3.0, 1.0), (50.0, 50.0)]),
    st.sampled_from([1.0, 3.0]),
)
def test_it_is_a_bound_after_every_round(n, seed, pruned, single_root, scales, beta):
    rng = np.random.default_rng(seed)
    p = second_order.parts(*candidates(n, rng, pruned))
    Z, heads = structures(n, p, single_root)
    theta = np.concatenate(
        [
            scales[0] * rng.normal(size=p.heads.size),
            scales[1] * rng.normal(size=second_order.size(p) - p.heads.size),
        ]
    )
    exact = log_partition(theta, Z, beta)
    nu = np.empty(theta.size)
    for rounds in (0, 1, 2, 5, 20):
        value = second_order.bound(theta, p, beta, single_root, rounds, nu)
        assert value >= exact - 1e-9 * max(1.0, abs(exact))
        assert nu.min() >= -1e-9
        assert nu.max() <= 1.0 + 1e-9
    for z, tree_heads in zip(Z, heads, strict=True):
        second_order.indicator(tree_heads, p, nu)
        np.testing.assert_array_equal(nu, z)


@roots
def test_plain_and_logarithmic_automata_agree(single_root):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        p = second_order.parts(*candidates(6, rng, True))
        E, S = p.heads.size, int(p.siblings[-1])
        u, v = rng.normal(size=E), rng.normal(size=E)
        s, g = rng.normal(size=S), rng.normal(size=int(p.grands[-1]))
        results = []
        for kernel, f in (
            (second_order._automata, np.exp),
            (second_order._automata_log, lambda x: x),
        ):
            mu = [np.zeros(x.size) for x in (u, v, s, g)]
            results.append((kernel(f(u), f(v), f(s), f(g), p, *mu), *mu))
        for a, b in zip(*results, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-10)


def test_automata_are_the_sum_over_their_paths():
    """Z_h and its marginals by enumerating heads and sets of children, word by word."""
    rng = np.random.default_rng(3)
    n = 4
    p = second_order.parts(*candidates(n, rng, False))
    E, S = p.heads.size, int(p.siblings[-1])
    u, v = rng.normal(size=E), rng.normal(size=E)
    s, g = rng.normal(size=S), rng.normal(size=int(p.grands[-1]))
    mu_u, mu_v, mu_s, mu_g = (np.zeros(x.size) for x in (u, v, s, g))
    total = second_order.automata(u, v, s, g, p, mu_u, mu_v, mu_s, mu_g)
    expected, child = 0.0, np.zeros(E)
    for h in range(1, n + 1):
        arcs = p.arcs[p.first[2 * h] : p.first[2 * h + 2]].tolist()
        left = int(p.first[2 * h + 1] - p.first[2 * h])
        weights = []
        for b in range(int(p.cuts[h] - p.cuts[h - 1])):
            head = int(p.heads[p.cuts[h - 1] + b])
            for mask in range(1 << len(arcs)):
                chosen = [j for j in range(len(arcs)) if mask >> j & 1]
                if any(p.mods[arcs[j]] == head for j in chosen):
                    continue
                score = v[p.cuts[h - 1] + b]
                for j in chosen:
                    score += u[arcs[j]] + g[p.grands[h] + b * len(arcs) + j]
                for k, offset, R in ((2 * h, 0, left), (2 * h + 1, left, len(arcs) - left)):
                    path = [j - offset for j in chosen if offset <= j < offset + R]
                    at = int(p.siblings[k])
                    if not path:
                        score += s[at]
                        continue
                    score += s[at + 1 + path[0]] + s[at + 1 + R + path[-1]]
                    for i, j in zip(path, path[1:], strict=False):
                        score += s[at + second_order.pair(i, j, R)]
                weights.append((math.exp(score), [arcs[j] for j in chosen]))
        z = sum(w for w, _ in weights)
        expected += math.log(z)
        for w, used in weights:
            child[used] += w / z
    assert total == pytest.approx(expected, abs=1e-10)
    np.testing.assert_allclose(mu_u, child, atol=1e-10)


def test_beliefs_are_the_derivative_of_the_bound():
    """With the split left as it begins, by finite differences."""
    rng = np.random.default_rng(5)
    p = second_order.parts(*candidates(5, rng, True))
    theta = rng.normal(size=second_order.size(p))
    nu, scratch = np.empty(theta.size), np.empty(theta.size)
    second_order.bound(theta, p, 1.0, True, 0, nu)
    for i in range(theta.size):
        up, down = theta.copy(), theta.copy()
        up[i] += 1e-5
        down[i] -= 1e-5
        values = [second_order.bound(x, p, 1.0, True, 0, scratch) for x in (up, down)]
        assert nu[i] == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-6)


def test_rounds_tighten_it():
    """The excess over log Z in nats, at 5 words: rounds help."""
    excess = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        p = second_order.parts(*candidates(5, rng, False))
        Z, _ = structures(5, p, True)
        theta = rng.normal(size=second_order.size(p))
        theta[p.heads.size :] *= 0.3
        nu = np.empty(theta.size)
        exact = log_partition(theta, Z)
        excess.append([second_order.bound(theta, p, 1.0, True, r, nu) - exact for r in (0, 3, 10)])
    first, third, tenth = np.median(excess, axis=0)
    assert tenth <= third < first
    assert tenth < 6.0
