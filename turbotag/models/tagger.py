"""The tagger: templates, a table of feature keys, one weight matrix, and chain inference."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from turbotag.corpus import schemes
from turbotag.corpus.formats import TAGS, Format
from turbotag.corpus.hashing import KeyTable, pack
from turbotag.corpus.reader import Block, Column, Source
from turbotag.corpus.writer import Edits
from turbotag.errors import DataError
from turbotag.features import compact
from turbotag.features.extract import Extractor
from turbotag.features.kinds import resource_arrays
from turbotag.features.resources import Resource
from turbotag.features.templates import parse
from turbotag.features.weights import CompactWeights, RowTable, SmallRows
from turbotag.models import tag_output
from turbotag.models.calibration import PLAIN, Confidence, Items, confidence_of
from turbotag.models.gold import OPEN_TASKS, Layout, read_gold_of
from turbotag.models.held_out import tag_items
from turbotag.models.model import Answer, Output
from turbotag.models.stored import Stored
from turbotag.models.tag_comparison import Tagged, compare_model, compare_stage
from turbotag.models.tag_kernels import add_listed, add_matrix, viterbi, viterbi2
from turbotag.models.tagger_file import PACKED, check_weights, named, wanted
from turbotag.storage.tensors import Entries
from turbotag.structures import chain, chain2

CLAMP = 250.0  # potentials this low rule a label out (e^-250) and stay within the scaled recursion

Mask = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Marginals:
    """token: (tokens,) the probability of each given tag; spans, span: the entities and their
    probabilities."""

    token: np.ndarray
    spans: schemes.Spans | None
    span: np.ndarray


@dataclass(frozen=True)
class Rows:
    """The weight rows of features: (tokens, templates) with -1 for none, all of value 1; or, if
    features have values, a flat list with the token and the value of each."""

    rows: np.ndarray
    n_tokens: int
    token: np.ndarray | None = None
    values: np.ndarray | None = None


class Tagger(Stored):
    """A trained tagger.

    header: everything that is not an array (labels, scheme, templates, columns, certificate, ...);
    keys: (rows,) uint64 feature keys; weights: (rows + shared rows, K) float32, the transitions
    from label j after the features and at order 2 the rows of label pairs after those; at order 0
    there are none, and a chain with transitions of 0 is what decodes. A compact
    tagger (header["compact"]) has folded keys and eight-bit weights in its file.
    """

    kind = "tagger"
    small: CompactWeights | None = None  # the weights of a compact tagger as its file has them

    def __init__(
        self,
        header: dict[str, Any],
        keys: np.ndarray,
        weights: np.ndarray | CompactWeights,
        resources: list[Resource],
        origins: np.ndarray | None = None,
        vocabulary: dict[str, list[str]] | None = None,
    ):
        self.header, self.keys = header, keys
        self.resources = resources
        self.origins, self.vocabulary = origins, vocabulary or {}
        self.labels: list[str] = header["labels"]
        self.order: int = header["order"]
        ordered = bool(header.get("compact"))
        self.table: KeyTable | RowTable = RowTable(keys) if ordered else KeyTable.of(keys)
        self.extractor = self.new_extractor()
        self.set_weights(weights)
        self._read_calibration()

    @cached_property
    def mask(self) -> Mask:
        """Which labels may follow each other, begin and end a sentence."""
        if self.header["constraints"] != "none" and self.header["scheme"]:
            return schemes.mask(self.labels, self.header["scheme"])
        free: Mask = chain.free(len(self.labels))
        return free

    def __reduce__(self) -> tuple[Any, ...]:
        weights = self.weights if self.small is None else self.small
        given = self.header, self.keys, weights, self.resources, self.origins, self.vocabulary
        return Tagger, given

    def set_weights(self, weights: Any) -> None:
        """Replace all weights: (rows + shared rows, K) float32, or those of a compact tagger."""
        K, n = len(self.labels), self.keys.size
        if isinstance(weights, CompactWeights):
            self.small, shared = weights, weights.shared
            self.__dict__.pop("weights", None)
        else:
            self.small, self.weights, shared = None, weights, weights[n:]
        self.trans = shared[:K].astype(np.float64) if self.order else np.zeros((K, K))
        self.triple = shared[K:].astype(np.float64).reshape(-1, K, K)

    @cached_property
    def weights(self) -> np.ndarray:
        """(rows + shared rows, K) float32; a compact tagger needs them only to be looked into."""
        assert self.small is not None
        return np.concatenate([compact.dequantize(*self.small.rows), self.small.shared])

    def set_calibration(self, found: dict[str, Any]) -> None:
        """From now on, give probabilities of tags and entities as `found`, an entry of the header,
        says."""
        self.header["calibration"] = found
        self._read_calibration()

    def _read_calibration(self) -> None:
        self.confidence = confidence_of(self.header, "tags")
        self.entity_confidence = confidence_of(self.header, "entities")

    def new_extractor(self) -> Extractor:
        """An extractor of its own for each thread: it remembers the words it has seen."""
        return Extractor(parse(self.header["templates"], "templates"), self.resources)

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

    @property
    def gives(self) -> tuple[str, ...]:
        """The column that it fills."""
        return (self.header["target"],)

    @property
    def needs(self) -> tuple[str, ...]:
        """Columns of tags that its templates read."""
        return tuple(c for c in self.extractor.columns if c in (*TAGS, "pos", "chunk"))

    # ---- What all models do ----------------------------------------------------------------------

    def annotate(self, block: Block, extractor: Extractor, output: Output, edits: Edits) -> None:
        tag_output.annotate(self, block, extractor, output, edits)

    def answers(
        self, block: Block, extractor: Extractor, n: int
    ) -> Callable[[int, int], Iterator[Answer]]:
        return tag_output.answers(self, block, extractor, n)

    def compare(
        self, gold: Source, layout: Layout, strict: bool = False, probabilities: bool = False
    ) -> Tagged:
        return compare_model(self, gold, layout, strict, probabilities)

    def compare_blocks(
        self, gold: Block, predicted: Block, strict: bool = False
    ) -> tuple[str, Tagged] | None:
        return compare_stage(self, gold, predicted, strict)

    def held_out(self, gold: Source, layout: Layout) -> tuple[dict[str, Items], Block]:
        corpus = read_gold_of(self, gold, layout)
        return tag_items(self, corpus), corpus.block

    # ---- Scores ----------------------------------------------------------------------------------

    def scores(self, block: Block, extractor: Extractor | None = None) -> np.ndarray:
        """(tokens, K) float32 unary scores."""
        own = extractor or self.extractor
        if self.small is not None and not own.attributes and isinstance(self.table, RowTable):
            return own.scores(block, self.table, self.small.rows)
        return self.score_rows(self.rows(block, own))

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
        return self.table.lookup(keys)

    def score_rows(self, rows: Rows) -> np.ndarray:
        """Unary scores from rows."""
        out = np.zeros((rows.n_tokens, len(self.labels)), np.float32)
        if rows.token is None:
            add_matrix(rows.rows, self.weights, out)
        else:
            add_listed(rows.token, rows.rows, rows.values, self.weights, out)
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
        if self.order < 2:
            return viterbi(scores, sentences, trans, start, end)
        return viterbi2(scores, sentences, trans, self.triple.astype(np.float32), start, end)

    def best_with(self, scores: np.ndarray, t: int, labels: np.ndarray) -> np.ndarray | None:
        """(T,) int32: the best sequence of one sentence whose label at t is among `labels` (K,),
        a mask; None if there is none. scores: (T, K)."""
        limited = scores.copy()
        limited[t, ~labels] = -np.inf
        path = self.viterbi(limited, np.array([0, len(scores)]))
        return path if np.isfinite(self.sequence_score(limited, path)) else None

    def sequence_score(self, scores: np.ndarray, path: np.ndarray) -> float:
        """The score of a label sequence of one sentence, -inf if the mask forbids it."""
        allowed, start, end = map(chain.barred, self.mask)
        pairs = self.trans + allowed
        total = scores[np.arange(path.size), path].astype(np.float64).sum()
        total += start[path[0]] + end[path[-1]] + pairs[path[:-1], path[1:]].sum()
        if self.order == 2:
            total += self.triple[path[:-2], path[1:-1], path[2:]].sum()
        return float(total)

    def log_partition(self, scores: np.ndarray) -> float:
        """log of the sum over all label sequences of one sentence of the exp of their scores."""
        return float(self._inference.log_partition(self.theta(scores), *self.mask, 1.0))

    def tag(self, block: Block, extractor: Extractor | None = None) -> np.ndarray:
        """(tokens,) int32 labels of a block."""
        return self.viterbi(self.scores(block, extractor), block.sentences)

    def row_weights(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """(n,) the weight of each row for its label."""
        found: np.ndarray = self.weights[rows, labels]
        return found

    def label_weights(self, label: int) -> np.ndarray:
        """(rows,) the weights of all features for a label."""
        found: np.ndarray = self.weights[: self.keys.size, label]
        return found

    @property
    def _inference(self) -> ModuleType:
        return chain if self.order < 2 else chain2

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

    def probability(
        self,
        scores: np.ndarray,
        sentences: np.ndarray,
        tags: np.ndarray,
        confidence: Confidence | None = None,
    ) -> np.ndarray:
        """(tokens,) the probability of each given tag, 0 for tag -1; by default calibrated."""
        p = self.posterior(scores, sentences, confidence)
        found: np.ndarray = np.where(tags >= 0, p[np.arange(tags.size), tags], 0.0)
        return found

    def posterior_decode(self, scores: np.ndarray, sentences: np.ndarray) -> np.ndarray:
        """The sequence with the fewest expected errors by the model itself, without calibration,
        among the sequences that the mask allows."""
        posterior = self.posterior(scores, sentences, PLAIN)
        allowed, start, end = (chain.barred(m).astype(np.float32) for m in self.mask)
        return viterbi(posterior.astype(np.float32), sentences, allowed, start, end)

    def marginals(self, scores: np.ndarray, sentences: np.ndarray, tags: np.ndarray) -> Marginals:
        """The probability of each tag, and of each span that the tags form: that exactly these
        words are one entity of this type."""
        token = self.probability(scores, sentences, tags)
        found = self.spans(tags, sentences)
        if found is None:
            return Marginals(token, None, np.zeros(0))
        span = self.span_probabilities(scores, sentences, tags, found)
        # Tags and entities are calibrated separately; an entity is no more probable than its tags.
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

    def output_labels(self, tags: np.ndarray, block: Block, first: int = 0) -> Column:
        """What is written for tags of the block, or of one sentence that begins at token `first`.
        Span tags are written in the scheme that the training file had."""
        whole = tags.size == block.n_tokens
        sentences = block.sentences if whole else np.array([0, tags.size])
        scheme, wanted = self.header["scheme"], self.header["file_scheme"]
        if scheme == wanted:
            return Column(self.labels, tags)
        return Column(*schemes.convert(self.labels, tags, sentences, wanted))

    @property
    def open(self) -> bool:
        """Whether the column has more values than the model has labels, so that unknown values in
        other files are legal."""
        return self.header["task"] in OPEN_TASKS

    def known(self, gold: Column, block: Block) -> np.ndarray:
        """(tokens,) the labels of gold values, -1 for values that the model does not have."""
        number = {label: n for n, label in enumerate(self.labels)}
        return np.array([number.get(s, -1) for s in gold.strings])[gold.ids]

    # ---- Files -----------------------------------------------------------------------------------

    def pruned(self) -> Tagger:
        """This tagger without the features whose weights are all 0, as the elastic net and losses
        without mistakes leave them. To the tagger they are like features that it never saw."""
        n = self.keys.size
        kept = self.weights[:n].any(axis=1)
        if kept.all():
            return self
        weights = np.concatenate([self.weights[:n][kept], self.weights[n:]])
        names = () if self.origins is None else (self.origins[kept], self.vocabulary)
        return Tagger(self.header, self.keys[kept], weights, self.resources, *names)

    def compacted(self, drop: float) -> Tagger:
        """This tagger without the rows whose weights are all below `drop` times the largest one,
        with eight-bit weights, without small ones (features/compact), and no names of features."""
        n = self.keys.size
        rows, large = compact.kept_rows(self.keys, self.weights[:n], drop)
        small = SmallRows(*compact.quantize(large))
        header = self.header | {"compact": True}
        keys, weights = compact.fold(self.keys[rows]), CompactWeights(small, self.weights[n:])
        return Tagger(header, keys, weights, self.resources)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """All that a file has beside the header."""
        arrays = self.weight_arrays() | resource_arrays(self.resources)
        if self.origins is not None:
            arrays["origins"] = self.origins
            for column, strings in self.vocabulary.items():
                arena, offsets = pack(strings)
                arrays[f"vocabulary.{column}.text"] = arena
                arrays[f"vocabulary.{column}.offsets"] = offsets
        return arrays

    def weight_arrays(self) -> dict[str, np.ndarray]:
        """Keys and weights as they are stored."""
        if not self.header.get("compact"):
            return {"keys": self.keys, "weights": self.weights}
        n = self.keys.size
        packed = (
            (*compact.pack_keys(self.keys), *self.small.rows)
            if self.small is not None
            else compact.pack(self.keys, self.weights[:n])
        )
        shared = self.weights[n:] if self.small is None else self.small.shared
        return dict(zip(PACKED, packed, strict=True)) | {"shared": shared}

    @staticmethod
    def wanted(header: dict[str, Any], entries: Entries, names: bool = False) -> list[str]:
        return wanted(header, entries, names)

    @classmethod
    def restored(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Tagger:
        """From what a file has; ValueError if it does not fit together."""
        if "lists" in header:
            from turbotag.models.lists import ListTagger

            return ListTagger.from_arrays(header, arrays)
        if header.get("compact"):
            counts, lows, rows, scales = (arrays[name] for name in PACKED)
            compact.check_scales(rows, scales)
            check_weights(arrays["shared"])
            keys = compact.unpack_keys(counts, lows)
            weights: Any = CompactWeights(SmallRows(rows, scales), arrays["shared"])
        else:
            keys, weights = arrays["keys"], arrays["weights"]
            check_weights(weights)
        model = cls(header, keys, weights, *named(header, arrays))
        model.check_origins()
        return model

    def check_origins(self) -> None:
        """ValueError unless all features have names, or none has."""
        if self.origins is not None:
            self.extractor.check_origins(self.origins, self.vocabulary)

    def feature_name(self, row: int) -> str:
        """The readable name of a weight row."""
        if self.origins is None:
            return f"{int(self.keys[row]):016x}"
        return self.extractor.describe(self.origins[row].tolist(), self.vocabulary)
