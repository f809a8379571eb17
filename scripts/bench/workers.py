"""What the races run in processes of their own, one function each: `workers.py NAME ARGUMENT...`.

A worker imports only what it measures and prints one line of JSON. Seconds that it prints are
those with the model loaded; the process that starts it measures the whole.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

Sentence = list[list[str]]


def read_columns(path: str) -> list[Sentence]:
    """Sentences of a blank-separated column file."""
    sentences, current = [], []
    with open(path, encoding="utf-8") as f:
        for line in f:
            fields = line.split()
            if fields and fields[0] != "-DOCSTART-":
                current.append(fields)
            elif current:
                sentences.append(current)
                current = []
    return [*sentences, current] if current else sentences


def write_columns(path: Path, sentences: list[Sentence], tags: Any) -> None:
    """Sentences with other tags in their last column."""
    with open(path, "w", encoding="utf-8") as f:
        for sentence, found in zip(sentences, tags, strict=True):
            rows = zip(sentence, found, strict=True)
            f.writelines(" ".join([*word[:-1], tag]) + "\n" for word, tag in rows)
            f.write("\n")


def attributes(sentence: Sentence) -> list[list[str]]:
    """The tutorial's 19 attributes as strings, as python-crfsuite takes them, written for speed."""
    w = ["<b>", "<b>", *(f[0] for f in sentence), "<b>", "<b>"]
    p = ["<b>", "<b>", *(f[1] for f in sentence), "<b>", "<b>"]
    return [
        [
            "w-2=" + w[t],
            "w-1=" + w[t + 1],
            "w0=" + w[t + 2],
            "w1=" + w[t + 3],
            "w2=" + w[t + 4],
            "w-1,0=" + w[t + 1] + "|" + w[t + 2],
            "w0,1=" + w[t + 2] + "|" + w[t + 3],
            "p-2=" + p[t],
            "p-1=" + p[t + 1],
            "p0=" + p[t + 2],
            "p1=" + p[t + 3],
            "p2=" + p[t + 4],
            "p-2,-1=" + p[t] + "|" + p[t + 1],
            "p-1,0=" + p[t + 1] + "|" + p[t + 2],
            "p0,1=" + p[t + 2] + "|" + p[t + 3],
            "p1,2=" + p[t + 3] + "|" + p[t + 4],
            "p-2,-1,0=" + p[t] + "|" + p[t + 1] + "|" + p[t + 2],
            "p-1,0,1=" + p[t + 1] + "|" + p[t + 2] + "|" + p[t + 3],
            "p0,1,2=" + p[t + 2] + "|" + p[t + 3] + "|" + p[t + 4],
        ]
        for t in range(len(sentence))
    ]


def crfsuite_train(train: str, model: str, algorithm: str, parameters: str) -> Any:
    """Train; (CPU seconds since the process began, objective) after every iteration."""
    import pycrfsuite

    class Trainer(pycrfsuite.Trainer):
        def on_iteration(self, log: str, info: dict[str, Any]) -> None:
            curve.append((time.process_time(), info.get("loss")))

    curve: list[tuple[float, float | None]] = []
    trainer = Trainer(verbose=True)
    for sentence in read_columns(train):
        trainer.append(attributes(sentence), [f[-1] for f in sentence])
    trainer.select(algorithm)
    trainer.set_params(json.loads(parameters))
    trainer.train(model)
    return {"curve": curve}


def crfsuite_tag(model: str, source: str, target: str) -> Any:
    import pycrfsuite

    tagger = pycrfsuite.Tagger()
    tagger.open(model)
    wall, cpu = time.perf_counter(), time.process_time()
    sentences = read_columns(source)
    write_columns(Path(target), sentences, (tagger.tag(attributes(s)) for s in sentences))
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def crfsuite_objective(train: str, model: str, C: str) -> Any:
    """turbotag's P(w) = |w|^2 / (2 C n) + mean loss at the weights of a CRFsuite model; features
    that it does not have weigh 0."""
    import numpy as np
    import pycrfsuite

    from turbotag.optim.certificate import objective
    from turbotag.structures import sparse
    from turbotag.structures.chain_problem import ChainProblem
    from turbotag.structures.chain_verbs import label_sequences

    sentences = read_columns(train)
    labels = {x: i for i, x in enumerate(sorted({f[-1] for s in sentences for f in s}))}
    known: dict[str, int] = {}
    rows, positions, ends = [], [], [0]
    for sentence in sentences:
        for t, names in enumerate(attributes(sentence)):
            rows += [known.setdefault(name, len(known)) for name in names]
            positions += [t] * len(names)
        ends.append(len(rows))
    parts = np.array(ends), np.array(rows, np.int32), np.array(positions, np.int32)
    ones = np.ones(len(rows))
    sparse.sort_occurrences(*parts, ones)
    problem = ChainProblem(
        np.cumsum([0, *map(len, sentences)]),
        (*parts, ones),
        np.array([labels[f[-1]] for s in sentences for f in s], np.int32),
        len(known),
        label_sequences(len(labels)),
    )
    W = np.zeros(problem.shape)
    tagger = pycrfsuite.Tagger()
    tagger.open(model)
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as f:
        tagger.dump(f.name)
        for line in f:
            found = FEATURE.match(line)
            if found:
                kind, name, label, weight = found.groups()
                row = known[name] if kind == "0" else len(known) + labels[name]
                W[row, labels[label]] = float(weight)
    return {"primal": objective(problem, 1.0 / (float(C) * problem.n), W)[0]}


# a feature in CRFsuite's dump: type (0 for attributes, 1 for transitions), from, to, weight
FEATURE = re.compile(r"\s*\((\d)\) (.*) --> (.*): (-?[\d.]+(?:e-?\d+)?)$")


def turbotag_curve(train: str, C: str, gap: str) -> Any:
    """What `turbotag train --task chunk --template conll2000 -C C --stop-gap GAP` does, with
    (CPU seconds since the process began, P) after every epoch. The full passes that find P for
    this curve are not in its seconds; those that certify the gap are."""
    import numpy as np

    from turbotag.optim.algorithms import algorithm
    from turbotag.optim.certificate import objective
    from turbotag.training import tagger as training
    from turbotag.training.options import options_for

    options = options_for("chunk", train, template="conll2000", C=float(C))
    problem = training.problem(options).problem
    lam, away, curve = 1.0 / (options.fit.C * problem.n), 0.0, []
    optimizer = algorithm("sdca")(problem, lam, np.random.default_rng(options.fit.seed))
    while True:
        optimizer.epoch()
        spent = time.process_time() - away
        primal = objective(problem, lam, optimizer.weights())[0]
        away = time.process_time() - spent
        curve.append((spent, primal))
        if optimizer.gap_estimate() <= float(gap):
            certificate = optimizer.certify()
            if certificate.gap <= float(gap):
                return {"curve": curve, "dual": certificate.dual}


def turbotag_predict(model: str, source: str, target: str, threads: str) -> Any:
    from turbotag.models.pipeline import load_model
    from turbotag.models.prediction import predict

    loaded = load_model(model)
    wall, cpu = time.perf_counter(), time.process_time()
    with open(target, "wb") as f:
        predict(loaded, source, f, threads=int(threads))
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def turbotag_analyse(model: str, source: str, target: str, raw: str) -> Any:
    from turbotag.models.gold import Layout
    from turbotag.models.pipeline import load
    from turbotag.models.prediction import predict

    loaded, layout = load(model), Layout("raw" if raw == "True" else "conllu")
    wall, cpu = time.perf_counter(), time.process_time()
    with open(target, "wb") as f:
        predict(loaded, source, f, layout=layout)
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


# ---- sklearn-crfsuite, and turbotag's estimator --------------------------------------------------


def tutorial_features(sentence: Sentence) -> list[dict[str, Any]]:
    """sklearn-crfsuite's tutorial: dicts of a word, and of its neighbours under -1: and +1:."""
    own = [
        {
            "word.lower()": word.lower(),
            "word.isupper()": word.isupper(),
            "word.istitle()": word.istitle(),
            "postag": tag,
            "postag[:2]": tag[:2],
        }
        for word, tag, *_ in sentence
    ]
    out = []
    for t, (word, *_) in enumerate(sentence):
        found: dict[str, Any] = {"bias": 1.0, "word[-3:]": word[-3:], "word[-2:]": word[-2:]}
        found |= own[t] | {"word.isdigit()": word.isdigit()}
        for step, edge in ((-1, "BOS"), (1, "EOS")):
            if 0 <= t + step < len(own):
                found |= {f"{step:+d}:{name}": value for name, value in own[t + step].items()}
            else:
                found[edge] = True
        out.append(found)
    return out


def sklearn_crf(kind: str, parameters: str, folder: str) -> Any:
    """Train one kind of estimator on FOLDER/train.txt; tag testa and testb, to *.tagged."""
    words = kind == "turbotag.CRF on words"
    make: Any = (lambda s: [(w[0], w[1]) for w in s]) if words else tutorial_features
    at = Path(folder)
    files = [read_columns(str(at / f"{f}.txt")) for f in ("train", "testa", "testb")]
    train, *tests = [[make(s) for s in file] for file in files]
    if kind == "sklearn-crfsuite":
        from sklearn_crfsuite import CRF
    else:
        from turbotag import CRF
    crf = CRF(**json.loads(parameters), **({"template": "ner"} if words else {}))
    begin = time.process_time()
    crf.fit(train, [[w[-1] for w in s] for s in files[0]])
    middle = time.process_time()
    found = [crf.predict(X) for X in tests]
    end = time.process_time()
    for name, sentences, tags in zip(("testa", "testb"), files[1:], found, strict=True):
        write_columns(at / f"{name}.tagged", sentences, tags)
    n = sum(len(s) for file in files[1:] for s in file)
    return {"fit_s": round(middle - begin, 2), "words_per_s": round(n / (end - middle))}


def udpipe_sentences(path: str) -> list[Any]:
    from ufal import udpipe

    error = udpipe.ProcessingError()
    reader = udpipe.InputFormat.newConlluInputFormat()
    reader.setText(Path(path).read_text(encoding="utf-8"))
    sentences, sentence = [], udpipe.Sentence()
    while reader.nextSentence(sentence, error):
        sentences.append(sentence)
        sentence = udpipe.Sentence()
    if error.occurred():
        sys.exit(error.message)
    return sentences


def udpipe_train(train: str, model: str, options: str) -> Any:
    """A parser alone, on the tags of the file."""
    from ufal import udpipe

    none = udpipe.Trainer.NONE
    return _udpipe_fit(train, "", model, (none, none, options))


def udpipe_pipeline(train: str, dev: str, model: str) -> Any:
    """Tokenizer, tagger and parser, with the defaults."""
    return _udpipe_fit(train, dev, model, ("", "", ""))


def _udpipe_fit(train: str, dev: str, model: str, options: tuple[str, str, str]) -> Any:
    from ufal import udpipe

    error, sentences = udpipe.ProcessingError(), udpipe_sentences(train)
    held = udpipe_sentences(dev) if dev else []
    data = udpipe.Trainer.train("morphodita_parsito", sentences, held, *options, error)
    if error.occurred():
        sys.exit(error.message)
    Path(model).write_bytes(data)
    return {"sentences": len(sentences)}


def udpipe_parse(model: str, source: str, target: str) -> Any:
    from ufal import udpipe

    return _udpipe_run(model, source, target, ("conllu", udpipe.Pipeline.NONE))


def udpipe_analyse(model: str, source: str, target: str, raw: str) -> Any:
    from ufal import udpipe

    how = "tokenize" if raw == "True" else "conllu"
    return _udpipe_run(model, source, target, (how, udpipe.Pipeline.DEFAULT))


def _udpipe_run(model: str, source: str, target: str, given: tuple[str, str]) -> Any:
    """given: the form of the input, and whether it is tagged; it is parsed in any case."""
    from ufal import udpipe

    loaded, error = udpipe.Model.load(model), udpipe.ProcessingError()
    pipeline = udpipe.Pipeline(loaded, *given, udpipe.Pipeline.DEFAULT, "conllu")
    wall, cpu = time.perf_counter(), time.process_time()
    found = pipeline.process(Path(source).read_text(encoding="utf-8"), error)
    Path(target).write_text(found, encoding="utf-8")
    if error.occurred():
        sys.exit(error.message)
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
