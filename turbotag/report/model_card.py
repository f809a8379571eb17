"""What is in a model file, as text: the card, the transitions, the heaviest features."""

from __future__ import annotations

import numpy as np

from turbotag.models.tagger import Tagger


def card(tagger: Tagger) -> str:
    """Where a model comes from and what was proved of it."""
    h = tagger.header
    c, d = h["certificate"], h["data"]
    lines = [
        f"task         {h['task']}, {len(tagger.labels)} labels"
        + (f", {h['scheme'].upper()}" if h["scheme"] else ""),
        f"trained on   {d['name']}: {d['sentences']} sentences, {d['tokens']} tokens",
        f"             sha256 {d['sha256']}",
        f"command      {h['command']}",
        "algorithm    " + ", ".join(f"{k} {v}" for k, v in h["algorithm"].items()),
        "loss         {name} (beta {beta}, gamma {gamma:g})".format(**h["loss"]),
        f"certificate  primal {c['primal']:.9f}, dual {c['dual']:.9f}, gap {c['gap']:.3e} "
        f"after {h['epochs']} epochs",
        f"size         {tagger.keys.size} features, order {tagger.order}, "
        f"constraints {h['constraints']}",
        "versions     " + ", ".join(f"{k} {v}" for k, v in h["versions"].items()),
        f"seed         {h['seed']}",
    ]
    for name, s in h.get("scores", {}).items():
        value = s.get("f1", s.get("accuracy"))
        lines.append(f"{name + ' score':<13}{s['measure']} {100 * value:.2f}, {s['convention']}")
    if h["gazetteers"]:
        lines.append("gazetteers   " + ", ".join(h["gazetteers"]))
    if h["licence"]:
        lines.append(f"licence      {h['licence']}")
    return "\n".join(lines)


def transitions(tagger: Tagger, limit: int = 24) -> str:
    """The heaviest and the lightest label pairs."""
    K = len(tagger.labels)
    order = np.argsort(-tagger.trans, axis=None, kind="stable")
    half = min(limit, K * K) // 2
    lines = []
    for i in [*order[:half].tolist(), *order[-half:].tolist()]:
        j, k = divmod(i, K)
        lines.append(f"{tagger.trans[j, k]:>9.4f}  {tagger.labels[j]} -> {tagger.labels[k]}")
    return "\n".join(lines)


def top_features(tagger: Tagger, label: int, n: int) -> list[tuple[float, str]]:
    """The n features with the largest weights for a label."""
    weights = tagger.weights[: tagger.keys.size, label]
    n = min(n, weights.size)
    best = np.argpartition(-weights, n - 1)[:n] if n else np.zeros(0, np.int64)
    best = best[np.argsort(-weights[best], kind="stable")]
    return [(float(weights[r]), tagger.feature_name(int(r))) for r in best]
