"""turbotag predict."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, cast

import click

from turbotag.cli.common import MODEL, announce_compilation, names, say, taking

FORMATS = ["json", "conllu", "columns", "spans"]  # of the output


@dataclass(frozen=True)
class Asked:
    """What the command line says."""

    model: str
    files: tuple[str, ...]
    output: str | None
    output_dir: str | None
    to: str | None
    format: str | None
    columns: str | None
    decode: str
    marginals: bool
    nbest: int
    keep_tags: bool
    draw: str | None
    threads: int
    workers: int | None
    address: str | None

    def check(self) -> None:
        draw, to = self.draw, self.to
        if self.nbest > 1 and (self.marginals or self.decode != "viterbi" or draw or to):
            none_of = "--marginals, --decode, --draw and --to"
            raise click.UsageError(f"--nbest goes with none of {none_of}")
        if draw and (not draw.endswith(".html") or to not in (None, "conllu")):
            told = f"--draw takes a name that ends in .html, not {draw!r}"
            raise click.UsageError(told if to in (None, "conllu") else f"--draw does not draw {to}")
        if self.output_dir is not None and (self.output or draw):
            raise click.UsageError("--output-dir goes with neither --output nor --draw")
        if self.workers and (self.output_dir is None or self.threads > 1):
            raise click.UsageError("--workers needs --output-dir, and does not go with --threads")
        if self.address is not None and not self.workers:
            raise click.UsageError("--address needs --workers")


@click.command("predict")
@click.argument("model", type=MODEL)
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path())
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write here instead of standard output, packed if the name ends in .gz. json, conllu, "
    "columns and spans are no names of files here, but formats, as for --to.",
)
@click.option(
    "--output-dir",
    metavar="FOLDER",
    help="Write one file for each FILE into this folder. Several files and folders may then be "
    "given. Names stay the same, except for the ending if the format is another.",
)
@click.option(
    "--to",
    type=click.Choice(FORMATS),
    help="Format of the output, by default that of the input, and CoNLL-U for running text. "
    "json has a line for each sentence, spans a line for each entity or chunk.",
)
@click.option(
    "--format",
    type=click.Choice(["raw", "conllu", "conllx", "columns", "crfsuite", "text"]),
    help="Format of the input; by default it is told from the content. raw is running text, for "
    "pipelines.",
)
@click.option(
    "--columns", metavar="NAMES", help="Names of the columns, if not those of the training file."
)
@click.option(
    "--decode",
    type=click.Choice(["viterbi", "posterior", "map"]),
    default="viterbi",
    show_default=True,
    help="viterbi gives the most probable answer, posterior the one with the fewest expected "
    "errors. A parser with second-order parts has posterior, and map: the tree with the "
    "largest score, by dual decomposition; stderr tells how often that is proven.",
)
@click.option(
    "--marginals",
    is_flag=True,
    help="Add the probability of each tag and entity, or head and label: columns at the end, or in "
    "CoNLL-U the MISC column.",
)
@click.option(
    "--nbest",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Write the N most probable answers for each sentence, with their probabilities.",
)
@click.option(
    "--keep-tags",
    is_flag=True,
    help="Let a pipeline keep the parts of speech that a CoNLL-U file has.",
)
@click.option("--draw", metavar="FILE", help="Also draw trees and entities into this HTML file.")
@click.option(
    "--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Worker threads."
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --output-dir: let N processes work on the files, on this machine or on those of a "
    "Ray cluster, which must find the files under the same names (pip install 'turbotag[ray]').",
)
@click.option(
    "--address",
    metavar="HOST:PORT",
    help="With --workers: the Ray cluster; by default one is started on this machine alone.",
)
@taking(Asked)
def command(asked: Asked) -> None:
    """Tag or parse FILE, or standard input, with MODEL, a file or a shipped model.

    Writes the input back with the tag column filled in, or added if there is none; a parser fills
    in the head and label columns of CoNLL-U and CoNLL-X. All other columns, comments and blank
    lines come out byte for byte. A pipeline such as `en` takes running text or CoNLL-U and writes
    CoNLL-U with parts of speech, trees and entities (`turbotag models` lists what is shipped). A
    sentence of running text that has more than 400 words is cut there, with a warning.

    \b
    echo 'Ada flew to Oslo. She loved it.' | turbotag predict en
    turbotag predict en letter.txt --marginals --draw letter.html > letter.conllu
    turbotag predict en letter.txt --to spans
    turbotag predict en letters/ --output-dir parsed --to json
    turbotag predict en letters/ --output-dir parsed --workers 4
    turbotag predict ner.model text.iob2 > tagged.iob2
    turbotag predict parse.model tagged.conllu --marginals > parsed.conllu
    printf 'Ada\\nsings\\n.\\n' | turbotag predict ner.model
    """
    from turbotag.errors import DataError
    from turbotag.models.pipeline import RAW, Pipeline, load

    if asked.output in FORMATS and asked.to in (None, asked.output):
        asked = replace(asked, output=None, to=asked.output)
    asked.check()
    announce_compilation()
    loaded = load(asked.model, asked.keep_tags)
    single = not isinstance(loaded, Pipeline)
    if single and (asked.format == RAW or asked.keep_tags):
        given = "--format raw" if asked.format == RAW else "--keep-tags"
        name = asked.model
        raise click.UsageError(f"{given} is for pipelines, such as en; {name} is a single model")
    to = asked.to or ("" if single else "conllu")
    jobs = _jobs(asked.files, asked.output, asked.output_dir, to)
    failed, proofs = 0, []
    for done in _spread(asked, jobs) if asked.workers else map(FileWorker(asked, loaded), jobs):
        proofs += done.proofs
        for line in done.said:
            say(line)
        if done.error and (len(jobs) == 1 or isinstance(done.error, BrokenPipeError)):
            raise done.error
        failed += done.error is not None
        if done.error:
            say(f"turbotag: {done.error}")
    if proofs:
        best, trees = (sum(x) for x in zip(*proofs, strict=True))
        say(f"{best} of {trees} trees are proven to have the largest score")
    if failed:
        raise DataError(f"{failed} of {len(jobs)} files were not written")


def _jobs(
    files: tuple[str, ...], output: str | None, folder: str | None, to: str
) -> list[tuple[str, str | None]]:
    """Each input with the file to write, None for standard output."""
    from turbotag.corpus.export import SUFFIXES
    from turbotag.errors import DataError

    if folder is None:
        if len(files) > 1:
            raise click.UsageError("several files need --output-dir FOLDER")
        for place in filter(os.path.isdir, files):
            raise DataError("is a directory, which needs --output-dir FOLDER", place)
        return [(files[0] if files else "-", output)]
    if not files or "-" in files:
        raise click.UsageError("--output-dir needs FILEs, not standard input")
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise click.UsageError(f"--output-dir needs a folder, and {folder} is a file")
    jobs: dict[str, str] = {}
    for given in files:
        base = Path(given)
        found = [base]
        if base.is_dir():
            names = (path.relative_to(base) for path in base.rglob("*") if path.is_file())
            shown = (n for n in names if not any(part.startswith(".") for part in n.parts))
            found = [base / name for name in sorted(shown)]
        for path in found:
            name = path.relative_to(base) if path != base else Path(base.name)
            name = name.with_suffix("") if name.suffix == ".gz" else name
            target = Path(folder, name.with_suffix(SUFFIXES[to]) if to else name)
            if target.resolve() == path.resolve():
                raise click.UsageError(f"--output-dir would write {path} over itself")
            other = jobs.setdefault(str(target), str(path))
            if other != str(path):
                raise click.UsageError(f"{other} and {path} would both be written to {target}")
    if not jobs:
        raise click.UsageError(f"there are no files in {', '.join(files)}")
    return [(path, target) for target, path in jobs.items()]


@dataclass
class Done:
    """What became of a file: what went wrong, warnings that nobody has seen yet, and of --decode
    map how many trees are proven to be the best, of how many."""

    error: Exception | None
    said: list[str]
    proofs: list[tuple[int, int]]


class FileWorker:
    """Predicts on files, in this process or in one of Ray. say: is told of warnings."""

    def __init__(self, asked: Asked, model: Any, say: Callable[[str], object] = say):
        self.asked, self.model, self.say = asked, model, say

    def __call__(self, job: tuple[str, str | None]) -> Done:
        from turbotag.errors import TurbotagError
        from turbotag.models.model import Output

        asked, (file, place) = self.asked, job
        done = Done(None, [], [])
        proofs = done.proofs if asked.decode == "map" else None
        what = Output(asked.decode, asked.marginals, asked.nbest, proofs=proofs, to=asked.to)
        try:
            if asked.output_dir is not None and place is not None:
                os.makedirs(os.path.dirname(place), exist_ok=True)
            _predict(self.model, file, place, what, asked, self.say)
        except (TurbotagError, OSError) as e:
            done.error = e
        return done


class RemoteWorker:
    """A FileWorker in a process of Ray, for which names of files mean what they mean here."""

    def __init__(self, asked: Asked, folder: str):
        from turbotag.models.pipeline import load

        os.chdir(folder)
        self.said: list[str] = []
        self.work = FileWorker(asked, load(asked.model, asked.keep_tags), self.said.append)

    def predict(self, file: str, place: str) -> Done:
        self.said.clear()
        done = self.work((file, place))
        return replace(done, said=list(self.said))


def _spread(asked: Asked, jobs: list[tuple[str, str | None]]) -> Iterator[Done]:
    """The files on workers of Ray, in order."""
    from turbotag.distributed.actors import spread

    assert asked.workers
    make = functools.partial(RemoteWorker, asked, os.getcwd())
    with progress_bar(True, " files", len(jobs)) as progress:
        for done in spread(make, "predict", jobs, asked.workers, asked.address):
            if progress:
                progress(1)
            yield done


def _predict(
    model: Any,
    file: str,
    output: str | None,
    what: Any,
    asked: Asked,
    say: Callable[[str], object],
) -> None:
    """Predict on one file; output: where to write, None for standard output; say: is told of
    warnings."""
    from turbotag.models.gold import Layout
    from turbotag.models.prediction import predict
    from turbotag.storage.store import replacing

    with contextlib.ExitStack() as stack:
        if asked.draw:
            page: IO[bytes] = stack.enter_context(replacing(asked.draw))
        progress = None
        if not asked.workers:
            progress = stack.enter_context(progress_bar(output is not None))
        out: IO[bytes] = stack.enter_context(replacing(output)) if output else sys.stdout.buffer
        if output and output.endswith(".gz"):
            out = stack.enter_context(packed(out))
        copy = Tee(out, "<stdin>" if file == "-" else file)
        tokens = predict(
            model,
            file,
            copy if asked.draw else out,
            what,
            Layout(asked.format, names(asked.columns)),
            asked.threads,
            progress,
            warn=lambda line: say(f"warning: {line}"),
        )
        if asked.draw:
            from turbotag.report.draw import html, read_drawings

            title = "standard input" if file == "-" else os.path.basename(file)
            drawings = read_drawings(copy.getvalue()) if tokens else []
            page.write(html(drawings, title).encode())


def packed(out: IO[bytes]) -> IO[bytes]:
    """A file that packs all that is written to it into `out`; the bytes do not depend on the time
    of day."""
    import gzip

    return cast(IO[bytes], gzip.GzipFile("", "wb", 6, out, mtime=0))


class Tee(io.BytesIO):
    """Remembers the CoNLL-U that is written, and passes it on."""

    def __init__(self, out: IO[bytes], name: str):
        super().__init__()
        self.out, self.name = out, name

    def write(self, data: Any) -> int:
        from turbotag.corpus.formats import is_blank, looks_conll
        from turbotag.errors import DataError

        if not self.tell() and not is_blank(data) and not looks_conll(data):
            raise DataError("cannot be drawn: it is neither CoNLL-U nor CoNLL-X", self.name)
        super().write(data)
        return self.out.write(data)

    def flush(self) -> None:
        self.out.flush()


@contextlib.contextmanager
def progress_bar(
    to_file: bool, unit: str = " tokens", total: int | None = None
) -> Iterator[Callable[[int], object] | None]:
    """A progress bar on stderr, if a person is watching and the tags do not go to the screen."""
    if not sys.stderr.isatty() or (sys.stdout.isatty() and not to_file):
        yield None
        return
    from tqdm import tqdm

    with tqdm(unit=unit, total=total, unit_scale=total is None) as bar:
        yield bar.update
