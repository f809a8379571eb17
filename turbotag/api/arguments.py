"""The options of Tagger and Parser, for editors and type checkers, and for `help`.

training/options reads and checks options; here are only their types. Parameters of an algorithm are
declared by the optimizer (optim/base.Param), and are taken by name too.
"""

from __future__ import annotations

import inspect
from typing import Any, TypedDict

from turbotag.features.declared import OPTIONS as RESOURCES


class Arguments(TypedDict, total=False):
    """Options of every model."""

    template: str | None
    gazetteers: dict[str, str] | None
    clusters: dict[str, str] | None
    drop: float | None
    loss: str | None
    beta: float | None
    gamma: float | None
    C: float | None
    algorithm: str | None
    epochs: int | None
    stop_gap: float | str | None
    patience: int | None
    keep: str | None
    max_oracle_calls: int | None
    max_seconds: float | None
    threads: int | None
    shards: int | None
    workers: int | None
    address: str | None
    init: str | None
    seed: int | None
    licence: str | None
    calibration: bool | None


class TaggerArguments(Arguments, total=False):
    """Options of a tagger."""

    label_cost: dict[str, float] | None
    scheme: str | None
    strict: bool | None
    constraints: str | None
    order: int | None
    candidates: int | None
    compact: bool | None


class ParserArguments(Arguments, total=False):
    """Options of a parser."""

    decoder: str | None
    multi_root: bool | None
    crossing: str | None
    labels: bool | None
    prune: bool | None
    heads: int | None
    min_count: int | None
    jackknife: int | None
    supertags: int | None
    parts: tuple[str, ...] | None
    entropy: str | None
    rounds: int | None
    damping: float | None
    tolerance: float | None


def signature(arguments: Any, **first: Any) -> inspect.Signature:
    """The signature of a class that takes `arguments`, and any parameters of an algorithm, by name.
    first: the arguments that the class takes by position, with their defaults."""
    plain, by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    found = [
        inspect.Parameter(name, plain, default=value, annotation=type(value).__name__)
        for name, value in first.items()
    ]
    kinds = dict.fromkeys(RESOURCES, "dict[str, str] | None") | arguments.__annotations__
    for name, kind in kinds.items():
        kind = getattr(kind, "__forward_arg__", kind)
        found.append(inspect.Parameter(name, by_name, default=None, annotation=kind))
    rest = inspect.Parameter("parameters", inspect.Parameter.VAR_KEYWORD, annotation="Any")
    return inspect.Signature([*found, rest])
