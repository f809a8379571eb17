"""The tagger: templates, a table of feature keys, one weight matrix, and chain inference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
from numba import njit

from turbotag.corpus import schemes
from turbotag.corpus.formats import Format
from turbotag.corpus.hashing import KeyTable, pack, unpack
from turbotag.corpus.reader import Block
from turbotag.errors import DataError
from turbotag.features import compact
from turbotag.features.extract import Extractor
from turbotag.features.gazetteer import Gazetteer
from turbotag.features.templates import MAX_ATOMS, parse
from turbotag.models import store
from turbotag.models.calibration import CALIBRATION, PLAIN, Confidence, confidence_of
from turbotag.models.checks import PROVENANCE, check_entry, check_names, expect, fitting
from turbotag.models.tensors import Entries
from turbotag.structures import chain, chain2

PACKED = ("counts", "lows", "rows", "scales")  # arrays of a compact tagger's features
CLAMP = 250.0  # potentials this low rule a label out (e^-250) and stay within the scaled recursion

Mask = tuple[np.ndarray, np.ndarray, np.ndarray]
HEADER = PROVENANCE | {
    "scheme": (str, None),
    "file_scheme": (str, None),
    "constraints": str,
    "order": int,
    "format": str,
    "columns": [str],
    "target": str,
    "templates": str,
    "gazetteers": [str],
    "compact?": bool,
    "calibration?": CALIBRATION,
    "scores?": {"*": {"measure": str, "convention": str, "f1?": float, "accuracy?": float}},
}


@dataclass(frozen=True)
class Marginals:
    """token: (tokens,) probability of each tag given; spans and span: the entities and theirs."""

    token: np.ndarray
    spans: schemes.Spans | None
    span: np.ndarray


@dataclass(frozen=True)
class Rows:
    """Weight rows of features: (tokens, templates) with -1 for none, all of value 1; or, where
    features have values, a flat list with the token and the value of each."""

    rows: np.ndarray
    n_tokens: int
    token: np.ndarray | None = None
    values: np.ndarray | None = None


class Tagger:
    """A trained tagger.

    header: everything that is not an array (labels, scheme, templates, columns, certificate, ...);
    keys: (rows,) uint64 feature keys; weights: (rows + shared rows, K) float32, the transitions
    from label j after the features and at order 2 the rows of label pairs after those. A compact
    tagger (header["compact"]) has folded keys and eight-bit weights in its file.
    """

    def __init__(
        self,
        header: dict[str, Any],
        keys: np.ndarray,
        weights: np.ndarray,
        gazetteers: list[Gazetteer],
        origins: np.ndarray | None = None,
        vocabulary: dict[str, list[str]] | None = None,
    ):
        self.header, self.keys = header, keys
        self.gazetteers = gazetteers
        self.origins, self.vocabulary = origins, vocabulary or {}
        self.labels: list[str] = header["labels"]
        self.order: int = header["order"]
        self.table = KeyTable.of(keys)
        self.extractor = self.new_extractor()
        self.set_weights(weights)
        self._read_calibration()
        self.mask: Mask = chain.free(len(self.labels))
        if header["constraints"] != "none" and header["scheme"]:
            self.mask = schemes.mask(self.labels, header["scheme"])

    def __reduce__(self) -> tuple[Any, ...]:
        given = self.header, self.keys, self.weights, self.gazetteers, self.origins, self.vocabulary
        return Tagger, given

    def set_weights(self, weights: np.ndarray) -> None:
        """Replace all weights: (rows + shared rows, K) float32."""
        K, n = len(self.labels), self.keys.size
        self.weights = weights
        self.trans = weights[n : n + K].astype(np.float64)
        self.triple = weights[n + K :].astype(np.float64).reshape(-1, K, K)

    def set_calibration(self, found: dict[str, Any]) -> None:
        """Take probabilities of tags and entities as `found`, an entry of the header, says."""
        self.header["calibration"] = found
        self._read_calibration()

    def _read_calibration(self) -> None:
        self.confidence = confidence_of(self.header, "tags")
        self.entity_confidence = confidence_of(self.header, "entities")

    def new_extractor(self) -> Extractor:
        """An extractor of its own for each thread: it remembers the words it has seen."""
        return Extractor(parse(self.header["templates"], "templates"), self.gazetteers)

    # ---- Reading ---------------------------------------------------------------------------------

    @property
    def input_format(self) -> str | None:
        """The only format that a model can read, if there is only one."""
        return "crfsuite" if self.extractor.attributes else None

    def naming(self, n: int) -> tuple[str, ...]:
        """Names of the columns of an input with n columns; the predicted one may be missing."""
        names = tuple(self.header["columns"])
        target = self.header["target"]
        if self.header["format"] in ("conllu", "conllx", "crfsuite"):
            names = ("word", target)
        without = tuple(c for c in names if c != target)
        if n == len(names):
            return names
        if n == len(without):
            return without
        if n > len(names):
            raise DataError(
                f"has {n} columns, but the model knows {len(names)} ({', '.join(names)}): "
                "name them with --columns"
            )
        return names[:n]

    def target(self, fmt: Format) -> int | None:
        """Where the predicted column stands in an input, None if it has none."""
        if fmt.name == "crfsuite":
            return 0
        return fmt.index(self.header["target"])

    # ---- Scores ----------------------------------------------------------------------------------

    def scores(self, block: Block, extractor: Extractor | None = None) -> np.ndarray:
        """(tokens, K) float32 unary scores."""
        return self.score_rows(self.rows(block, extractor or self.extractor))

    def rows(self, block: Block, extractor: Extractor) -> Rows:
        """The weight rows of a block's features."""
        if not extractor.attributes:
            keys = extractor.template_keys(block, extractor.ids(block))
            return Rows(self.lookup(keys.reshape(-1)).reshape(keys.shape), block.n_tokens)
        found = extractor.occurrences(block)
        rows = self.lookup(found.keys)
        known = rows >= 0
        return Rows(rows[known], block.n_tokens, found.token[known], found.values[known])

    def lookup(self, keys: np.ndarray) -> np.ndarray:
        """Rows of feature keys, -1 for unknown ones."""
        return self.table.lookup(compact.fold(keys) if self.header.get("compact") else keys)

    def score_rows(self, rows: Rows) -> np.ndarray:
        """Unary scores from rows."""
        out = np.zeros((rows.n_tokens, len(self.labels)), np.float32)
        if rows.token is None:
            _add_matrix(rows.rows, self.weights, out)
        else:
            _add_listed(rows.token, rows.rows, rows.values, self.weights, out)
        return out

    def theta(self, scores: np.ndarray) -> np.ndarray:
        """The flat potentials of one sentence from its unary scores (T, K)."""
        return np.concatenate(
            [scores.reshape(-1).astype(np.float64), self.trans.reshape(-1), self.triple.reshape(-1)]
        )

    # ---- Decoding --------------------------------------------------------------------------------

    def viterbi(self, scores: np.ndarray, sentences: np.ndarray) -> np.ndarray:
        """(tokens,) int32: the best label sequence of each sentence."""
        allowed, start, end = (chain.barred(m).astype(np.float32) for m in self.mask)
        trans = self.trans.astype(np.float32) + allowed
        if self.order == 1:
            return _viterbi(scores, sentences, trans, start, end)
        return _viterbi2(scores, sentences, trans, self.triple.astype(np.float32), start, end)

    def tag(self, block: Block, extractor: Extractor | None = None) -> np.ndarray:
        """(tokens,) int32 labels of a block."""
        return self.viterbi(self.scores(block, extractor), block.sentences)

    @property
    def _inference(self) -> ModuleType:
        return chain if self.order == 1 else chain2

    def posterior(
        self, scores: np.ndarray, sentences: np.ndarray, confidence: Confidence | None = None
    ) -> np.ndarray:
        """(tokens, K) marginal probabilities, by default calibrated."""
        c, K = confidence or self.confidence, len(self.labels)
        out = np.empty((scores.shape[0], K))
        for a, b in zip(sentences[:-1].tolist(), sentences[1:].tolist(), strict=True):
            theta = self.theta(scores[a:b])
            mu = np.empty_like(theta)
            self._inference.marginals(theta, *self.mask, c.sharpness, mu)
            out[a:b] = mu[: (b - a) * K].reshape(b - a, K)
        mixed: np.ndarray = c.mix(out, 1.0 / K)
        return mixed

    def posterior_decode(self, scores: np.ndarray, sentences: np.ndarray) -> np.ndarray:
        """The sequence with the fewest errors that the model itself, not calibrated, expects; among
        those that the mask allows."""
        posterior = self.posterior(scores, sentences, PLAIN)
        allowed, start, end = (chain.barred(m).astype(np.float32) for m in self.mask)
        return _viterbi(posterior.astype(np.float32), sentences, allowed, start, end)

    def marginals(self, scores: np.ndarray, sentences: np.ndarray, tags: np.ndarray) -> Marginals:
        """Probability of each tag, and of each span that the tags form: that exactly these words,
        and none beside them, are one entity of this type."""
        token = self.posterior(scores, sentences)[np.arange(tags.size), tags]
        found = self.spans(tags, sentences)
        if found is None:
            return Marginals(token, None, np.zeros(0))
        span = self.span_probabilities(scores, sentences, tags, found)
        # Tags and entities are calibrated apart, but no entity is more probable than a tag of it.
        ends = zip(found.start.tolist(), found.end.tolist(), strict=True)
        most = np.array([token[a : b + 1].min() for a, b in ends])
        return Marginals(token, found, np.minimum(span, most))

    def spans(self, tags: np.ndarray, sentences: np.ndarray) -> schemes.Spans | None:
        """The spans that tags form, if they are span tags."""
        if not self.header["scheme"]:
            return None
        parsed = schemes.parse(self.labels)
        assert parsed is not None
        return schemes.spans(parsed.prefix[tags], parsed.type[tags], sentences)

    def span_probabilities(
        self,
        scores: np.ndarray,
        sentences: np.ndarray,
        tags: np.ndarray,
        found: schemes.Spans,
        confidence: Confidence | None = None,
    ) -> np.ndarray:
        """(spans,) by default calibrated."""
        c = confidence or self.entity_confidence
        clamp = CLAMP / c.sharpness
        parsed = schemes.parse(self.labels)
        assert parsed is not None
        joins = schemes.joins(parsed)
        probability = np.empty(found.start.size)
        owner = np.searchsorted(sentences, found.start, side="right") - 1
        sentence, theta, log_z, K = -1, np.zeros(0), 0.0, len(self.labels)
        for n, (a, b, s) in enumerate(
            zip(found.start.tolist(), found.end.tolist(), owner.tolist(), strict=True)
        ):
            first, T = int(sentences[s]), int(sentences[s + 1] - sentences[s])
            if s != sentence:
                sentence, theta = s, self.theta(scores[first : first + T])
                log_z = self._inference.log_partition(theta, *self.mask, c.sharpness)
            clamped = theta.copy()
            u = clamped[: T * K].reshape(T, K)
            for t in range(a, b + 1):
                keep = u[t - first, tags[t]]
                u[t - first] -= clamp
                u[t - first, tags[t]] = keep
            if a > first:
                u[a - first - 1, joins[:, tags[a]]] -= clamp
            if b + 1 < first + T:
                u[b - first + 1, joins[tags[b]]] -= clamp
            rest = self._inference.log_partition(clamped, *self.mask, c.sharpness)
            probability[n] = math.exp(min(0.0, rest - log_z))
        mixed: np.ndarray = c.mix(probability, 0.0)  # an entity at random is hardly the right one
        return mixed

    def nbest(self, scores: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        """(paths (m, T), probabilities (m,)) of the best sequences of one sentence, m <= n."""
        (T, K), theta, c = scores.shape, self.theta(scores), self.confidence
        paths, best = self._inference.kbest(theta, *self.mask, n)
        log_z = self._inference.log_partition(theta, *self.mask, c.sharpness)
        return paths, c.mix(np.exp(c.sharpness * best - log_z), float(K) ** -T)

    def output_labels(
        self, tags: np.ndarray, sentences: np.ndarray
    ) -> tuple[list[str], np.ndarray]:
        """Tags in the scheme that the training file had: (strings, ids)."""
        scheme, wanted = self.header["scheme"], self.header["file_scheme"]
        if scheme == wanted:
            return self.labels, tags
        return schemes.convert(self.labels, tags, sentences, wanted)

    # ---- Files -----------------------------------------------------------------------------------

    def compacted(self, drop: float) -> Tagger:
        """This tagger without the rows whose weights are all below `drop` times the largest one,
        with eight-bit weights and no names of features."""
        n = self.keys.size
        size = np.abs(self.weights[:n]).max(axis=1, initial=0.0)
        rows = np.flatnonzero(size > drop * size.max(initial=0.0))
        rows = rows[compact.distinct(self.keys[rows], size[rows])]
        weights = compact.dequantize(*compact.quantize(self.weights[rows]))
        header = self.header | {"compact": True}
        return Tagger(
            header,
            compact.fold(self.keys[rows]),
            np.concatenate([weights, self.weights[n:]]),
            self.gazetteers,
        )

    def save(self, path: str) -> None:
        arrays = {"keys": self.keys, "weights": self.weights}
        if self.header.get("compact"):
            n = self.keys.size
            packed = compact.pack(self.keys, self.weights[:n])
            arrays = dict(zip(PACKED, packed, strict=True)) | {"shared": self.weights[n:]}
        for g in self.gazetteers:
            arrays[f"gazetteer.{g.name}.prefixes"] = g.prefixes
            arrays[f"gazetteer.{g.name}.whole"] = g.whole
        if self.origins is not None:
            arrays["origins"] = self.origins
            for column, strings in self.vocabulary.items():
                arena, offsets = pack(strings)
                arrays[f"vocabulary.{column}.text"] = arena
                arrays[f"vocabulary.{column}.offsets"] = offsets
        store.save_file(path, "tagger", self.header, arrays)

    @classmethod
    def load(cls, path: str, names: bool = False) -> Tagger:
        """Read a model file; feature names only if asked for, since tagging does not need them."""
        header, arrays = store.load_file(path, "tagger", wanted=partial(_arrays, names=names))
        with fitting(path):
            return cls._from(header, arrays)

    @classmethod
    def _from(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Tagger:
        if header.get("compact"):
            keys, rows = compact.unpack(*(arrays[name] for name in PACKED))
            weights = np.concatenate([rows, arrays["shared"]])
        else:
            keys, weights = arrays["keys"], arrays["weights"]
        if not -compact.LARGEST < weights.min() <= weights.max() < compact.LARGEST:  # nor NaN
            raise ValueError("weights are not finite, or too large to be summed")
        gazetteers = [
            Gazetteer(n, arrays[f"gazetteer.{n}.prefixes"], arrays[f"gazetteer.{n}.whole"])
            for n in header["gazetteers"]
        ]
        vocabulary = {
            name.split(".")[1]: unpack(arrays[name], arrays[name[:-4] + "offsets"])
            for name in arrays
            if name.startswith("vocabulary.") and name.endswith(".text")
        }
        model = cls(header, keys, weights, gazetteers, arrays.get("origins"), vocabulary)
        if model.origins is not None:
            model.extractor.check_origins(model.origins, vocabulary)
        return model

    def feature_name(self, row: int) -> str:
        """The readable name of a weight row."""
        if self.origins is None:
            return f"{int(self.keys[row]):016x}"
        return self.extractor.describe(self.origins[row].tolist(), self.vocabulary)


def _arrays(header: dict[str, Any], entries: Entries, names: bool) -> list[str]:
    """The arrays to be read of a file whose header and shapes are a tagger's; else ValueError."""
    check_entry(header, HEADER, "header")
    labels, order = header["labels"], header["order"]
    check_names(labels, "labels")
    check_names([header["task"]], "task")
    check_names([header["target"]], "target")
    scheme, written = header["scheme"], header["file_scheme"]
    if not labels or order not in (1, 2):
        raise ValueError(f"{len(labels)} labels, order {order}")
    if scheme != written or scheme is not None:
        if scheme not in schemes.SCHEMES or written not in (*schemes.SCHEMES, "bilou"):
            raise ValueError(f"schemes {scheme!r:.20} and {written!r:.20}")
        if schemes.parse(labels) is None:
            raise ValueError("labels are not those of spans")
    K = len(labels)
    shared = sum(K**o for o in range(1, order + 1))
    if header.get("compact"):
        n = expect(entries, "lows", "uint16", (None,))
        expect(entries, "counts", "uint8 uint16", (compact.HIGHS,))
        expect(entries, "rows", "int8", (n, K))
        expect(entries, "scales", "float32", (n,))
        expect(entries, "shared", "float32", (shared, K))
        found = [*PACKED, "shared"]
    else:
        n = expect(entries, "keys", "uint64", (None,))
        expect(entries, "weights", "float32", (n + shared, K))
        found = ["keys", "weights"]
    for name in header["gazetteers"]:
        m = expect(entries, f"gazetteer.{name}.prefixes", "uint64", (None,))
        expect(entries, f"gazetteer.{name}.whole", "uint8", (m,))
        found += [f"gazetteer.{name}.prefixes", f"gazetteer.{name}.whole"]
    if names and "origins" in entries:
        expect(entries, "origins", "int32", (n, 1 + MAX_ATOMS))
        found.append("origins")
        for text in [e for e in entries if e.startswith("vocabulary.") and e.endswith(".text")]:
            expect(entries, text, "uint8", (None,))
            expect(entries, text[:-4] + "offsets", "int64", (None,))
            found += [text, text[:-4] + "offsets"]
    return found


@njit(cache=True, nogil=True)
def _add_matrix(rows, weights, out):
    K = out.shape[1]
    for t in range(rows.shape[0]):
        to = out[t]
        for j in range(rows.shape[1]):
            if rows[t, j] >= 0:
                row = weights[rows[t, j]]
                for k in range(K):
                    to[k] += row[k]


@njit(cache=True, nogil=True)
def _add_listed(token, rows, values, weights, out):
    K = out.shape[1]
    for o in range(rows.size):
        to, row, value = out[token[o]], weights[rows[o]], values[o]
        for k in range(K):
            to[k] += value * row[k]


@njit(cache=True, nogil=True)
def _viterbi(scores, sentences, trans, start, end):
    tags = np.empty(scores.shape[0], np.int32)
    for s in range(sentences.size - 1):
        a, b = sentences[s], sentences[s + 1]
        chain.viterbi(scores[a:b], trans, start, end, tags[a:b])
    return tags


@njit(cache=True, nogil=True)
def _viterbi2(scores, sentences, trans, triple, start, end):
    tags = np.empty(scores.shape[0], np.int32)
    for s in range(sentences.size - 1):
        a, b = sentences[s], sentences[s + 1]
        chain2.viterbi(scores[a:b], trans, triple, start, end, tags[a:b])
    return tags
