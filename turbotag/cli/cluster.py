"""`turbotag cluster`: word clusters from text or vectors."""

from __future__ import annotations

import sys
from typing import Any

import click

from turbotag.cli.common import FORMATS, announce_compilation, say


@click.command("cluster")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("-o", "--output", required=True, help="File to write: a word, a tab and its path.")
@click.option("--classes", type=int, help="Number of classes.  [default: 500]")
@click.option(
    "--vectors",
    is_flag=True,
    help="FILE has vectors (GloVe, word2vec), which are split in two repeatedly.",
)
@click.option("--levels", type=int, help="With --vectors, the length of a path.  [default: 12]")
@click.option("--min-count", type=int, help="Words seen less often are left out.  [default: 3]")
@click.option("--lower", is_flag=True, default=None, help="Take words in lower case.")
@click.option(
    "--passes",
    type=int,
    help="Passes over all words at most; fewer if hardly any word changes its class.  [default:"
    " 30]",
)
@click.option(
    "--threads", type=int, help="Number of threads; the result does not depend on it.  [default: 1]"
)
@click.option(
    "--format",
    type=click.Choice([*FORMATS, "raw"]),
    help="Format of the text; by default it is told from the content.",
)
def command(
    files: tuple[str, ...], output: str, vectors: bool, levels: int | None, **text: Any
) -> None:
    """Sort words into a tree of classes by the words that stand beside them.

    FILE is running text, or has one of the CoNLL formats; its tags are not read. Words of a class
    are used alike, so that a model with `--clusters` knows something of words that are not in its
    training data: the more text the better. The path of a word in the tree is a string of 0 and 1;
    templates read its beginning as cluster4, cluster6, cluster10.

    \b
    turbotag cluster news.txt more.conllu --classes 1000 --threads 2 -o clusters.tsv
    turbotag cluster --vectors glove.6B.100d.txt -o clusters.tsv
    turbotag train --task ner --train ner.iob2 --clusters en=clusters.tsv -o ner.model
    """
    asked = {name: value for name, value in text.items() if value is not None}
    if vectors and asked:
        wrong = next(iter(asked)).replace("_", "-")
        raise click.UsageError(f"--{wrong} is for text, not for --vectors")
    if levels is not None and not vectors:
        raise click.UsageError("--levels is for --vectors")
    if vectors and len(files) > 1:
        raise click.UsageError("--vectors takes one file")
    from tqdm import tqdm

    from turbotag.clustering.files import ClusterOptions, cluster_text, cluster_vectors

    announce_compilation()
    with tqdm(unit=" words", unit_scale=True, disable=not sys.stderr.isatty(), leave=False) as bar:
        if vectors:
            given = {} if levels is None else {"levels": levels}
            cluster_vectors(files[0], output, **given, echo=say, told=bar.update)
        else:
            cluster_text(list(files), output, ClusterOptions(**asked), say, bar.update)
    say(f"wrote {output}")
