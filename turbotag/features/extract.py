"""From a block of tokens to 64-bit feature keys.

Strings are touched once for each distinct value of a column: its attributes become keys in a table
with a row for each value. A kernel then combines the keys of a token and its neighbours as the
templates say. An extractor keeps what it has seen, so a stream of blocks pays for a word once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np

from turbotag.corpus.hashing import Interner, combine, hash_strings, mix64
from turbotag.corpus.reader import Block
from turbotag.errors import DataError
from turbotag.features.resources import Resource, expand, find, kind_of
from turbotag.features.templates import FLAGS, MAX_ATOMS, Atom, Template, text
from turbotag.features.weights import RowTable, SmallRows, add_rows, ask
from turbotag.features.words import attribute
from turbotag.lean import njit

MAX_STRINGS = 100_000  # strings that an extractor remembers, some 40 MB; then it forgets them all
BOUNDARY = np.uint64(0x626F756E64617279)  # the value of every attribute outside the sentence
OUTSIDE = -2  # its id in `origins`
LARGEST = 1e10  # value of an attribute: times the largest weight, float32 still holds it
_UNESCAPED_COLON = re.compile(r"(?<!\\)(?:\\\\)*:")


class _Memory:
    """The result of a function for each string seen so far, (n_strings,)."""

    def __init__(self, function: Callable[[list[str]], np.ndarray]):
        self.function = function
        self.known = function([])

    def extend(self, strings: list[str]) -> np.ndarray:
        """The results for all strings, of which the first are those seen before."""
        new = strings[self.known.size :]
        if new:
            self.known = np.concatenate([self.known, self.function(new)])
        return self.known


def _keys_of(attr: str) -> Callable[[list[str]], np.ndarray]:
    """Keys of an attribute of strings, 0 where it is empty."""
    function = attribute(attr) if attr else None
    if function is None:
        return hash_strings

    def keys(strings: list[str]) -> np.ndarray:
        values = [function(s) for s in strings]
        found = hash_strings(values)
        found[[not v for v in values]] = 0
        return found

    return keys


class Extractor:
    """Templates and resources, applied to blocks of tokens."""

    def __init__(self, templates: list[Template], resources: list[Resource] | None = None):
        self.resources = resources or []
        self.attributes = () in templates
        self.templates = [t for t in expand(templates, _columns, _renamed, self.resources) if t]
        self.sources = sorted({a.source for t in self.templates for a in t})
        self._resource = {c: find(c, self.resources) for c, _ in self.sources if kind_of(c)}
        self._value = {c: resource.values(c) for c, resource in self._resource.items()}
        at = {s: n for n, s in enumerate(self.sources)}
        self._seeds = hash_strings([text(t) for t in self.templates])
        self._first = np.cumsum([0, *(len(t) for t in self.templates)]).astype(np.int64)
        self._atom_source = np.array([at[a.source] for t in self.templates for a in t], np.int64)
        self._atom_offset = np.array([a.offset for t in self.templates for a in t], np.int64)
        self.forget()

    def forget(self) -> None:
        self.interners: dict[str, Interner] = {}
        self._keys = {source: _Memory(_keys_of(source[1])) for source in self.sources}
        self._types = {r.types: _Memory(r.types) for r in self._resource.values()}
        self._attribute_names: list[str] = []
        self._attribute_keys = np.zeros(0, np.uint64)
        self._attribute_values = np.zeros(0, np.float32)

    @cached_property
    def columns(self) -> list[str]:
        """Columns of the file that the templates read."""
        names = {c for c, _ in self.sources if c not in FLAGS and not kind_of(c)}
        return sorted(names | ({"word"} if self._resource else set()))

    def ids(self, block: Block) -> dict[str, np.ndarray]:
        """(tokens,) ids of every column that the templates read, resources included."""
        if sum(len(i.strings) for i in self.interners.values()) > MAX_STRINGS:
            self.forget()
        ids: dict[str, np.ndarray] = {}
        for column in self.columns:
            at = block.format.index(column)
            if at is None:
                has = ", ".join(block.format.columns) or "attributes only"
                raise DataError(f"the templates need column {column!r}; it has {has}", block.path)
            ids[column] = block.ids(at, self.interners.setdefault(column, Interner()))
        numbers: dict[Resource, np.ndarray] = {}
        for column, resource in self._resource.items():
            if resource not in numbers:
                types = self._types[resource.types].extend(self.interners["word"].strings)
                numbers[resource] = resource.numbers(types[ids["word"]], block.sentences)
            ids[column] = numbers[resource]
        return ids

    def strings(self, column: str) -> list[str]:
        """The values of a column that have been seen, by their ids."""
        if column in FLAGS:
            return [column]
        return self._value.get(column) or self.interners[column].strings

    def _values(self, column: str, vocabulary: dict[str, list[str]]) -> list[str]:
        """The values of a column by their ids."""
        return self._value.get(column) or vocabulary.get(column, [])

    def matrix(self, block: Block, ids: dict[str, np.ndarray]) -> np.ndarray:
        """(tokens, sources) uint64: the key of every source at every token, 0 for none."""
        out = np.empty((block.n_tokens, len(self.sources)), np.uint64)
        for n, (column, attr) in enumerate(self.sources):
            keys = self._keys[column, attr].extend(self.strings(column))
            if column in FLAGS:
                out[:, n] = 0
                starts, ends = block.sentences[:-1], block.sentences[1:] - 1
                tokens = {"bias": np.arange(block.n_tokens), "first": starts, "last": ends}
                out[tokens[column], n] = keys[0]
            elif column in self._resource:
                out[:, n] = np.where(ids[column] > 0, keys[ids[column]], np.uint64(0))
            else:
                out[:, n] = keys[ids[column]]
        return out

    def template_keys(self, block: Block, ids: dict[str, np.ndarray]) -> np.ndarray:
        """(tokens, templates) feature keys, 0 where a template does not fire."""
        return template_keys(
            self.matrix(block, ids),
            block.sentences,
            self._seeds,
            self._first,
            self._atom_source,
            self._atom_offset,
        )

    def scores(self, block: Block, table: RowTable, rows: SmallRows) -> np.ndarray:
        """(tokens, labels) float32: the sums of the rows of the features that a table has."""
        found: np.ndarray = template_scores(
            self.matrix(block, self.ids(block)),
            block.sentences,
            self._seeds,
            self._first,
            self._atom_source,
            self._atom_offset,
            *table.data,
            *rows,
        )
        return found

    def attribute_fields(self, block: Block) -> tuple[np.ndarray, np.ndarray]:
        """The attribute fields of a CRFsuite block: the token of each, and its id."""
        if block.format.columns:
            raise DataError(
                f"the model reads CRFsuite attributes, but this is {block.format.name}", block.path
            )
        if len(self._attribute_names) > MAX_STRINGS:
            self.forget()
        width = block.width - 1
        token = np.repeat(np.arange(block.n_tokens), width)
        at = np.repeat(block.first + 1 - np.cumsum(width) + width, width)
        at += np.arange(token.size)
        full = block.starts[at] < block.ends[at]  # a trailing tab leaves an empty field
        if not full.all():
            at, token = at[full], token[full]
        interner = self.interners.setdefault("attribute", Interner())
        ids = interner.ids(block.buf, block.starts[at], block.ends[at])
        self._parse_attributes(interner.strings, block, token, ids)
        return token, ids

    def _parse_attributes(
        self, strings: list[str], block: Block, token: np.ndarray, ids: np.ndarray
    ) -> None:
        """Split new 'name:value' strings; `\\:` and `\\\\` are escapes."""
        old = len(self._attribute_names)
        values = []
        for n, string in enumerate(strings[old:], old):
            name, value = string, 1.0
            if ":" in string:
                colon = _UNESCAPED_COLON.search(string)
                if colon:
                    name, number = string[: colon.end() - 1], string[colon.end() :]
                    try:
                        value = float(number)
                    except ValueError:
                        value = np.nan
                    if not abs(value) <= LARGEST:
                        where = int(token[np.flatnonzero(ids == n)[0]])
                        kind = "not a number" if np.isnan(value) else f"beyond {LARGEST:g}"
                        raise block.error(f"{number!r} in {string!r} is {kind}", where)
            if "\\" in name:
                name = name.replace("\\:", ":").replace("\\\\", "\\")
            self._attribute_names.append(name)
            values.append(value)
        if values:
            keys = hash_strings(["attribute\t" + n for n in self._attribute_names[old:]])
            self._attribute_keys = np.concatenate([self._attribute_keys, keys])
            new = np.array(values, np.float32)
            self._attribute_values = np.concatenate([self._attribute_values, new])

    def occurrences(self, block: Block) -> Occurrences:
        """All features of a block."""
        ids = self.ids(block)
        n = block.n_tokens
        keys = self.template_keys(block, ids) if self.templates else np.zeros((n, 0), np.uint64)
        token, flat, which = _fired(keys)
        values = np.ones(flat.size, np.float32)
        if not self.attributes:
            return Occurrences(token, flat, values, which, ids)
        owner, fields = self.attribute_fields(block)
        if not self.templates:
            keys, values = self._attribute_keys[fields], self._attribute_values[fields]
            return Occurrences(owner, keys, values, -1 - fields.astype(np.int64), ids)
        token = np.concatenate([owner, token])
        order = np.argsort(token, kind="stable")
        flat = np.concatenate([self._attribute_keys[fields], flat])[order]
        values = np.concatenate([self._attribute_values[fields], values])[order]
        which = np.concatenate([-1 - fields.astype(np.int64), which])[order]
        return Occurrences(token[order], flat, values, which, ids)

    def origins(
        self,
        token: np.ndarray,
        which: np.ndarray,
        ids: dict[str, np.ndarray],
        sentences: np.ndarray,
    ) -> np.ndarray:
        """What `describe` needs to name features seen at `token`: (n, 1 + MAX_ATOMS) int32,
        the template and the ids of its values."""
        owner = np.searchsorted(sentences, token, side="right")
        begin, end = sentences[owner - 1], sentences[owner]
        out = np.full((token.size, 1 + MAX_ATOMS), -1, np.int32)
        out[:, 0] = np.where(which < 0, len(self.templates), which)
        out[which < 0, 1] = -1 - which[which < 0]
        for j, template in enumerate(self.templates):
            here = np.flatnonzero(which == j)
            for n, atom in enumerate(template, 1):
                if atom.column not in FLAGS:
                    at = token[here] + atom.offset
                    inside = (at >= begin[here]) & (at < end[here])
                    values = ids[atom.column][np.where(inside, at, 0)]
                    out[here, n] = np.where(inside, values, OUTSIDE)
        return out

    def vocabulary(self) -> dict[str, list[str]]:
        """Values of every column, by id, for `describe`."""
        names = {c: i.strings for c, i in self.interners.items() if c != "attribute"}
        return {**names, "attribute": self._attribute_names} if self.attributes else names

    def adopt(
        self, other: Extractor, origins: np.ndarray, vocabulary: dict[str, list[str]]
    ) -> tuple[np.ndarray, dict[str, list[str]]]:
        """What `describe` needs to name the features of another extractor, whose templates are
        among ours: its `origins` with our numbers, and our vocabulary with its values at the
        end."""
        names = {column: list(values) for column, values in self.vocabulary().items()}
        numbers = {
            c: _numbered(values, names.setdefault(c, [])) for c, values in vocabulary.items()
        }
        ours = {text(t): j for j, t in enumerate(self.templates)}
        out = origins.copy()
        for j, template in enumerate([*other.templates, None]):
            rows = np.flatnonzero(origins[:, 0] == j)
            out[rows, 0] = len(ours) if template is None else ours[text(template)]
            read = ["attribute"] if template is None else [atom.column for atom in template]
            for n, column in enumerate(read, 1):
                if column in numbers:  # neither a flag nor a resource
                    old = origins[rows, n]
                    out[rows, n] = np.where(old >= 0, numbers[column][np.maximum(old, 0)], old)
        return out, names

    def check_origins(self, origins: np.ndarray, vocabulary: dict[str, list[str]]) -> None:
        """ValueError unless `describe` can name all rows."""
        which = origins[:, 0]
        last = len(self.templates) - (not self.attributes)
        wrong = bool(((which < 0) | (which > last)).any())
        for j, template in enumerate([*self.templates, None]):
            rows = origins[which == j]
            for n, atom in enumerate(template or (None,), 1):
                column = "attribute" if atom is None else atom.column
                if column not in FLAGS:
                    values = self._values(column, vocabulary)
                    outside = atom is not None and rows[:, n] == OUTSIDE
                    inside = (rows[:, n] >= 0) & (rows[:, n] < len(values))
                    wrong |= not (inside | outside).all()
        if wrong:
            raise ValueError("names of features point outside the vocabulary")

    def describe(self, origin: list[int], vocabulary: dict[str, list[str]]) -> str:
        """A readable feature name such as `word[-1]=the pos[0]=NN`, from a row of `origins`."""
        which, *values = origin
        if which == len(self.templates):
            return vocabulary["attribute"][values[0]]
        parts = []
        for atom, value in zip(self.templates[which], values, strict=False):
            if atom.column in FLAGS:
                parts.append(atom.column)
                continue
            if value == OUTSIDE:
                parts.append(f"{atom}=<boundary>")
                continue
            string = self._values(atom.column, vocabulary)[value]
            function = attribute(atom.attribute) if atom.attribute else None
            parts.append(f"{atom}={function(string) if function else string}")
        return " ".join(parts)


class Occurrences:
    """Features of a block: token, key and value of each, in token order; which template fired."""

    def __init__(
        self,
        token: np.ndarray,
        keys: np.ndarray,
        values: np.ndarray,
        which: np.ndarray,
        ids: dict[str, np.ndarray],
    ):
        self.token, self.keys, self.values = token, keys, values
        self.which, self.ids = which, ids


def _numbered(values: list[str], names: list[str]) -> np.ndarray:
    """The places of values in `names`; missing ones are added at its end."""
    at = {name: n for n, name in enumerate(names)}
    for value in values:
        if value not in at:
            at[value] = len(names)
            names.append(value)
    return np.array([at[value] for value in values], np.int32)


def _columns(template: Template) -> list[str]:
    return [atom.column for atom in template]


def _renamed(template: Template, names: Mapping[str, str]) -> Template:
    return tuple(Atom(names.get(a.column, a.column), a.attribute, a.offset) for a in template)


@njit(cache=True, nogil=True)
def _keys_at(t, begin, end, matrix, seeds, first, atom_source, atom_offset, keys, at):
    """Write the keys of a token of the sentence begin..end-1 from keys[at] on, 0 for templates that
    do not fire.

    key = combine over the template's atoms of seeds[j] and matrix[t + offset, source]
    """
    for j in range(seeds.size):
        h = mix64(seeds[j])
        for a in range(first[j], first[j + 1]):
            p = t + atom_offset[a]
            value = BOUNDARY
            if p >= begin and p < end:
                value = matrix[p, atom_source[a]]
            if value == 0:
                h = np.uint64(0)
                break
            h = combine(h, value)
        keys[at + j] = h


@njit(cache=True, nogil=True)
def template_keys(matrix, sentences, seeds, first, atom_source, atom_offset):
    """(tokens, templates) keys of all tokens of a block."""
    n, J = matrix.shape[0], seeds.size
    keys = np.empty(n * J, np.uint64)
    for s in range(sentences.size - 1):
        begin, end = sentences[s], sentences[s + 1]
        for t in range(begin, end):
            where = (t, begin, end, matrix, seeds, first, atom_source, atom_offset)
            _keys_at(*where, keys, t * J)
    return keys.reshape(n, J)


@njit(cache=True, nogil=True)
def template_scores(
    matrix, sentences, seeds, first, atom_source, atom_offset, lines, marks, weights, scales
):
    """(tokens, labels) float32: the sums of the rows of each token's features, for eight-bit
    weights; the memory of a token's features is asked for before those of the token before it are
    added."""
    out = np.zeros((matrix.shape[0], weights.shape[1]), np.float32)
    J = seeds.size
    keys, products = np.empty(2 * J, np.uint64), np.empty(2 * J, np.uint64)
    table = (lines, marks, weights, scales)
    before, at = -1, 0
    for s in range(sentences.size - 1):
        begin, end = sentences[s], sentences[s + 1]
        for t in range(begin, end):
            where = (t, begin, end, matrix, seeds, first, atom_source, atom_offset)
            _keys_at(*where, keys, at)
            ask(keys, at, at + J, lines, products)
            at = J - at
            if before >= 0:
                add_rows(keys, at, at + J, products, *table, out, before)
            before = t
    if before >= 0:
        at = J - at
        add_rows(keys, at, at + J, products, *table, out, before)
    return out


@njit(cache=True, nogil=True)
def _fired(keys):
    """Token, key and template of every key that is not 0, in order."""
    n = 0
    for t in range(keys.shape[0]):
        for j in range(keys.shape[1]):
            n += keys[t, j] != 0
    token, flat, which = np.empty(n, np.int64), np.empty(n, np.uint64), np.empty(n, np.int64)
    n = 0
    for t in range(keys.shape[0]):
        for j in range(keys.shape[1]):
            if keys[t, j] != 0:
                token[n], flat[n], which[n] = t, keys[t, j], j
                n += 1
    return token, flat, which
