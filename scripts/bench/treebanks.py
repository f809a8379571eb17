"""The whole analysis against UDPipe 1 (ufal.udpipe): from one treebank, all columns of raw text.

UDPipe needs up to an hour of CPU time for a treebank. What it trained is kept in build/udpipe, with
the seconds that it took, and taken up again for the same files and the same version of UDPipe.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Iterator
from pathlib import Path

from figures import Row, groups, read, table, values
from measure import Setting, evaluate, rounds, run, scratch, some, turbotag
from peers import UDPIPE, US, Comparison, Sides, installed, rate, worker
from plots import PALETTE, bars, figure, save

from turbotag.corpus.formats import Conll
from turbotag.corpus.reader import read as read_corpus
from turbotag.corpus.surface import read_surface

TITLE = "The whole analysis of a treebank: ufal.udpipe"
BANKS = ("gothic", "slovene", "ewt", "portuguese")
KEPT = Path("build") / "udpipe"
RAW, WORDS = "raw text", "gold tokens"
SCORES = (
    *("Tokens", "Sentences", "Words", "UPOS", "XPOS", "UFeats", "Lemmas"),
    *("UAS", "LAS", "CLAS", "MLAS", "BLEX"),
)
FILLED = (Conll.LEMMA, Conll.UPOS, Conll.XPOS, Conll.FEATS, Conll.HEAD, Conll.DEPREL)


def measure(setting: Setting) -> None:
    """A treebank that UDPipe has not yet been trained on is trained on in its turn."""
    if not installed(setting, UDPIPE):
        return
    trained: list[Row] = []
    used: list[Row] = []
    with scratch() as folder:
        for bank in filter(setting.has, setting.pick(BANKS[:1], BANKS)):
            at = folder / bank
            at.mkdir()
            race(setting, bank, at, trained, used)
            setting.write("treebanks-train", trained)  # what is measured is not lost
            setting.write("treebanks", used)


def race(setting: Setting, bank: str, at: Path, trained: list[Row], used: list[Row]) -> None:
    folder, most = setting.data / bank, setting.pick(60, None)
    parts = {p: folder / f"{p}.conllu" for p in ("train", "dev", "test")}
    files = {p: some(f, 1, at / f.name, most) for p, f in parts.items() if f.exists()}
    models = {US: at / "turbotag.model", UDPIPE: at / "udpipe.model"}
    dev = files.get("dev")
    asked = ["--dev", dev] if dev else []
    ours = ["--task", "pipeline", "--train", files["train"], *asked, "-q", "-o", models[US]]
    trained.append({"bank": bank, "system": US} | run(turbotag("train", *ours)).usage())
    trained.append({"bank": bank, "system": UDPIPE} | peer(files["train"], dev, models[UDPIPE]))
    for row in trained[-2:]:
        row["model_mb"] = models[row["system"]].stat().st_size / 1e6
        print(row, flush=True)
    given = inputs(files["test"], at)
    words = read_corpus(str(files["test"])).n_tokens
    jobs = {(system, kind): setting.repeats for system in models for kind in given}
    for repeat, (system, kind) in rounds(jobs):
        out = at / "out.conllu"
        done = run(worker(WORKERS[system], models[system], given[kind], out, kind == RAW))
        row = {"bank": bank, "system": system, "given": kind, "repeat": repeat, "words": words}
        row |= done.usage() | {"cpu_s": done.json()["cpu"], "wall_s": done.json()["wall"]}
        found = evaluate("--task", "all", files["test"], out)
        row |= {n: round(100 * found["scores"][n]["f1"], 3) for n in SCORES}
        used.append(row)
        print(row, flush=True)


WORKERS = {US: "turbotag_analyse", UDPIPE: "udpipe_analyse"}


def peer(train: Path, dev: Path | None, model: Path) -> Row:
    """UDPipe with its defaults, trained now or before, and the CPU seconds of that training."""
    version = importlib.metadata.version(UDPIPE)
    name = mark(version, train, dev)
    kept, said = KEPT / f"{name}.model", KEPT / f"{name}.json"
    if not said.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        done = run(worker("udpipe_pipeline", train, dev or "", kept))
        said.write_text(json.dumps(done.usage()), encoding="utf-8")
    model.write_bytes(kept.read_bytes())
    return json.loads(said.read_text(encoding="utf-8"))


def mark(version: str, train: Path, dev: Path | None) -> str:
    """What tells trainings apart."""
    digest = hashlib.sha256(version.encode())
    for file in (train, *([dev] if dev else [])):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def inputs(gold: Path, at: Path) -> dict[str, Path]:
    """The text of a treebank, and its words without anything that is to be found."""
    block = read_corpus(str(gold))
    text, words = at / "text.txt", at / "words.conllu"
    text.write_text(read_surface(block).text(), encoding="utf-8")
    lines = gold.read_text(encoding="utf-8").split("\n")
    words.write_text("\n".join(map(bare, lines)), encoding="utf-8")
    return {RAW: text, WORDS: words}


def bare(line: str) -> str:
    """A line of CoNLL-U without its analysis."""
    fields = line.split("\t")
    if len(fields) != 10 or not fields[0].isdigit():
        return line
    return "\t".join("_" if n in FILLED else field for n, field in enumerate(fields))


# ---- The page ------------------------------------------------------------------------------------


def comparisons(out: Path) -> Iterator[Comparison]:
    trained, used = read(out / "treebanks-train.csv"), read(out / "treebanks.csv")
    for bank, rows in groups(trained, "bank").items():
        sides = Sides(rows, UDPIPE, {"system": US}, {"system": UDPIPE})
        yield sides.compare(f"train all stages, {bank}", "cpu_s", "CPU s")
        yield sides.compare(f"train all stages, peak memory, {bank}", "peak_mb", "MB")
        yield sides.compare(f"model file of all stages, {bank}", "model_mb", "MB")
    for (bank, kind), rows in groups(used, "bank", "given").items():
        ours, theirs = (rate(rows, "cpu_s", system=s) for s in (US, UDPIPE))
        what = f"analyse, {bank}, {kind}"
        yield Comparison(what, UDPIPE, "words / CPU s", ours, theirs, True)
        sides = Sides(rows, UDPIPE, {"system": US}, {"system": UDPIPE})
        for name in SCORES:
            if all(values(rows, name)):
                yield sides.compare(f"{name} on test, {bank}, {kind}", name, "F1", True)


def plot(out: Path) -> None:
    used = read(out / "treebanks.csv")
    banks = list(groups(used, "bank"))
    picture = figure(11, 3.4)
    for axis, name in zip(picture.subplots(1, 4), ("UPOS", "UFeats", "Lemmas", "LAS"), strict=True):
        keys = [(b, s) for b in banks for s in (US, UDPIPE)]
        numbers = [values(used, name, bank=b, system=s, given=RAW) for b, s in keys]
        colours = [PALETTE[s] for _, s in keys]
        bars(axis, [b if s == US else "" for b, s in keys], numbers, color=colours)
        axis.set_title(f"{name}, F1 from raw text", fontsize=9)
        axis.tick_params(axis="x", labelsize=8)
        low = min(y for x in numbers for y in x)
        axis.set_ylim(max(0.0, low - 5), None)
    save(picture, out / "treebanks.png")


def section(out: Path) -> str:
    trained, used = read(out / "treebanks-train.csv"), read(out / "treebanks.csv")
    cost = [
        [r["bank"], r["system"], *(f"{r[c]:,.0f}" for c in ("cpu_s", "peak_mb")),
         f"{r['model_mb']:.1f}", f"{r['load']:.1f}"]
        for r in trained
    ]  # fmt: skip
    body = []
    for key, rows in groups(used, "bank", "given", "system").items():
        speed = sorted(rate(rows, "cpu_s"))[len(rows) // 2]
        memory = max(values(rows, "peak_mb"))
        body.append(
            [*key, *(f"{rows[0][n]:.2f}" for n in SCORES), f"{speed:,.0f}", f"{memory:.0f}"]
        )
    missing = [b for b in BANKS if not values(trained, "cpu_s", bank=b)]
    return "\n\n".join(
        [
            "All stages, from one treebank: tokenizer, tags, features, lemmas, trees. UDPipe 1 and "
            "turbotag with their defaults, both told of the dev set where there is one (Slovene "
            "has none). The scores are those of the CoNLL 2018 shared task, on test data, in F1: "
            "from the raw text, and from gold tokens without any analysis. UDPipe's training may "
            "be one of before, with the CPU seconds that it took then.",
            *([f"Not yet raced: {', '.join(missing)}."] if missing else []),
            table(["treebank", "system", "train CPU s", "peak MB", "model MB", "load"], cost),
            table(["treebank", "given", "system", *SCORES, "words / CPU s", "peak MB"], body),
        ]
    )
