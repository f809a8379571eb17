"""The two errors a user can cause: bad data (exit code 1) and bad usage (exit code 2)."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 400  # characters of a message


class TurbotagError(Exception):
    """Base class: its text is one sentence that a user can act on."""

    exit_code = 1


class DataError(TurbotagError):
    """A file that cannot be read or used; says which file and, if known, which line."""

    def __init__(self, message: str, path: str | None = None, line: int | None = None):
        self.path, self.line = path, line
        message = "".join(c if c.isprintable() else " " for c in message)
        if len(message) > LONGEST:  # a message may quote a whole file
            message = f"{message[: LONGEST // 2]} ... {message[-LONGEST // 2 :]}"
        where = "" if path is None else f"{path}: " if line is None else f"{path}, line {line}: "
        super().__init__(where + message)


class UsageError(TurbotagError):
    """Options that are illegal or do not go together."""

    exit_code = 2


class ArgumentError(UsageError, TypeError):
    """An argument of the wrong kind or with an unknown name. It is a TypeError too, as Python users
    expect."""


class NotTrainedError(UsageError, ValueError, AttributeError):
    """A model was asked for something before it was trained. Like the NotFittedError of
    scikit-learn it is a ValueError and an AttributeError, so that `hasattr(crf, "classes_")` is
    False."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the known name that is most like it, if there is
    one."""
    from difflib import get_close_matches

    found = get_close_matches(word, known, 1)
    return f"; did you mean {found[0]!r}?" if found else ""
