"""Edit scripts: what turns a form into its lemma, as one label that many words share.

A script keeps the longest part that form and lemma have in common, case apart, and says what stands
before it and behind it in either, and the case of the lemma:

    walking -> walk      'k > ing>'     keep the case; behind the kept part, ing becomes nothing
    Studies -> study     'l > ies>y'    lower case
    gegangen -> gehen    'k > gangen>hen'
    was -> be            '= be'         nothing worth keeping: the lemma itself

A script fits a form that has what the script takes away, so that few of a thousand scripts fit any.
Scripts of the last kind, irregular ones, fit only forms that were seen with them.
"""

from __future__ import annotations

from collections.abc import Callable

IRREGULAR = "= "
LEAST_KEPT = 3  # letters that are kept at least, where letters before them change too


def _capitalized(s: str) -> str:
    return s[:1].upper() + s[1:].lower()


CASES: dict[str, Callable[[str], str]] = {
    "k": str,
    "l": str.lower,
    "c": _capitalized,
    "u": str.upper,
}


def encode(form: str, lemma: str) -> str:
    """The script of a pair; `apply` gives back the lemma."""
    regular = _encode(form, lemma)
    return regular if regular and apply(form, regular) == lemma else IRREGULAR + lemma


def _encode(form: str, lemma: str) -> str | None:
    low, want = form.lower(), lemma.lower()
    i, j, n = _longest_common(low, want)
    if len(low) != len(form) or not n or ((i or j) and n < LEAST_KEPT):
        return None
    body = f"{low[:i]}>{want[:j]} {low[i + n :]}>{want[j + n :]}"
    if body.count(" ") != 1 or body.count(">") != 2:
        return None
    found = (f"{case} {body}" for case in CASES)
    return next((script for script in found if apply(form, script) == lemma), None)


def apply(form: str, script: str) -> str | None:
    """The lemma that a script makes of a form, never empty; None if the script does not fit.

    Among scripts that differ only in case, one that would change nothing does not fit. So no two
    scripts give the same lemma.
    """
    if script.startswith(IRREGULAR):
        return script[len(IRREGULAR) :]
    case, before, behind = script.split(" ")
    (old, new), (old_end, new_end) = before.split(">"), behind.split(">")
    low, end = form.lower(), len(form) - len(old_end)
    if len(low) != len(form) or end <= len(old):
        return None
    if not (low.startswith(old) and low.endswith(old_end)):
        return None
    kept = new + form[len(old) : end] + new_end
    if case == "k":
        return kept
    lemma, order = CASES[case](kept), list(CASES)
    earlier = (CASES[c](kept) for c in order[: order.index(case)])
    return None if lemma in earlier else lemma


def _longest_common(a: str, b: str) -> tuple[int, int, int]:
    """(i, j, n): a[i:i+n] = b[j:j+n] with the largest n, the earliest of these."""
    best, row = (0, 0, 0), [0] * (len(b) + 1)
    for i, x in enumerate(a):
        last, row = row, [0] * (len(b) + 1)
        for j, y in enumerate(b):
            if x == y:
                row[j + 1] = last[j] + 1
                if row[j + 1] > best[2]:
                    best = i + 1 - row[j + 1], j + 1 - row[j + 1], row[j + 1]
    return best
