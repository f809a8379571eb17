"""What Tagger and Parser take by name, for editors and type checkers, and for `help`.

Options are read and checked in training/options; here are their types alone. Parameters of an
algorithm are declared by the optimizer (optim/base.Param), and are taken by name too.
"""

from __future__ import annotations

import inspect
from typing import Any, TypedDict


class Arguments(TypedDict, total=False):
    """What every model can be told."""

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
    init: str | None
    seed: int | None
    licence: str | None
    calibration: bool | None


class TaggerArguments(Arguments, total=False):
    """What a tagger can be told."""

    label_cost: dict[str, float] | None
    scheme: str | None
    strict: bool | None
    constraints: str | None
    order: int | None
    candidates: int | None
    compact: bool | None


class ParserArguments(Arguments, total=False):
    """What a parser can be told."""

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
    """How a class is called that takes `arguments` and any parameters of an algorithm by name;
    first: what it takes by place, with the default."""
    plain, by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    found = [
        inspect.Parameter(name, plain, default=value, annotation=type(value).__name__)
        for name, value in first.items()
    ]
    for name, kind in arguments.__annotations__.items():
        kind = getattr(kind, "__forward_arg__", kind)
        found.append(inspect.Parameter(name, by_name, default=None, annotation=kind))
    rest = inspect.Parameter("parameters", inspect.Parameter.VAR_KEYWORD, annotation="Any")
    return inspect.Signature([*found, rest])
