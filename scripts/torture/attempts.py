"""One execution of a target: bytes are accepted, refused in a sentence, or neither."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from turbotag.corpus.reader import Block, read
from turbotag.errors import TurbotagError

DEMO = Path(__file__).parents[2] / "data" / "demo"
LONGEST_MESSAGE = 1000
BLANKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200b\u2060\ufeff]")  # in no token

TREES = (
    b"# text = Ada sang it\n1-2\tAdasang\t_\t_\t_\t_\t_\t_\t_\t_\n"
    b"1\tAda\tada\tPROPN\tNNP\tCase=Nom\t2\tnsubj\t_\t_\n"
    b"2\tsang\tsing\tVERB\tVBD\t_\t0\troot\t_\tA=b|C\n2.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n"
    b"3\tit\tit\tPRON\tPRP\t_\t2\tobj\t_\tSpaceAfter=No\n\n"
    b"1\tRain\train\tNOUN\tNN\t_\t0\troot\t_\t_\n2\t!\t!\tPUNCT\t.\t_\t1\tpunct\t_\t_\n\n"
)
TAGS = b"Ada NNP B-PER\nLind NNP I-PER\nsang VBD O\n\nin IN O\nOslo NNP B-LOC\n. . O\n\n"
ATTRIBUTES = b"B\tw=Ada\tlen:3\nO\tw=sang\tlen:4\n\nB\tw=Oslo\ta\\:b:0.5\nO\tw=.\n\n"


THOROUGH = False  # whether costly checks are made of every input


class Unexpected(Exception):
    """Bytes that a target neither accepted nor refused as it should."""


@dataclass(frozen=True)
class Target:
    """run: raises TurbotagError to refuse; seeds: valid inputs; limit: bytes of an input."""

    run: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    limit: int = 512


def attempt(run: Callable[[bytes], None], data: bytes) -> bool:
    """Whether a target accepts the bytes; any error but a refusal in one line is passed on."""
    try:
        run(data)
    except TurbotagError as e:
        check_message(str(e))
        return False
    return True


def check_message(message: str) -> None:
    if not message or len(message.splitlines()) != 1 or len(message) > LONGEST_MESSAGE:
        raise Unexpected(f"refused, but not in one sentence: {message[:2000]!r}")


def check(holds: object, what: str) -> None:
    if not holds:
        raise Unexpected(what)


def often(data: bytes, n: int) -> bool:
    """Whether it is the turn of an input, one in n, to have a costly check."""
    return THOROUGH or len(data) % n == 0


@cache
def tagged_block() -> Block:
    return read(TAGS, "columns")


@cache
def tree_block() -> Block:
    return read(TREES, "conllu")
