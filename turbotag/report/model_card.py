"""What is in a model file, as text: the card, the transitions, the heaviest features."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from turbotag.features.kinds import KINDS
from turbotag.models.calibration import describe
from turbotag.models.parser import STAGES, Parser
from turbotag.models.pipeline import Model
from turbotag.models.tagger import Tagger
from turbotag.models.tokenizer import Tokenizer
from turbotag.optim.certificate import Certificate
from turbotag.report.tables import percent


def summary(header: dict[str, Any], size: int) -> str:
    """What a shipped model is for, and how large."""
    return f"{header.get('card', {}).get('what', header['task'])}, {size / 1e6:.1f} MB"


def model_card(model: Model) -> str:
    """Where a model comes from and what was proved of it."""
    cards: dict[str, Callable[[Any], str]] = {
        "tagger": tagger_card,
        "parser": parser_card,
        "tokenizer": tokenizer_card,
    }
    return cards[model.kind](model)


def inside(model: Model) -> str:
    """What a model has apart from its features: the labels and transitions of a tagger."""
    if model.kind != "tagger":
        return ""
    tagger, names = cast(Tagger, model), "\nlabels: " + " ".join(model.labels)
    if not tagger.order:
        return names
    return f"{names}\n\ntransitions, heaviest and lightest\n{transitions(tagger)}"


def tagger_card(tagger: Tagger) -> str:
    """Where a tagger comes from and what was proved of it."""
    h = tagger.header
    scheme = f", {h['scheme'].upper()}" if h["scheme"] else ""
    lines = [f"task         {h['task']}, {len(tagger.labels)} labels{scheme}", *_origin(h)]
    lines.append(
        f"size         {tagger.keys.size} features, order {tagger.order}, "
        f"constraints {h['constraints']}"
    )
    for name, s in h.get("scores", {}).items():
        value = s.get("f1", s.get("accuracy", math.nan))
        lines.append(f"{name:<12} {s['measure']} {percent(value)}, {s['convention']}")
    lines += _calibration(h)
    lines += _resources(h)
    return "\n".join([*lines, *_shipped(h)])


def parser_card(parser: Parser) -> str:
    """Where a parser comes from and what was proved of it."""
    h = parser.header
    roots = "single root" if parser.single_root else "multiple roots"
    lines = [
        f"task         parse, {h['decoder']}, {roots}, {len(parser.labels)} labels",
        f"tags         {h['tags']}",
        *_origin(h),
    ]
    more = {
        "super": f", {len(h.get('supertags', []))} supertags",
        "prune": f", at most {parser.pruner.kept[0]} heads a word",
    }
    for stage in STAGES:
        if stage in h["templates"]:
            size = parser.arrays[f"{stage}.lows"].size
            lines.append(f"{stage:<13}{size} features{more.get(stage, '')}")
    if h["parts"]:
        a = h["approximation"]
        lines.append(f"parts        {','.join(h['parts'])}, {a['entropy']}, {a['rounds']} rounds")
    for name, s in h.get("scores", {}).items():
        for c in s["conventions"].values():
            las = "" if c["las"] is None else f", LAS {percent(c['las'])}"
            lines.append(f"{name:<12} UAS {percent(c['uas'])}{las}, {c['convention']}")
    lines += _calibration(h)
    lines += _resources(h)
    lines.append("labels       " + " ".join(parser.labels))
    return "\n".join([*lines, *_shipped(h)])


def tokenizer_card(tokenizer: Tokenizer) -> str:
    """Where a tokenizer comes from and what was proved of it."""
    h = tokenizer.header
    units = "letters" if h["by_letter"] else "runs of letters or digits"
    lines = [
        f"task         {h['task']}, {len(tokenizer.labels)} labels",
        *_origin(h),
        f"size         {tokenizer.keys.size} features, {len(tokenizer.splitter.scripts)} scripts "
        "of multiword tokens",
        f"units        {units}",
    ]
    for name, s in h.get("scores", {}).items():
        shown = ", ".join(f"{n.lower()} {percent(c['f1'])}" for n, c in s["scores"].items())
        lines.append(f"{name:<12} F1 of {shown}, from raw text, {s['convention']}")
    return "\n".join([*lines, *_shipped(h)])


def _calibration(h: dict[str, Any]) -> list[str]:
    """The data that the probabilities were fitted to, and how."""
    if "calibration" not in h:
        return ["calibration  none"]
    found = h["calibration"]
    lines = [f"on {found['data']}", *(describe(n, m) for n, m in found["maps"].items())]
    return [f"{'calibration' if not i else '':<13}{line}" for i, line in enumerate(lines)]


def _resources(h: dict[str, Any]) -> list[str]:
    """What a model knows of words beside its training data."""
    return [f"{kind:<13}{', '.join(h[kind])}" for kind in KINDS if h.get(kind)]


def _shipped(h: dict[str, Any]) -> list[str]:
    """What only the headers of shipped models have."""
    if "card" not in h:
        return []
    c = h["card"]

    def listed(name: str, lines: list[str]) -> list[str]:
        return [f"{name if not i else '':<13}{line}" for i, line in enumerate(lines)]

    return [
        f"speed        {c['words_per_second']:,.0f} words a second, file to file, on one core",
        *listed("weak", c.get("weak", [])),
        *listed("credits", c["credits"]),
    ]


def _went_on(h: dict[str, Any]) -> list[str]:
    """The model that training went on from, if it did."""
    if "init" not in h:
        return []
    old = h["init"]
    licence = f", {old['licence']}" if old["licence"] else ""
    data = f"{old['data']['name']}, {old['data']['sentences']} sentences"
    return [f"went on from {old['name']} (trained on {data}{licence})"]


def _origin(h: dict[str, Any]) -> list[str]:
    d = h["data"]
    lines = [
        f"trained on   {d['name']}: {d['sentences']} sentences, {d['tokens']} tokens",
        f"             sha256 {d['sha256']}",
        *_went_on(h),
        f"command      {h['command']}",
        "algorithm    " + ", ".join(f"{k} {v}" for k, v in h["algorithm"].items()),
        "loss         {name} (beta {beta}, gamma {gamma:g})".format(**h["loss"]),
        f"{_proof(h)} after {h.get('kept_epoch', h['epochs'])} epochs",
        "versions     " + ", ".join(f"{k} {v}" for k, v in h["versions"].items()),
        f"seed         {h['seed']}",
    ]
    return [*lines, f"licence      {h['licence']}"] if h["licence"] else lines


def _proof(h: dict[str, Any]) -> str:
    c, of = Certificate(**h["certificate"]), h.get("certified", "the objective")
    if not of:
        return f"uncertified  primal {c.primal:.9f}"
    return f"certificate  {f'of {of}, ' if 'surrogate' in of else ''}{c}"


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
