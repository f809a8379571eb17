"""Resources: what a model knows of words beside its training data, for templates to read.

A gazetteer is a list of names, read by templates as `gaz`; word clusters are paths in a tree of
words, read as `cluster` (the whole path), `cluster4`, `cluster10` (its first bits). A template that
names a kind, as `gaz[0]` does, stands for one template for each resource of that kind that there
is; `gaz:country[0]` and `cluster4:en[0]` name one resource.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import product
from typing import ClassVar, TypeVar

import numpy as np

from turbotag.corpus.reader import Source
from turbotag.errors import DataError

Arrays = dict[str, np.ndarray]
_COLUMN = re.compile(r"([a-z]+)([1-9]\d?)?(?::([\w:-]+))?")  # kind, depth, name


class Resource(ABC):
    """A resource gives each word of a text a number, and each number a value that templates read.

    kind: the name in templates; has_depths: whether templates may add a number to it, as in
    cluster4; prefix: of its arrays in a model file; layout: their types and shapes there, as
    storage/checks.expect takes them; replaceable: whether learned weights still mean the same with
    another resource of this kind.
    """

    kind: ClassVar[str]
    has_depths: ClassVar[bool] = False
    replaceable: ClassVar[bool] = False
    prefix: ClassVar[str]
    layout: ClassVar[dict[str, tuple[str, tuple[int | None, ...]]]]
    name: str

    @classmethod
    @abstractmethod
    def read(cls, name: str, path: Source) -> Resource:
        """From a user's file; DataError with the file and the line if it cannot be."""

    @classmethod
    @abstractmethod
    def load(cls, name: str, arrays: Arrays) -> Resource:
        """From the arrays of a model file; ValueError if they are damaged."""

    @abstractmethod
    def arrays(self) -> Arrays:
        """What `load` takes."""

    def same(self, other: Resource) -> bool:
        """Whether another resource says the same of all words."""
        a, b = self.arrays(), other.arrays()
        return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)

    @property
    @abstractmethod
    def types(self) -> Callable[[list[str]], np.ndarray]:
        """A function that gives what is known of words by themselves, without their neighbours,
        (words,)."""

    @abstractmethod
    def numbers(self, types: np.ndarray, sentences: np.ndarray) -> np.ndarray:
        """(tokens,) int32 from `types` of each word of sentences; 0 for none."""

    @abstractmethod
    def values(self, column: str) -> list[str]:
        """The values that a template sees in `column`, by number. Number 0 keeps the template from
        firing."""


@cache
def _read(column: str) -> tuple[type[Resource] | None, int, str]:
    """(kind, depth, name) of a column of a template: cluster4:en is (Clusters, 4, "en")."""
    from turbotag.features.kinds import KINDS  # which imports this module

    match = _COLUMN.fullmatch(column)
    for cls in KINDS.values() if match else ():
        if match and match[1] == cls.kind and (cls.has_depths or not match[2]):
            return cls, int(match[2] or 0), match[3] or ""
    return None, 0, ""


def kind_of(column: str) -> str:
    """The kind of resource that a column of a template stands for, '' if it is one of the file."""
    cls, _, _ = _read(column)
    return cls.kind if cls else ""


def name_of(column: str) -> str:
    """The resource that a column names, '' if it stands for all of its kind."""
    return _read(column)[2]


def depth_of(column: str) -> int:
    """The number of bits of a path that a column reads: 4 for cluster4, and 0, which means all, for
    cluster."""
    return _read(column)[1]


def find(column: str, resources: Iterable[Resource]) -> Resource:
    """The resource that a column names."""
    for resource in resources:
        if (resource.kind, resource.name) == (kind_of(column), name_of(column)):
            return resource
    cls, _, name = _read(column)
    what = cls.prefix if cls else column
    raise DataError(f"the templates need {what} {name!r}, which is not given")


T = TypeVar("T")


def expand(
    templates: Iterable[T],
    columns: Callable[[T], Iterable[str]],
    renamed: Callable[[T, Mapping[str, str]], T],
    resources: list[Resource],
) -> list[T]:
    """Each template that names a kind of resource, once for each resource of the kind.

    columns: those that a template reads; renamed: a template with other names of some columns.
    """
    out: list[T] = []
    for template in templates:
        general = [c for c in dict.fromkeys(columns(template)) if kind_of(c) and not name_of(c)]
        kinds = list(dict.fromkeys(map(kind_of, general)))
        names = [[r.name for r in resources if r.kind == kind] for kind in kinds]
        for chosen in product(*names):
            named = dict(zip(kinds, chosen, strict=True))
            out.append(renamed(template, {c: f"{c}:{named[kind_of(c)]}" for c in general}))
    return out
