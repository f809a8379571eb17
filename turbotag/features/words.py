"""Attributes of a word type: what a template can ask of a string, computed once for each type."""

from __future__ import annotations

import re
from collections.abc import Callable

_AFFIX = re.compile(r"(prefix|suffix)([1-9])")
_RUNS = re.compile(r"(.)\1+")


def shape(word: str) -> str:
    """Capitals to X, small letters to x, digits to 0, all else as it is (Collins 2002)."""
    return "".join(
        "X" if c.isupper() else "x" if c.islower() else "0" if c.isdigit() else c for c in word
    )


def short_shape(word: str) -> str:
    """The shape with runs of one character cut to one."""
    return _RUNS.sub(r"\1", shape(word))


def _flag(test: Callable[[str], bool]) -> Callable[[str], str]:
    return lambda word: "1" if test(word) else ""


# An attribute maps a string to a string; the empty string means that no template with it fires.
ATTRIBUTES: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "digits": lambda w: re.sub(r"\d", "0", w),
    "shape": shape,
    "shortshape": short_shape,
    "capital": _flag(lambda w: w[:1].isupper()),
    "allcaps": _flag(lambda w: len(w) > 1 and w.isupper()),
    "mixedcase": _flag(lambda w: w[1:] != w[1:].lower() and w != w.upper()),
    "digit": _flag(lambda w: any(c.isdigit() for c in w)),
    "number": _flag(lambda w: w[:1].isdigit() and all(c.isdigit() or c in ".,:/-" for c in w)),
    "hyphen": _flag(lambda w: "-" in w),
    "punctuation": _flag(lambda w: not any(c.isalnum() for c in w)),
    "abbreviation": _flag(lambda w: len(w) > 1 and w.endswith(".") and w[0].isalpha()),
}


def attribute(name: str) -> Callable[[str], str] | None:
    """The function of an attribute name; prefixN and suffixN need a word of N letters or more."""
    affix = _AFFIX.fullmatch(name)
    if affix:
        n = int(affix[2])
        if affix[1] == "prefix":
            return lambda w: w[:n] if len(w) >= n else ""
        return lambda w: w[-n:] if len(w) >= n else ""
    return ATTRIBUTES.get(name)
