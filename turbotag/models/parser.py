"""The parser: candidate arcs, their scores, the best tree, and the labels of its arcs.

Before all that it may give each word a supertag, the label that it will have and the side on which
its head will be, as in `nsubj/R`: a guess from the words around, which the other stages read like
any tag (Ouchi, Duh and Matsumoto 2014).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
from numba import njit

from turbotag.corpus.formats import TAGS
from turbotag.corpus.hashing import KeyTable, hash_strings
from turbotag.corpus.reader import Block
from turbotag.errors import DataError
from turbotag.features import arcs as arc_features
from turbotag.features import compact
from turbotag.features.arcs import SUPER, ArcExtractor, Words
from turbotag.features.parts import ROLES, PartExtractor
from turbotag.features.weights import WeightTable
from turbotag.losses import LEAST_BETA, MOST_BETA
from turbotag.models import store
from turbotag.models.calibration import CALIBRATION, Confidence, confidence_of
from turbotag.models.checks import PROVENANCE, check_entry, check_names, expect, fitting
from turbotag.models.tensors import Entries
from turbotag.structures import parts, projective, pruning, second_order, tree
from turbotag.structures.second_order import Approximation

PACKED = ("counts", "lows", "weights", "scales")  # arrays of a stage (features/compact)
STAGES = ("super", "prune", "arc", "label")
CLASSIFIERS = ("super", "label")  # stages with a row of weights, one a class, for each feature
# Over which trees a model sums, and which it gives: all and all, projective and projective, all and
# projective. Second-order models sum over all.
DECODERS = ("nonprojective", "projective", "projective-decoding")
MOST_HEADS = 1000  # that a word may keep: --heads
PART_FILES = {"cs": "siblings", "gp": "grandparents", "as": "all-siblings"}
SCORE = {"uas": float, "las": (float, None), "convention": str}
HEADER = PROVENANCE | {
    "decoder": str,
    "single_root": bool,
    "templates": {"*": str},
    "parts": [str],
    "supertags?": [str],
    "heads?": int,
    "approximation": {"entropy": str, "rounds": int, "damping": float, "tolerance": float},
    "tags": str,
    "reads?": [str],
    "calibration?": CALIBRATION,
    "scores?": {"*": {"conventions": {"*": SCORE}}},
}
Candidates = tuple[np.ndarray, np.ndarray]  # (cuts, heads): see structures/pruning


class Scanner:
    """Compiled templates of all stages and the words they have seen; one for each thread."""

    def __init__(self, templates: dict[str, str]):
        parsed = {s: arc_features.parse(text, "templates") for s, text in templates.items()}
        self.words = Words(*parsed.values())
        self.stage = {s: ArcExtractor(t, self.words) for s, t in parsed.items() if s not in ROLES}
        self.parts = {
            kind: PartExtractor(parsed[kind], self.words, kind) for kind in ROLES if kind in parsed
        }
        self.all_siblings = "all-siblings" in self.parts

    def matrix(self, block: Block) -> np.ndarray:
        if not block.format.ids:
            raise DataError(
                f"is {block.format.name}, but a parser reads CoNLL-U or CoNLL-X", block.path
            )
        return self.words.matrix(block)

    def supertag_keys(self, matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(keys, ends) of the words of a sentence."""
        n = matrix.shape[0]
        return self.stage["super"].keys(matrix, np.arange(n + 1), np.zeros(n, np.int32))

    def put_supertags(self, matrix: np.ndarray, values: np.ndarray) -> None:
        """Write hashes of supertags where the templates look for them."""
        matrix[:, self.words.at[SUPER]] = values

    def keys(
        self, matrix: np.ndarray, cuts: np.ndarray, heads: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(keys, ends) of the parts of a sentence: its arcs and, at second order, the siblings and
        grandparents over them (structures/parts)."""
        keys, ends = self.stage["arc"].keys(matrix, cuts, heads)
        if not self.parts:
            return keys, ends
        p = parts.parts(cuts, heads, self.all_siblings)
        all_keys, all_ends, size = [keys], [ends], keys.size
        for kind, positions in zip(ROLES, parts.positions(p), strict=True):
            if kind in self.parts:
                keys, ends = self.parts[kind].keys(matrix, positions)
            else:
                keys, ends = np.zeros(0, np.uint64), np.zeros(len(positions), np.int64)
            all_keys.append(keys)
            all_ends.append(ends + size)
            size += keys.size
        return np.concatenate(all_keys), np.concatenate(all_ends)


@dataclass
class Parsed:
    """Trees of a block: heads (tokens,), ids of labels, and, where asked for, the probability that
    each head, and each label, is right."""

    heads: np.ndarray
    labels: np.ndarray
    head_probability: np.ndarray | None = None
    label_probability: np.ndarray | None = None
    proven: int = 0  # sentences whose tree is proven to have the largest score


class Parser:
    """A trained parser.

    header: everything that is not an array; arrays: keys and weights of the stages, (rows,) for
    arcs, (rows, labels) for labels and (rows, supertags) for supertags, packed (features/compact):
    STAGE.counts, .lows, .weights and .scales. All stages but `arc` may be missing.
    """

    def __init__(self, header: dict[str, Any], arrays: dict[str, np.ndarray]):
        self.header, self.arrays = header, arrays
        self.labels: list[str] = header["labels"]
        self.single_root: bool = header["single_root"]
        self.decoder: str = header["decoder"]
        self.projective = self.decoder == "projective"  # the trees that it sums over
        self.decodes_projective = self.decoder != "nonprojective"
        beta = float(header["loss"]["beta"])
        self.beta = beta if np.isfinite(beta) else 1.0  # of the probabilities
        self.tables = {
            s: WeightTable(*self.rows(s)) for s in ("prune", "arc") if s in header["templates"]
        }
        self.classifiers = {
            s: (KeyTable.of(keys), weights)
            for s in CLASSIFIERS
            if s in header["templates"]
            for keys, weights in [self.rows(s)]
        }
        self.labelled = "label" in self.classifiers
        self.supertags = hash_strings(header.get("supertags", []))  # as templates see them
        self.second_order: bool = bool(header["parts"])
        usual, ratio = pruning.NARROW if self.second_order else pruning.WIDE
        self.kept_heads: tuple[int, float] = header.get("heads", usual), ratio
        self.approximation = Approximation(**header["approximation"])
        self.decodes_map = self.second_order and not np.isfinite(beta)
        self.extractor = self.new_extractor()
        self._read_calibration()

    def set_calibration(self, found: dict[str, Any]) -> None:
        """Take probabilities of heads and labels as `found`, an entry of the header, says."""
        self.header["calibration"] = found
        self._read_calibration()

    def _read_calibration(self) -> None:
        self.head_confidence = confidence_of(self.header, "heads")
        self.label_confidence = confidence_of(self.header, "labels")

    def new_extractor(self) -> Scanner:
        return Scanner(self.header["templates"])

    def rows(self, stage: str) -> tuple[np.ndarray, np.ndarray]:
        """(folded keys, float32 weights) of a stage."""
        keys, weights = compact.unpack(*(self.arrays[f"{stage}.{name}"] for name in PACKED))
        classes = classes_of(self.header, stage)
        shape = (keys.size, len(classes)) if classes else (keys.size,)
        if weights.shape != shape:
            raise ValueError(f"{stage} weights are {weights.shape}, expected {shape}")
        return keys, weights

    def __reduce__(self) -> tuple[Any, ...]:
        return Parser, (self.header, self.arrays)

    input_format = None

    def naming(self, n: int) -> tuple[str, ...]:
        raise DataError("has columns, but a parser reads CoNLL-U or CoNLL-X")

    @property
    def tag_columns(self) -> list[str]:
        """Columns of tags that it learned from; a file of version 0.1 has only its templates."""
        reads = self.header.get("reads", self.extractor.words.tokens.columns)
        return [column for column in TAGS if column in reads]

    def check_tags(self, block: Block) -> None:
        """DataError if the parser learned from tags, and a sentence has none; a warning if it
        learned from two columns of them, and one is empty."""
        columns = {name: block.format.index(name) for name in self.tag_columns}
        filled = {name: block.filled(at) for name, at in columns.items() if at is not None}
        if not filled or not block.n_tokens:
            return
        tagged = np.any([*filled.values()], axis=0)
        bare = np.flatnonzero(~np.logical_or.reduceat(tagged, block.sentences[:-1]))
        if bare.size:
            raise DataError(
                f"sentence {bare[0]} has no tags, but the parser learned from them "
                f"({', '.join(filled)})"
            )
        for name in [name for name, words in filled.items() if not words.any()]:
            warnings.warn(
                f"the parser learned from {name}, which no word here has: trees will be worse",
                stacklevel=4,
            )

    def matrix(self, block: Block, scanner: Scanner) -> np.ndarray:
        """(tokens, sources) what the templates read of the words, supertags among it."""
        matrix = scanner.matrix(block)
        if "super" in self.classifiers and SUPER in scanner.words.at:
            cuts = block.sentences.tolist()
            for a, b in zip(cuts, cuts[1:], strict=False):
                scores = self.supertag_scores(matrix[a:b], scanner)
                scanner.put_supertags(matrix[a:b], self.supertags[scores.argmax(axis=1)])
        return matrix

    # ---- One sentence ----------------------------------------------------------------------------

    def supertag_scores(self, matrix: np.ndarray, scanner: Scanner) -> np.ndarray:
        """(n, supertags)."""
        return self._class_scores("super", *scanner.supertag_keys(matrix))

    def _class_scores(self, stage: str, keys: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """(words, classes)."""
        table, weights = self.classifiers[stage]
        out = np.zeros((ends.size, weights.shape[1]), np.float32)
        _add_rows(table.lookup(compact.fold(keys)), ends, weights, out)
        return out

    def candidates(self, matrix: np.ndarray, scanner: Scanner) -> Candidates:
        """The arcs that may be used in a sentence."""
        cuts, heads = pruning.full(matrix.shape[0])
        if "prune" not in self.tables:
            return cuts, heads
        keys = scanner.stage["prune"].keys(matrix, cuts, heads)
        return pruning.prune(
            self.tables["prune"].sums(*keys),
            self.decoder,
            self.single_root,
            *self.kept_heads,
        )

    def scores(self, matrix: np.ndarray, scanner: Scanner) -> np.ndarray:
        """(n+1, n+1) arc scores of a first-order model, -inf where an arc is no candidate."""
        cuts, heads = self.candidates(matrix, scanner)
        theta = self.tables["arc"].sums(*scanner.keys(matrix, cuts, heads))
        return pruning.matrix(theta, cuts, heads)

    def scored(self, matrix: np.ndarray, scanner: Scanner) -> FirstOrder | SecondOrder:
        """A sentence with the scores of its parts."""
        if self.second_order:
            cuts, heads = self.candidates(matrix, scanner)
            theta = self.tables["arc"].sums(*scanner.keys(matrix, cuts, heads))
            return SecondOrder(self, theta, parts.parts(cuts, heads, scanner.all_siblings))
        return FirstOrder(self, self.scores(matrix, scanner))

    @property
    def _sums(self) -> ModuleType:
        """Which trees the model's sums are over."""
        return projective if self.projective else tree

    @property
    def _decoder(self) -> ModuleType:
        """Which trees the model gives."""
        return projective if self.decodes_projective else tree

    def posterior(self, scores: np.ndarray, sharpness: float = 1.0) -> tuple[float, np.ndarray]:
        """(log Z, (n+1, n+1) probabilities of arcs), not calibrated but for the sharpness."""
        mu = np.empty_like(scores)
        return self._sums.marginals(scores, self.single_root, sharpness * self.beta, mu), mu

    def arc_probabilities(self, matrix: np.ndarray, scanner: Scanner) -> np.ndarray:
        """(n+1, n+1) probabilities of arcs, approximate at second order. Those of a word's heads
        sum to 1, and with a single root those of the root's modifiers."""
        c, n = self.head_confidence, matrix.shape[0]
        chance = np.full((n + 1, n + 1), 1.0 / n)
        chance[:, 0] = 0.0
        np.fill_diagonal(chance, 0.0)
        mixed: np.ndarray = c.mix(self.scored(matrix, scanner).arcs(c.sharpness), chance)
        return mixed

    def best(self, scores: np.ndarray) -> np.ndarray:
        """(n,) heads of the tree with the largest sum of `scores`."""
        heads = np.empty(scores.shape[0] - 1, np.int32)
        self._decoder.argmax(scores, self.single_root, heads)
        return heads

    def label_scores(self, matrix: np.ndarray, heads: np.ndarray, scanner: Scanner) -> np.ndarray:
        """(n, labels) scores of the labels of a tree's arcs."""
        if not self.labelled:
            return np.zeros((heads.size, len(self.labels)), np.float32)
        keys = scanner.stage["label"].keys(matrix, np.arange(heads.size + 1), heads, heads)
        return self._class_scores("label", *keys)

    def label_probabilities(self, scores: np.ndarray, confidence: Confidence) -> np.ndarray:
        """(n, labels) that a label is right, from `label_scores`."""
        below = (scores - scores.max(axis=1, keepdims=True)).astype(np.float64)
        p = np.exp(confidence.sharpness * self.beta * below)
        mixed: np.ndarray = confidence.mix(p / p.sum(axis=1, keepdims=True), 1.0 / p.shape[1])
        return mixed

    def nbest(self, scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """((m, n) heads, (m,) probabilities) of the best trees, at first order."""
        c = self.head_confidence
        beta = c.sharpness * self.beta
        heads, values = self._decoder.kbest(scores, self.single_root, k)
        log_z = self._sums.log_partition(scores, self.single_root, beta)
        even = np.where(scores > -np.inf, 0.0, -np.inf)
        log_count = self._sums.log_partition(even, self.single_root, 1.0)  # of all trees there are
        return heads, c.mix(np.exp(beta * values - log_z), math.exp(-log_count))

    # ---- Blocks ----------------------------------------------------------------------------------

    def parse(
        self,
        block: Block,
        scanner: Scanner | None = None,
        decode: str = "viterbi",
        probabilities: bool = False,
    ) -> Parsed:
        """Trees of all sentences; decode is viterbi or map (the best tree) or posterior (the tree
        with the fewest expected wrong heads). At second order viterbi is posterior."""
        scanner = scanner or self.extractor
        matrix = self.matrix(block, scanner)
        n = block.n_tokens
        out = Parsed(np.empty(n, np.int32), np.zeros(n, np.int32))
        if probabilities:
            out.head_probability, out.label_probability = np.empty(n), np.empty(n)
        cuts = block.sentences.tolist()
        for a, b in zip(cuts, cuts[1:], strict=False):
            self._sentence(matrix[a:b], scanner, decode, slice(a, b), out)
        return out

    def _sentence(
        self, matrix: np.ndarray, scanner: Scanner, decode: str, at: slice, out: Parsed
    ) -> None:
        sentence = self.scored(matrix, scanner)
        heads, proven = sentence.decode(decode)
        labels = self.label_scores(matrix, heads, scanner)
        out.heads[at], out.labels[at] = heads, labels.argmax(axis=1)
        out.proven += proven
        if out.head_probability is not None and out.label_probability is not None:
            c, words = self.head_confidence, np.arange(heads.size)
            mu = sentence.arcs(c.sharpness)[heads, words + 1]
            out.head_probability[at] = c.mix(mu, 1.0 / heads.size)
            p = self.label_probabilities(labels, self.label_confidence)
            out.label_probability[at] = p[words, out.labels[at]]

    # ---- Files -----------------------------------------------------------------------------------

    def save(self, path: str) -> None:
        store.save_file(path, "parser", self.header, self.arrays)

    @classmethod
    def load(cls, path: str) -> Parser:
        header, arrays = store.load_file(path, "parser", wanted=_arrays)
        with fitting(path):
            return cls(header, arrays)


@dataclass
class FirstOrder:
    """A sentence with the scores of its arcs, (n+1, n+1)."""

    parser: Parser
    scores: np.ndarray

    def decode(self, how: str) -> tuple[np.ndarray, bool]:
        """(heads, whether the tree is proven to be the one with the largest score)."""
        if how != "posterior":
            return self.parser.best(self.scores), True
        mu = self.arcs(1.0)
        return self.parser.best(np.where(self.scores > -np.inf, mu, -np.inf)), False

    def arcs(self, sharpness: float) -> np.ndarray:
        """(n+1, n+1) probabilities of arcs."""
        return self.parser.posterior(self.scores, sharpness)[1]


@dataclass
class SecondOrder:
    """A sentence with the scores of its parts."""

    parser: Parser
    theta: np.ndarray
    parts: parts.Parts

    @property
    def domain(self) -> second_order.Domain:
        return second_order.Domain(self.parts, self.parser.single_root, self.parser.approximation)

    @cached_property
    def beliefs(self) -> np.ndarray:
        """Of the candidate arcs: approximate, and they may not even be a distribution."""
        mu = np.empty(self.theta.size)
        second_order.marginals(self.theta, self.domain, self.parser.beta, mu)
        return mu[: self.parts.heads.size]

    def decode(self, how: str) -> tuple[np.ndarray, bool]:
        """(heads, whether the tree is proven to be the one with the largest score): by beliefs the
        tree with the fewest expected errors, or the best score."""
        if how == "map" or self.parser.decodes_map:
            heads = np.empty(self.parts.cuts.size - 1, np.int32)
            return heads, second_order.best_tree(self.theta, self.domain, heads)[1]
        return self.parser.best(self._matrix(self.beliefs)), False

    def arcs(self, sharpness: float) -> np.ndarray:
        """(n+1, n+1) probabilities of arcs: the distribution nearest to powers of the beliefs.

        Beliefs at another temperature would have to be found again, and gain little (Slovene: a log
        loss of 0.516 instead of 0.514 with the convex bound, 0.550 instead of 0.568 with Bethe's).
        """
        mu = second_order.project(self.beliefs**sharpness, self.parts, self.parser.single_root)
        return np.maximum(self._matrix(mu), 0.0)

    def _matrix(self, values: np.ndarray) -> np.ndarray:
        found: np.ndarray = pruning.matrix(values, self.parts.cuts, self.parts.heads)
        return found


def classes_of(header: dict[str, Any], stage: str) -> list[str]:
    """What a stage decides between, for each word; nothing if it scores arcs."""
    found: dict[str, list[str]] = {
        "super": header.get("supertags", []),
        "label": header["labels"],
    }
    return found.get(stage, [])


def _arrays(header: dict[str, Any], entries: Entries) -> list[str]:
    """The arrays to be read of a file whose header and shapes are a parser's; else ValueError."""
    check_entry(header, HEADER, "header")
    labels, texts = header["labels"], header["templates"]
    check_names(labels, "labels")
    if not labels or "arc" not in texts or not texts.keys() <= {*STAGES, *ROLES}:
        raise ValueError(f"{len(labels)} labels, templates of {', '.join(texts)}")
    if {PART_FILES.get(p, p) for p in header["parts"]} != texts.keys() & ROLES.keys():
        raise ValueError(f"parts {', '.join(header['parts'])}, templates of {', '.join(texts)}")
    if header["decoder"] not in DECODERS or (header["parts"] and header["decoder"] == "projective"):
        raise ValueError(f"decoder {header['decoder']!r:.20}")
    beta = float(header["loss"]["beta"])
    if not (LEAST_BETA <= beta <= MOST_BETA or beta == np.inf):
        raise ValueError(f"beta {beta}")
    Approximation(**header["approximation"]).check()
    if not 1 <= header.get("heads", 1) <= MOST_HEADS:
        raise ValueError(f"{header['heads']} heads")
    if header.get("supertags"):
        check_names(header["supertags"], "supertags")
    if bool(header.get("supertags")) != ("super" in texts):
        raise ValueError("supertags without templates, or templates without supertags")
    found = []
    for stage in [s for s in STAGES if s in texts]:
        n = expect(entries, f"{stage}.lows", "uint16", (None,))
        expect(entries, f"{stage}.counts", "uint8 uint16", (compact.HIGHS,))
        classes = classes_of(header, stage)
        expect(entries, f"{stage}.weights", "int8", (n, len(classes)) if classes else (n,))
        expect(entries, f"{stage}.scales", "float32", (n,) if classes else (1,))
        found += [f"{stage}.{name}" for name in PACKED]
    return found


@njit(cache=True, nogil=True)
def _add_rows(rows, ends, weights, out):
    o = 0
    for t in range(ends.size):
        to = out[t]
        while o < ends[t]:
            if rows[o] >= 0:
                row = weights[rows[o]]
                for k in range(to.size):
                    to[k] += row[k]
            o += 1
