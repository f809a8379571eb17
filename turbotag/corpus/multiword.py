"""Multiword tokens: how a token is split into its words, learned from a treebank.

A script says how a token becomes words, whatever the token: at which places from its end it is cut
(don't: 3, so shouldn't is should, n't), or what its last characters are replaced by and which words
follow (Portuguese dá-lo: take off "á-lo", put "ar", then "lo"). The script of a token is the most
frequent one among the tokens of the treebank that share its longest ending with it, without regard
to case; the longest ending is the token itself.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

START = "^"  # before the first character of a token
LONGEST = 8  # characters of an ending that is not a whole token


class Script(NamedTuple):
    """How a token becomes words. cuts: the numbers of characters from its end at which it is cut.
    If there are none, `off` characters are taken off its end, `put` is put in their place, and the
    words `rest` follow."""

    cuts: tuple[int, ...] = ()
    off: int = 0
    put: str = ""
    rest: tuple[str, ...] = ()

    @classmethod
    def of(cls, form: str, words: list[str]) -> Script:
        """The script that turns a token into these words."""
        if "".join(words).lower() == form.lower() and len(words) > 1:
            return cls(tuple(len(form) - end for end in accumulate(map(len, words[:-1]))))
        first, *rest = (word.lower() for word in words)
        shared = 0
        while shared < min(len(first), len(form)) and first[shared] == form[shared].lower():
            shared += 1
        return cls((), len(form) - shared, first[shared:], tuple(rest))

    def words(self, form: str) -> tuple[str, ...] | None:
        """The words of a token, None if the token is too short. The letters of `put` are capitals
        in a token of capitals, and the first letter is one if that of the token was."""
        if self.cuts:
            ends = [0, *(len(form) - cut for cut in self.cuts), len(form)]
            if any(a >= b for a, b in pairwise(ends)):
                return None
            return tuple(form[a:b] for a, b in pairwise(ends))
        kept = form[: len(form) - self.off]
        words = kept + self.put, *self.rest
        if self.off > len(form) or not words[0]:
            return None
        if len(form) > 1 and form.isupper():
            return tuple(word.upper() for word in words)
        if not kept and form[0].isupper():
            return words[0].capitalize(), *self.rest
        return words


class Splitter:
    """Scripts by the endings of tokens."""

    def __init__(self, scripts: dict[str, Script]):
        self.scripts = scripts

    @classmethod
    def learn(cls, examples: Iterable[tuple[str, list[str]]]) -> Splitter:
        """Learn from tokens and their words. An ending is left out if a shorter ending has the same
        script."""
        seen: defaultdict[str, Counter[Script]] = defaultdict(Counter)
        for form, words in examples:
            for ending in _endings(form):
                seen[ending][Script.of(form, words)] += 1
        splitter = cls({})
        for ending in sorted(seen, key=lambda e: (len(e), e)):
            best = min(seen[ending].items(), key=lambda item: (-item[1], str(item[0])))[0]
            if splitter._find(_shorter(ending)) != best:
                splitter.scripts[ending] = best
        return splitter

    @classmethod
    def read(cls, data: bytes) -> Splitter:
        """From what `written` gave; ValueError if it is not that."""
        found: Any = json.loads(data)
        scripts = {}
        for ending, (cuts, off, put, rest) in found.items():
            numbers, strings = [*cuts, off], [ending, put, *rest]
            if not all(type(n) is int and n >= 0 for n in numbers):
                raise ValueError(f"the script of {ending!r:.20} has {numbers}")
            if not all(isinstance(s, str) and not {*s} & {*"\t\n\r"} for s in strings):
                raise ValueError(f"the script of {ending!r:.20} has words with line breaks")
            scripts[ending] = Script(tuple(cuts), off, put, tuple(rest))
        return cls(scripts)

    def written(self) -> bytes:
        """The splitter as JSON, which `read` takes."""
        return json.dumps(self.scripts, ensure_ascii=False).encode()

    def _find(self, endings: Iterable[str]) -> Script | None:
        return next((self.scripts[e] for e in endings if e in self.scripts), None)

    def split(self, form: str) -> tuple[str, ...] | None:
        """The words of a multiword token, None if nothing like it was seen."""
        found = self._find(_endings(form))
        return None if found is None else found.words(form)


def _endings(form: str) -> list[str]:
    """The token itself, and its endings, the longest first."""
    low = form.lower()
    return [START + low, *(low[-n:] for n in range(min(LONGEST, len(low)), 0, -1))]


def _shorter(ending: str) -> list[str]:
    if ending[0] == START:
        return _endings(ending[1:])[1:]
    return [ending[-n:] for n in range(len(ending) - 1, 0, -1)]
