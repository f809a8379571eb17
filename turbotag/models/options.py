"""Which options of training are for which task, and the check of those that are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from turbotag.errors import ArgumentError, did_you_mean
from turbotag.models.gold import options_for
from turbotag.optim.algorithms import algorithm, parameters

COMMON = (
    *("template", "loss", "beta", "gamma", "C", "algorithm", "epochs", "stop_gap", "patience"),
    *("keep", "max_oracle_calls", "max_seconds", "init", "seed", "licence", "drop"),
    "calibration",
)
TAGGERS = ("gazetteers", "scheme", "strict", "constraints", "order", "compact")
PARSERS = (
    *("decoder", "multi_root", "crossing", "labels", "prune", "heads", "min_count", "jackknife"),
    *("supertags", "parts", "entropy", "rounds", "damping", "tolerance"),
)
FILES = ("columns", "target")  # of taggers too, but lists know theirs
NEEDS = dict.fromkeys(("entropy", "rounds", "damping", "tolerance"), "parts")


def check_given(
    task: str, given: Mapping[str, Any], spelling: Callable[[str], str] = lambda name: name
) -> None:
    """Refuse options that are for another task, and those that need another one; spelling tells
    how a user writes the name of one."""
    parse = task == "parse"
    for name in given:
        if name in ((*TAGGERS, *FILES) if parse else PARSERS):
            whose = "taggers" if parse else "parsers"
            raise ArgumentError(
                f"{spelling(name)} is for {whose}: the task {task} has no use for it"
            )
        needed = "compact" if name == "drop" and not parse else NEEDS.get(name)
        if needed and not given.get(needed):
            raise ArgumentError(f"{spelling(name)} needs {spelling(needed)}")


def named(task: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a task and parameters of the algorithm, given by name, as `options_for` takes
    them. None counts as nothing; a name that is neither is refused, with those that there are."""
    given = {name: value for name, value in given.items() if value is not None}
    check_given(task, given)
    own = (*COMMON, *(PARSERS if task == "parse" else TAGGERS))
    options = {name: value for name, value in given.items() if name in own}
    chosen = options_for(task, train="", **options).algorithm
    known = {p.name.replace("-", "_"): p.name for p in algorithm(chosen).params}
    params = dict(given.get("params", {}))
    for name, value in given.items():
        if name in known:
            params[known[name]] = value
        elif name not in own and name != "params":
            raise ArgumentError(_unknown(name, own, chosen, tuple(known)))
    return options | {"params": params}


def _unknown(name: str, own: tuple[str, ...], chosen: str, known: tuple[str, ...]) -> str:
    """What to say of a name that is neither an option nor a parameter of the algorithm."""
    of_others = parameters().get(name.replace("_", "-"))
    if of_others:
        return f"{name} is a parameter of {', '.join(who for who, _ in of_others)}, not of {chosen}"
    return (
        f"there is no option {name!r}{did_you_mean(name, (*own, *known))} "
        f"(options: {', '.join(sorted(own))}; parameters of {chosen}: {', '.join(known) or 'none'})"
    )
