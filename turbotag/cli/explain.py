"""turbotag explain."""

from __future__ import annotations

import json
from dataclasses import dataclass

import click

from turbotag.cli.common import MODEL, announce_compilation, names, say, taking


@dataclass(frozen=True)
class Asked:
    """What the command line says."""

    model: str
    file: str
    sentence: int
    word: int | None
    against: str | None
    top: int
    format: str | None
    columns: str | None
    as_json: bool


@click.command("explain")
@click.argument("model", type=MODEL)
@click.argument("file", default="-")
@click.option(
    "--sentence",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="The number of the sentence in FILE.",
)
@click.option(
    "--word",
    type=click.IntRange(min=1),
    help="The number of the word in the sentence; by default all are explained, one line each.",
)
@click.option(
    "--against",
    metavar="LABEL|HEAD",
    help="Compare with this tag or label, or with this word as the head (0 is the root), instead "
    "of the next best.",
)
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="Features shown, heaviest first; the others are summed in one line.",
)
@click.option(
    "--format",
    type=click.Choice(["raw", "conllu", "conllx", "columns", "crfsuite", "text"]),
    help="Format of the input; by default it is told from the content.",
)
@click.option(
    "--columns", metavar="NAMES", help="Names of the columns, if not those of the training file."
)
@click.option("--json", "as_json", is_flag=True, help="Print a list of explanations as JSON.")
@taking(Asked)
def command(asked: Asked) -> None:
    """Show why MODEL, a file or a shipped model, gives a word of FILE its tag, head and label.

    A score is a sum of weights, one for each feature. What the model chose is compared with the
    best tag sequence or tree in which the word has another tag or head: the difference of the two
    scores is exactly the sum of the weights shown. Features above 0 speak for what was chosen,
    those below 0 for the other.

    \b
    echo 'Ada flew to Oslo.' | turbotag explain en --word 4
    turbotag explain en letter.txt --sentence 3 --word 5 --against nmod
    turbotag explain parse.model tagged.conllu --sentence 3 --word 5 --against 2
    turbotag explain ner.model text.iob2 --sentence 3 --json
    """
    from turbotag.models.gold import Layout
    from turbotag.models.pipeline import Pipeline, load
    from turbotag.report.explain import explain, find_sentence
    from turbotag.report.explanation import summary

    announce_compilation()
    loaded = load(asked.model)
    if isinstance(loaded, Pipeline) and not loaded.models:
        raise click.UsageError(f"{asked.model} is a tokenizer: only tags and trees are explained")
    layout = Layout(asked.format, names(asked.columns))
    block, number = find_sentence(
        loaded, asked.file, asked.sentence, layout, lambda line: say(f"warning: {line}")
    )
    word = asked.word
    found = explain(loaded, block, number, None if word is None else [word], asked.against)
    if not found:
        say("there is no other choice to compare with")
    if asked.as_json:
        shown = [e.as_dict() for e in found]
        click.echo(json.dumps(shown, ensure_ascii=False, indent=1))
    elif word is None and found:
        click.echo(summary(found))
    elif found:
        click.echo("\n\n".join(e.text(asked.top) for e in found))
