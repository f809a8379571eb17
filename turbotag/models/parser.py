"""The parser: candidate arcs, their scores, the best tree, and the labels of its arcs.

Before all that it may give each word a supertag, the label that it will have and the side on which
its head will be, as in `nsubj/R`: a guess from the words around, which the other stages read like
any tag (Ouchi, Duh and Matsumoto 2014).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

from turbotag.corpus.formats import TAGS, Conll, Format
from turbotag.corpus.reader import Block, Source
from turbotag.corpus.writer import Edits
from turbotag.errors import DataError
from turbotag.features import arc_kernels, compact
from turbotag.features.kinds import load_resources
from turbotag.features.parts import ROLES
from turbotag.losses import LEAST_BETA, MOST_BETA
from turbotag.models import tree_output
from turbotag.models.calibration import CALIBRATION, Confidence, Items, confidence_of
from turbotag.models.components import (
    PACKED,
    Candidates,
    Pruner,
    classifier,
    kept_heads,
    one_sentence,
    supertagger,
    unpacked,
    weight_table,
)
from turbotag.models.gold import Layout
from turbotag.models.held_out import tree_items
from turbotag.models.model import Answer, Output
from turbotag.models.scanner import Scanner
from turbotag.models.scored import FirstOrder, Parsed, ScoredParts, SecondOrder
from turbotag.models.stored import Stored
from turbotag.models.tree_comparison import (
    Trees,
    compare_parser,
    compare_tree_blocks,
    read_gold_trees,
)
from turbotag.storage.checks import (
    PROVENANCE,
    RESOURCES,
    check_entry,
    check_names,
    expect,
    expect_resources,
)
from turbotag.storage.tensors import Entries
from turbotag.structures import decoders, parts, projective, pruning, tree
from turbotag.structures.second_order import Approximation

STAGES = ("super", "prune", "arc", "label")
# The trees that a model sums over and those that it gives: all and all, projective and projective,
# all and projective. Second-order models sum over all trees.
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
    "certified?": str,
    **RESOURCES,
    "calibration?": CALIBRATION,
    "scores?": {"*": {"conventions": {"*": SCORE}}},
}


class Parser(Stored):
    """A trained parser.

    header: everything that is not an array; arrays: keys and weights of the stages, (rows,) for
    arcs, (rows, labels) for labels and (rows, supertags) for supertags, packed (features/compact):
    STAGE.counts, .lows, .weights and .scales. All stages but `arc` may be missing. Those of
    resources are among them.
    """

    kind = "parser"

    def __init__(self, header: dict[str, Any], arrays: dict[str, np.ndarray]):
        self.header, self.arrays = header, arrays
        self.resources = load_resources(header, arrays)
        self.labels: list[str] = header["labels"]
        self.single_root: bool = header["single_root"]
        self.decoder: str = header["decoder"]
        self.projective = self.decoder == "projective"  # the trees that it sums over
        self.decodes_projective = self.decoder != "nonprojective"
        beta = float(header["loss"]["beta"])
        self.beta = beta if np.isfinite(beta) else 1.0  # of the probabilities
        self.second_order: bool = bool(header["parts"])
        texts, names = header["templates"], header.get("supertags", [])
        self.tables = {s: weight_table(arrays, s) for s in ("prune", "arc") if s in texts}
        self.pruner = Pruner(
            self.decoder,
            self.single_root,
            kept_heads(self.second_order, header.get("heads")),
            self.tables.get("prune"),
        )
        self.supertagger = supertagger(arrays, names) if "super" in texts else None
        self.labeler = classifier(arrays, "label", self.labels) if "label" in texts else None
        self.labelled = self.labeler is not None
        self.approximation = Approximation(**header["approximation"])
        self.decodes_map = self.second_order and not np.isfinite(beta)
        self.extractor = self.new_extractor()
        self._read_calibration()

    def set_calibration(self, found: dict[str, Any]) -> None:
        """From now on, give probabilities of heads and labels as `found`, an entry of the header,
        says."""
        self.header["calibration"] = found
        self._read_calibration()

    def _read_calibration(self) -> None:
        self.head_confidence = confidence_of(self.header, "heads")
        self.label_confidence = confidence_of(self.header, "labels")

    def new_extractor(self) -> Scanner:
        return Scanner(self.header["templates"], self.resources)

    def rows(self, stage: str) -> tuple[np.ndarray, np.ndarray]:
        """(folded keys, float32 weights) of a stage."""
        return unpacked(self.arrays, stage, len(classes_of(self.header, stage)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Parser, (self.header, self.arrays)

    input_format = None

    # ---- What all models do ----------------------------------------------------------------------

    @property
    def gives(self) -> tuple[str, ...]:
        return ("head", "deprel") if self.labelled else ("head",)

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(self.tag_columns)

    def target(self, fmt: Format) -> int | None:
        return None

    def annotate(self, block: Block, extractor: Scanner, output: Output, edits: Edits) -> None:
        tree_output.annotate(self, block, extractor, output, edits)

    def answers(
        self, block: Block, extractor: Scanner, n: int
    ) -> Callable[[int, int], Iterator[Answer]]:
        return tree_output.answers(self, block, extractor, n)

    def compare(
        self, gold: Source, layout: Layout, strict: bool = False, probabilities: bool = False
    ) -> Trees:
        return compare_parser(self, gold, layout.format, probabilities)

    def compare_blocks(
        self, gold: Block, predicted: Block, strict: bool = False
    ) -> tuple[str, Trees] | None:
        has_trees = bool(gold.filled(Conll.HEAD).any())
        return ("trees", compare_tree_blocks(gold, predicted)) if has_trees else None

    def held_out(self, gold: Source, layout: Layout) -> tuple[dict[str, Items], Block]:
        block = read_gold_trees(gold, layout.format)
        return tree_items(self, block), block

    # ---- Reading ---------------------------------------------------------------------------------

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
        if self.supertagger:
            self.supertagger.fill(matrix, block.sentences, scanner)
        return matrix

    # ---- One sentence ----------------------------------------------------------------------------

    def candidates(self, matrix: np.ndarray, scanner: Scanner) -> Candidates:
        """The arcs that may be used in a sentence."""
        return self.pruner.candidates(matrix, scanner)

    def scores(self, matrix: np.ndarray, scanner: Scanner) -> np.ndarray:
        """(n+1, n+1) arc scores of a first-order model, -inf where an arc is no candidate."""
        cuts, heads = self.candidates(matrix, scanner)
        theta = self.arc_scores(matrix, one_sentence(matrix), (cuts, heads), scanner)
        found: np.ndarray = pruning.matrix(theta, cuts, heads)
        return found

    def scored(
        self,
        matrix: np.ndarray,
        scanner: Scanner,
        candidates: Candidates | None = None,
        sentences: np.ndarray | None = None,
    ) -> FirstOrder | SecondOrder:
        """The sentences of a block with the scores of their parts over the candidate arcs, by
        default their own. Without `sentences` the block is one sentence."""
        cuts = one_sentence(matrix) if sentences is None else sentences
        arcs = candidates or self.pruner.candidates(matrix, scanner, cuts)
        theta = self.arc_scores(matrix, cuts, arcs, scanner)
        if not self.second_order:
            return FirstOrder(self, cuts, pruning.squares(theta, *arcs, cuts))
        return SecondOrder(self, cuts, self._with_parts(matrix, cuts, arcs, theta, scanner))

    def arc_scores(
        self, matrix: np.ndarray, sentences: np.ndarray, arcs: Candidates, scanner: Scanner
    ) -> np.ndarray:
        """(arcs,) the scores of the candidate arcs of a block."""
        data, table = scanner.stage["arc"].data, self.tables["arc"].data
        found: np.ndarray = arc_kernels.arc_scores(matrix, sentences, *arcs, data, table)
        return found

    def _with_parts(
        self,
        matrix: np.ndarray,
        sentences: np.ndarray,
        arcs: Candidates,
        theta: np.ndarray,
        scanner: Scanner,
    ) -> list[ScoredParts]:
        """The parts of each sentence, with scores: those of the arcs, which are known, first."""
        found = []
        for a, b in zip(sentences[:-1].tolist(), sentences[1:].tolist(), strict=True):
            cuts = arcs[0][a : b + 1]
            begin, end = cuts[0], cuts[-1]
            p = parts.parts(cuts - begin, arcs[1][begin:end], scanner.all_siblings)
            more = self.tables["arc"].sums(*scanner.part_keys(matrix[a:b], p))
            found.append(ScoredParts(np.concatenate([theta[begin:end], more]), p))
        return found

    def other_tree(
        self,
        matrix: np.ndarray,
        scanner: Scanner,
        candidates: Candidates,
        m: int,
        heads: np.ndarray,
    ) -> np.ndarray | None:
        """(n,) the tree that the parser gives if the head of word m must be among `heads`, a mask
        (n+1,); None if there is no such tree. If the pruner left none of these heads among
        the candidates of the sentence, the best one by its own scores becomes one."""
        found = _limited(candidates, m, heads)
        if not self._has_tree(found):
            every = _limited(pruning.full(matrix.shape[0]), m, heads)
            if "prune" not in self.tables or not self._has_tree(every):
                return None
            theta = self.tables["prune"].sums(*scanner.stage["prune"].keys(matrix, *every))
            best = self.best(pruning.matrix(theta, *every))
            found = pruning.with_gold(*found, best)[:2]
        return self.scored(matrix, scanner, found).decode("viterbi")[0]

    def _has_tree(self, candidates: Candidates) -> bool:
        cuts, heads = candidates
        even = pruning.matrix(np.zeros(heads.size), cuts, heads)
        return self._decoder.argmax(even, self.single_root, np.empty(cuts.size - 1, np.int32)) == 0

    @property
    def _sums(self) -> ModuleType:
        """The trees that the model sums over."""
        return projective if self.projective else tree

    @property
    def _decoder(self) -> ModuleType:
        """The trees that the model may give."""
        return projective if self.decodes_projective else tree

    def posterior(self, scores: np.ndarray, sharpness: float = 1.0) -> tuple[float, np.ndarray]:
        """(log Z, (n+1, n+1) probabilities of arcs); not calibrated except by the sharpness."""
        mu = np.empty_like(scores)
        return self._sums.marginals(scores, self.single_root, sharpness * self.beta, mu), mu

    def arc_probabilities(self, matrix: np.ndarray, scanner: Scanner) -> np.ndarray:
        """(n+1, n+1) probabilities of arcs, approximate at second order. Those of a word's heads
        sum to 1, and with a single root those of the root's modifiers."""
        c, n = self.head_confidence, matrix.shape[0]
        chance = np.full((n + 1, n + 1), 1.0 / n)
        chance[:, 0] = 0.0
        np.fill_diagonal(chance, 0.0)
        arcs = self.scored(matrix, scanner).arcs(c.sharpness).reshape(n + 1, n + 1)
        mixed: np.ndarray = c.mix(arcs, chance)
        return mixed

    def posterior_of_each(
        self, scores: np.ndarray, sentences: np.ndarray, sharpness: float
    ) -> np.ndarray:
        """The probabilities of arcs of all sentences of a block, as `posterior` gives them."""
        mu = np.empty_like(scores)
        beta = sharpness * self.beta
        summed = decoders.decoder_of(self._sums is projective, self.single_root)
        decoders.marginals_of_each(summed, scores, sentences, beta, mu)
        return mu

    def best_of_each(self, scores: np.ndarray, sentences: np.ndarray) -> np.ndarray:
        """(words,) heads of the best trees of all sentences of a block."""
        heads = np.empty(sentences[-1], np.int32)
        given = decoders.decoder_of(self.decodes_projective, self.single_root)
        decoders.argmax_of_each(given, scores, sentences, heads)
        return heads

    def best(self, scores: np.ndarray) -> np.ndarray:
        """(n,) heads of the tree with the largest sum of `scores`."""
        heads = np.empty(scores.shape[0] - 1, np.int32)
        self._decoder.argmax(scores, self.single_root, heads)
        return heads

    def label_scores(
        self,
        matrix: np.ndarray,
        heads: np.ndarray,
        scanner: Scanner,
        sentences: np.ndarray | None = None,
    ) -> np.ndarray:
        """(words, labels) scores of the labels of the arcs of trees. Without `sentences` the words
        are one sentence."""
        if self.labeler is None:
            return np.zeros((heads.size, len(self.labels)), np.float32)
        cuts = one_sentence(matrix) if sentences is None else sentences
        return self.labeler.scores(matrix, cuts, scanner.stage["label"], heads)

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
        matrix, sentences = self.matrix(block, scanner), block.sentences
        if not block.n_tokens:
            return Parsed(np.empty(0, np.int32), np.empty(0, np.int32))
        scored = self.scored(matrix, scanner, None, sentences)
        heads, proven = scored.decode(decode)
        scores = self.label_scores(matrix, heads, scanner, sentences)
        labels = scores.argmax(axis=1).astype(np.int32)
        out = Parsed(heads, labels, proven=proven)
        if probabilities:
            c, n = self.head_confidence, np.diff(sentences)
            mu = pruning.chosen(scored.arcs(c.sharpness), sentences, heads)
            out.head_probability = c.mix(mu, np.repeat(1.0 / n, n))
            p = self.label_probabilities(scores, self.label_confidence)
            out.label_probability = p[np.arange(labels.size), labels]
        return out

    # ---- Files -----------------------------------------------------------------------------------

    @staticmethod
    def wanted(header: dict[str, Any], entries: Entries, names: bool = False) -> list[str]:
        """The arrays to be read; a parser's features have no names in its file."""
        return _arrays(header, entries)

    @classmethod
    def restored(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Parser:
        return cls(header, arrays)


def _limited(candidates: Candidates, m: int, allowed: np.ndarray) -> Candidates:
    """The candidate arcs without those of word m whose head is not in the mask `allowed` (n+1,)."""
    cuts, heads = candidates
    keep = np.ones(heads.size, bool)
    keep[cuts[m - 1] : cuts[m]] = allowed[heads[cuts[m - 1] : cuts[m]]]
    return np.concatenate([[0], np.cumsum(keep)])[cuts], heads[keep]


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
    return found + expect_resources(header, entries)
