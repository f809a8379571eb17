"""Ctrl-C and SIGTERM while a model is trained: what can be saved is saved before the process ends.

A training can go on only from the end of an epoch. So a signal that comes within one, when the
epochs before it are not on disk, waits for its end; there the training loop saves, and raises
Interrupted. A second signal does not wait, nor does one that finds nothing to be saved.
"""

from __future__ import annotations


class Interrupted(BaseException):
    """A signal that waited, raised when nothing is left to be saved."""

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number


class Pending:
    """What a signal has to wait for. work: in words, empty if nothing has to be saved; number: of
    the signal that waits, 0 for none; note: what became of the work that is done."""

    def __init__(self) -> None:
        self.work, self.number, self.note = "", 0, ""

    def ask(self, number: int) -> bool:
        """Called by the handler of a signal: whether the signal is to wait."""
        if not self.work or self.number:
            return False
        self.number = number
        return True

    def settle(self, note: str = "") -> None:
        """Say that nothing is left to be saved, and end here if a signal waits."""
        self.note = note or self.note
        self.work = ""
        if self.number:
            raise Interrupted(self.number)


pending = Pending()  # one for the process, as signals are the process's
