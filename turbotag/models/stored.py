"""Models in files: what all of them do in the same way."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

from turbotag.storage import store
from turbotag.storage.checks import fitting

Kind = TypeVar("Kind", bound="Stored")


class Stored:
    """A model that has kind, header, arrays, wanted and restored, as models/model.Model says."""

    def save(self, path: str) -> None:
        """Write the model file."""
        model: Any = self
        store.save_file(path, model.kind, model.header, model.arrays)

    @classmethod
    def load(cls: type[Kind], path: str, names: bool = False) -> Kind:
        """Read a model file. names: whether to read the names of its features too, if it has them;
        prediction does not need them."""
        model: Any = cls
        header, arrays = store.load_file(
            path, model.kind, wanted=partial(model.wanted, names=names)
        )
        with fitting(path):
            found: Kind = model.restored(header, arrays)
            return found
