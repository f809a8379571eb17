"""Tags that encode spans: IOB1, IOB2 and IOBES, told apart, read leniently or strictly, rewritten.

A tag is O or PREFIX-TYPE with prefix B, I, E (or L) or S (or U).
    IOB2   every span opens with B
    IOB1   spans open with I; B only where a span follows one of its own type
    IOBES  spans of one word are S; others open with B and close with E
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from turbotag.lean import njit

SCHEMES = ("iob1", "iob2", "iobes")
O, B, I, E, S = range(5)  # noqa: E741
_PREFIX = {"B": B, "I": I, "E": E, "L": E, "S": S, "U": S}


@dataclass(frozen=True)
class Tags:
    """A set of span tags: prefix and type (-1 for O) of each, and the names of the types."""

    prefix: np.ndarray
    type: np.ndarray
    types: list[str]


def parse(strings: list[str], types: list[str] | None = None) -> Tags | None:
    """Split tags into prefix and type; None if any of them is not a span tag."""
    names = list(types or [])
    prefix, kind = np.zeros(len(strings), np.int64), np.full(len(strings), -1, np.int64)
    for n, s in enumerate(strings):
        if s == "O":
            continue
        head, dash, name = s.partition("-")
        if head not in _PREFIX or (dash and not name):
            return None
        if name not in names:
            names.append(name)
        prefix[n], kind[n] = _PREFIX[head], names.index(name)
    return Tags(prefix, kind, names)


@dataclass(frozen=True)
class Spans:
    """Spans of tokens [start, end] with a type, in order of their start."""

    start: np.ndarray
    end: np.ndarray
    type: np.ndarray

    def keys(self) -> set[tuple[int, int, int]]:
        return set(zip(self.start.tolist(), self.end.tolist(), self.type.tolist(), strict=True))

    def without(self, tokens: np.ndarray) -> Spans:
        """The spans that hold none of these tokens; tokens: in rising order."""
        kept = np.searchsorted(tokens, self.start) == np.searchsorted(tokens, self.end, "right")
        return Spans(self.start[kept], self.end[kept], self.type[kept])


def spans(prefix: np.ndarray, kind: np.ndarray, sentences: np.ndarray) -> Spans:
    """The spans of a tag sequence, read as conlleval does: any change of type, and I or E after O,
    opens a span. Without the irregular tags that `detect` finds, the well-formed ones are left."""
    return Spans(*_lenient_spans(prefix, kind, sentences))


@njit(cache=True, nogil=True)
def _lenient_spans(prefix, kind, sentences):
    """startOfChunk and endOfChunk of conlleval.pl, with S as a span of its own."""
    found = np.empty((3, prefix.size), np.int64)
    n = 0
    for s in range(sentences.size - 1):
        p, opened = O, -1
        for t in range(sentences[s], sentences[s + 1] + 1):
            q = prefix[t] if t < sentences[s + 1] else O
            changed = t < sentences[s + 1] and p != O and q != O and kind[t] != kind[t - 1]
            if opened >= 0 and (q == O or q == B or q == S or changed or p == S or p == E):
                found[0, n], found[1, n], found[2, n] = opened, t - 1, kind[opened]
                n += 1
                opened = -1
            if q != O and opened < 0:
                opened = t
            p = q
    return found[:, :n]


@dataclass(frozen=True)
class Detected:
    """The scheme of a file; irregular: tokens, in order, whose tag does not fit it."""

    scheme: str
    irregular: np.ndarray

    @property
    def rule(self) -> str:
        """The rule that irregular tags break, in words."""
        return f"{self.scheme.upper()}, where {_RULES[self.scheme]}"


_RULES = {
    "iob1": "spans open with I-, and with B- only right after one of their own type",
    "iob2": "spans open with B-",
    "iobes": "spans open with B- and close with E-, or are one S-",
}


def detect(
    tags: Tags, ids: np.ndarray, sentences: np.ndarray, among: tuple[str, ...] = SCHEMES
) -> Detected:
    """The scheme of a tag sequence: the one whose rules it breaks least, and where it breaks them.

    IOBES is a candidate only where some tag is E or S. Among schemes that are broken equally often,
    IOBES is taken before IOB2, and IOB2 before IOB1.
    """
    prefix, kind = tags.prefix[ids], tags.type[ids]
    broken = _irregular(prefix, kind, sentences)
    if not ((prefix == E) | (prefix == S)).any():
        del broken["iobes"]
    scheme = min((s for s in broken if s in among), key=lambda s: int(broken[s].sum()))
    return Detected(scheme, np.flatnonzero(broken[scheme]))


def _irregular(
    prefix: np.ndarray, kind: np.ndarray, sentences: np.ndarray
) -> dict[str, np.ndarray]:
    """(tokens,) bool for each scheme: whether the tag breaks its rules."""
    first, last = np.zeros((2, prefix.size), bool)
    first[sentences[:-1]] = True
    last[sentences[1:] - 1] = True
    before = np.where(first, O, np.roll(prefix, 1))
    after = np.where(last, O, np.roll(prefix, -1))
    follows = (before != O) & (np.roll(kind, 1) == kind)
    goes_on = ((after == I) | (after == E)) & (np.roll(kind, -1) == kind)
    loose = ((prefix == I) | (prefix == E)) & ~(follows & ((before == B) | (before == I)))
    unclosed = ((prefix == B) | (prefix == I)) & ~goes_on
    needless = (prefix == B) & ~follows
    closing = (prefix == E) | (prefix == S)
    return {"iobes": loose | unclosed, "iob2": loose | closing, "iob1": needless | closing}


def encode(found: Spans, n_tokens: int, scheme: str) -> tuple[np.ndarray, np.ndarray]:
    """(prefix, type) of every token for a list of spans."""
    prefix, kind = np.zeros(n_tokens, np.int64), np.full(n_tokens, -1, np.int64)
    last_end, last_type = -1, -1
    for a, b, k in zip(found.start.tolist(), found.end.tolist(), found.type.tolist(), strict=True):
        prefix[a : b + 1], kind[a : b + 1] = I, k
        if scheme == "iobes":
            prefix[b] = E
            prefix[a] = S if a == b else B
        elif scheme == "iob2" or (last_end == a - 1 and last_type == k):
            prefix[a] = B
        last_end, last_type = b, k
    return prefix, kind


def tag(prefix: int, name: str, letters: str = "BIES") -> str:
    """The tag of a prefix and a type name."""
    return "O" if prefix == O else letters[prefix - 1] + (f"-{name}" if name else "")


def convert(
    strings: list[str], ids: np.ndarray, sentences: np.ndarray, scheme: str
) -> tuple[list[str], np.ndarray]:
    """Rewrite a tag sequence in another scheme: (new strings, new ids). Tags must be span tags;
    bilou is IOBES with other letters.

    Spans that touch across a sentence boundary do not count as neighbours in IOB1.
    """
    tags = parse(strings)
    assert tags is not None
    found = spans(tags.prefix[ids], tags.type[ids], sentences)
    prefix, kind = encode(found, ids.size, "iobes" if scheme == "bilou" else scheme)
    if scheme == "iob1":
        starts = sentences[:-1]
        prefix[starts] = np.where(prefix[starts] == B, I, prefix[starts])
    codes = prefix * (len(tags.types) + 1) + kind + 1
    unique, new = np.unique(codes, return_inverse=True)
    width = len(tags.types) + 1
    letters = "BILU" if scheme == "bilou" else "BIES"
    names = [
        tag(int(c) // width, tags.types[int(c) % width - 1] if c % width else "", letters)
        for c in unique
    ]
    return names, new.astype(np.int32)


def mask(labels: list[str], scheme: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which label pairs, first and last labels a scheme allows: floats, (K, K), (K,), (K,).

    Everything, where no label may stand alone (no O and no S seen): some sentences would have no
    valid tags at all.
    """
    tags = parse(labels)
    assert tags is not None
    prefix, kind = tags.prefix, tags.type
    same = kind[:, None] == kind[None, :]
    opening = (prefix == B) | (prefix == I)  # after these a span may go on
    inside = (prefix == I) | (prefix == E)  # these continue a span
    before, after = prefix[:, None], inside[None, :]
    K = len(labels)
    if scheme == "iob1":  # only B is restricted: it follows a span of its own type
        spans_before = before != O
        allowed = ~(prefix[None, :] == B) | (spans_before & same)
        if (prefix == B).all():
            return np.ones((K, K)), np.ones(K), np.ones(K)
        return allowed.astype(float), (prefix != B).astype(float), np.ones(K)
    allowed = ~after | (opening[:, None] & same)
    end = np.ones(K, bool)
    if scheme == "iobes":
        allowed &= ~opening[:, None] | (after & same)
        end = ~opening
    start = ~inside
    if not (start & end).any():
        return np.ones((K, K)), np.ones(K), np.ones(K)
    return allowed.astype(float), start.astype(float), end.astype(float)


def joins(tags: Tags) -> np.ndarray:
    """(K, K) bool: labels j, k of neighbouring tokens belong to one span."""
    opening = (tags.prefix == B) | (tags.prefix == I)
    inside = (tags.prefix == I) | (tags.prefix == E)
    return opening[:, None] & inside[None, :] & (tags.type[:, None] == tags.type[None, :])
