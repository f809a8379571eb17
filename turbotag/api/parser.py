"""Dependency parsers on lists of words and trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from turbotag.api.arguments import ParserArguments, signature
from turbotag.api.trained import Trained, cut
from turbotag.corpus import lists
from turbotag.corpus.formats import CONLLU
from turbotag.corpus.reader import Block, from_bytes
from turbotag.models import parser as parsers
from turbotag.models.gold import score_parser
from turbotag.training import train
from turbotag.training.options import options_for

if TYPE_CHECKING:
    from typing_extensions import Unpack

Words = Sequence[Any]  # the tokens of a sentence: see Parser
Tree = Sequence[tuple[int, str]]  # head (0 is the root, 1 the first word) and label of each word


class Parser(Trained):
    """Dependency trees for tagged words.

        parser = Parser(epochs=5).fit(sentences, trees)
        parser.predict([[("Ada", "PROPN"), ("sings", "VERB")]])

    A sentence is a list of tokens; a tree is a list of (head, label), where heads count words from
    1 and 0 is the root. Options are those of `turbotag train --task parse`. A token is

    - a tuple: (word, universal tag) or (word, universal tag, other tag);
    - a dict or an object with fields of CoNLL-U: form (or text, or word), lemma, upos, xpos and
      feats, which is a str or a dict; None or nothing where one is not known. Tokens of the conllu
      package are such dicts, those of `turbotag.load` such objects. Multiword ranges and empty
      nodes are left out, in trees too;
    - a str: a word without tags, for a parser that learned from such words.

    Templates read what is given. A parser that learned from tags refuses sentences without any.
    """

    kind = parsers.Parser
    __signature__ = signature(ParserArguments)

    @overload
    def __init__(self, **options: Unpack[ParserArguments]) -> None: ...
    @overload
    def __init__(self, **options: Any) -> None: ...
    def __init__(self, **options: Any) -> None:
        """Options are those of `turbotag train --task parse`; None is the default.

        template: a file of arc templates; gazetteers, clusters: files of names and of word
        clusters, by name; decoder: which trees are summed over and given; multi_root: whether
        several words may have the root as head; crossing: what a projective parser does with
        non-projective trees; labels: False for heads only; prune: False to score all arcs; heads:
        how many heads a word keeps; min_count: how often a feature of wrong arcs must be seen;
        jackknife, supertags: numbers of folds; parts: second-order parts (cs, gp, as); entropy,
        rounds, damping, tolerance: the approximate inference of second-order parts; drop: the share
        of the largest weight below which weights are left out. All others are those of Tagger.
        """
        self._take("parse", options)

    def fit(
        self,
        sentences: Sequence[Words],
        trees: Sequence[Tree],
        dev: tuple[Sequence[Words], Sequence[Tree]] | None = None,
        verbose: bool | None = None,
        log: str | None = None,
    ) -> Parser:
        """Train on sentences and their trees.

        dev: held-out sentences and trees, which choose the best epoch; verbose, log: as in
        `Tagger.fit`.
        """
        settings = options_for(
            self.task,
            train=lists.conllu(sentences, trees),
            dev=lists.conllu(*dev) if dev else None,
            format="conllu",
            **self.options,
        )
        with self._told(verbose, log) as (trace, echo):
            self.model, _ = train(settings, None, trace, echo)
        return self

    def predict(self, sentences: Sequence[Words]) -> list[list[tuple[int, str]]]:
        """The tree of each sentence."""
        if not len(sentences):
            return []
        block = self._block(sentences)
        parsed = self.model.parse(block, self._extractor())
        labels = [self.model.labels[i] for i in parsed.labels.tolist()]
        return cut(list(zip(parsed.heads.tolist(), labels, strict=True)), block.sentences)

    def predict_marginals(self, sentences: Sequence[Words]) -> list[np.ndarray]:
        """(n+1, n+1) for each sentence of n words: [h, m] is the probability that word h is the
        head of word m; words count from 1, and 0 is the root.

        The probabilities of the heads of a word sum to 1. Those of a parser with second-order parts
        are approximate.
        """
        if not len(sentences):
            return []
        block, model, scanner = self._block(sentences), self.model, self._extractor()
        matrix, cuts = model.matrix(block, scanner), block.sentences.tolist()
        return [
            model.arc_probabilities(matrix[a:b], scanner)
            for a, b in zip(cuts, cuts[1:], strict=False)
        ]

    def score(self, sentences: Sequence[Words], trees: Sequence[Tree]) -> float:
        """Labelled attachment score over all words, from 0 to 1."""
        block = self._block(sentences, trees)
        found = score_parser(self.model, block).conventions["conll18"]
        return found.uas if found.las is None else found.las

    def _block(self, sentences: Sequence[Words], trees: Any = lists.UNKNOWN) -> Block:
        model = self._fitted()
        block = from_bytes(lists.conllu(sentences, trees), "<memory>", CONLLU)
        model.check_tags(block)
        return block
