"""Model files and checkpoints that lie: what scripts/torture/models.py found, one by one."""

import gzip
import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from turbotag.corpus.formats import CONLLU
from turbotag.corpus.reader import read, stream
from turbotag.corpus.writer import Edits
from turbotag.errors import DataError
from turbotag.features.gazetteer import Gazetteer
from turbotag.models.model import Output
from turbotag.models.pipeline import load_model
from turbotag.models.prediction import predict
from turbotag.models.tagger import Tagger
from turbotag.storage import store
from turbotag.training.options import options_for
from turbotag.training.tagger import train

SCRIPTS = Path(__file__).parents[2] / "scripts" / "torture"
if not SCRIPTS.is_dir():
    pytest.skip("needs the scripts of the repository", allow_module_level=True)
sys.path.insert(0, str(SCRIPTS))

from attempts import TAGS  # noqa: E402
from model_targets import bare, model_bytes, packed, small_models  # noqa: E402


@pytest.fixture
def refused(tmp_path):
    """Refuses a changed model, in one line that names it and holds some words."""
    path = tmp_path / "hostile.model"

    def check(name, words, header=None, arrays=None, load=load_model):
        old_header, old_arrays = small_models()[name]
        changed = {**old_header, **(header or {})}, {**old_arrays, **(arrays or {})}
        path.write_bytes(model_bytes(changed))
        with pytest.raises(DataError, match=words) as error:
            load(str(path))
        assert str(error.value).startswith(f"{path}: is damaged")
        assert "\n" not in str(error.value)

    return check


@pytest.mark.parametrize(
    ("name", "header", "words"),
    [
        ("tagger", {"order": 3}, "order 3"),
        ("tagger", {"order": 10**9}, "order 1000000000"),
        ("tagger", {"labels": []}, "0 labels"),
        ("tagger", {"labels": ["B-LOC", "B-LOC", "I-PER", "O"]}, "not distinct"),
        ("tagger", {"labels": ["B-LOC", "a\tb", "I-PER", "O"]}, "labels have"),
        ("tagger", {"labels": ["NN", "VB", "IN", "DT"]}, "not those of spans"),
        ("tagger", {"labels": "BIOX"}, "expected a list"),
        ("tagger", {"scheme": "iob3"}, "schemes 'iob3'"),
        ("tagger", {"scheme": None}, "schemes None and 'iob2'"),
        ("tagger", {"templates": {}}, "expected text"),
        ("tagger", {"templates": "word[99]"}, "is not a template"),
        ("tagger", {"gazetteers": ["g", "h"]}, "no array 'gazetteer.h.prefixes'"),
        ("tagger", {"target": "a\nb"}, "target have"),
        ("tagger", {"certificate": {"primal": 10**400, "dual": 0.0, "gap": 0.0}}, "expected"),
        ("parser", {"labels": []}, "0 labels"),
        ("parser", {"loss": {"name": "crf", "beta": "nan", "gamma": 0.0}}, "beta nan"),
        ("parser", {"loss": {"name": "crf", "beta": "0", "gamma": 0.0}}, "beta 0"),
        ("parser", {"parts": ["cs"]}, "parts cs"),
        ("parser", {"decoder": "other"}, "decoder"),
        ("parser", {"single_root": "yes"}, "true or false"),
        ("second order", {"parts": []}, "parts"),
        ("second order", {"decoder": "projective"}, "decoder"),
    ],
)
def test_headers(refused, name, header, words):
    refused(name, words, header)


@pytest.mark.parametrize(
    ("key", "value"), [("rounds", 10**12), ("rounds", 0), ("damping", 1.0), ("entropy", "x")]
)
def test_approximations(refused, key, value):
    old = small_models()["second order"][0]["approximation"]
    refused("second order", key, {"approximation": {**old, key: value}})


def test_templates_and_parts_go_together(refused):
    """Parts without their templates would let a kernel read beyond its scores."""
    header = small_models()["second order"][0]
    fewer = {k: v for k, v in header["templates"].items() if k != "grandparents"}
    refused("second order", "templates of", {"templates": fewer})


def test_arrays(refused):
    _, arrays = small_models()["tagger"]
    refused("tagger", "array 'keys' is", arrays={"keys": arrays["keys"][None]})
    refused("tagger", "array 'keys' is", arrays={"keys": arrays["keys"].astype(np.float64)})
    refused("tagger", "2 marks", arrays={"gazetteer.g.whole": arrays["gazetteer.g.whole"][:-1]})
    for value in (np.nan, np.inf, -np.inf, 3e38):
        weights = arrays["weights"].copy()
        weights[-1, -1] = value
        refused("tagger", "not finite, or too large", arrays={"weights": weights})
    scales = np.full(1, 3e38, np.float32)
    refused("parser", "too large", arrays={"arc.scales": scales})


def test_names_of_features_stay_inside(refused):
    _, arrays = small_models()["tagger"]
    names = {"load": lambda path: Tagger.load(path, names=True)}
    for column, value in ((0, 99), (0, -1), (1, 10**6), (1, -3)):
        origins = arrays["origins"].copy()
        origins[:, column] = value
        refused("tagger", "point outside", arrays={"origins": origins}, **names)
    offsets = arrays["vocabulary.word.offsets"].copy()
    offsets[1] = 10**6
    refused("tagger", "not in order", arrays={"vocabulary.word.offsets": offsets}, **names)


def test_keys_that_fall_together(refused):
    """Two keys for each place of a table would take the square of their number to insert."""
    n = 100_000
    numbers = np.arange(n, dtype=np.uint64)
    keys = (numbers // 2) | (numbers << np.uint64(40))
    keys[0] = 1
    K = len(small_models()["tagger"][0]["labels"])
    arrays = {"keys": keys, "weights": np.ones((n + K, K), np.float32)}
    refused("tagger", "fall together", arrays=arrays)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "damaged header"),
        ('{"kind": "tagger", "kind": "parser", "format_version": 1}', "damaged header"),
        ('{"kind": "tagger", "format_version": 0}', "damaged header"),
        ('{"kind": 1, "format_version": 1}', "damaged header"),
        ('{"kind": "' + "x" * 10_000 + '", "format_version": 1}', r"is a x.*x \.\.\. x"),
    ],
)
def test_metadata(tmp_path, text, words):
    path = tmp_path / "hostile.model"
    path.write_bytes(packed({"turbotag": text}, {}))
    with pytest.raises(DataError, match=words) as error:
        load_model(str(path))
    assert len(str(error.value)) < 1000


def test_huge_claims_are_not_believed(tmp_path):
    path = tmp_path / "hostile.model"
    for entry in (
        {"dtype": "F32", "shape": [1 << 62], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [1 << 32, 1 << 32], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [1], "data_offsets": [1 << 40, (1 << 40) + 4]},
        {"dtype": "F32", "shape": [2] * 100_000, "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]},
    ):
        header = json.dumps({"__metadata__": {"turbotag": "{}"}, "x": entry}).encode()
        path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
        with pytest.raises(DataError, match="damaged or truncated"):
            store.load_file(str(path), None)


@pytest.fixture
def stopped(tmp_path):
    """A training that was stopped, the place of its checkpoint, and what continues it."""
    options = options_for("ner", train=TAGS, epochs=4)
    output = str(tmp_path / "m")
    assert not Path(output + ".checkpoint").exists()

    class Enough(Exception):
        pass

    def stop(line):
        if line.lstrip().startswith("2 "):
            raise Enough

    from turbotag.optim.trace import Trace

    with pytest.raises(Enough):
        train(options, output, Trace(stop), checkpoint_seconds=0.0)
    return output + ".checkpoint", lambda: train(options, output, resume=True)


@pytest.mark.parametrize(
    "change", ["shape", "dtype", "missing", "nan", "gap", "state", "counts", "random"]
)
def test_forged_checkpoints(stopped, change):
    """Even without checksums."""
    path, resume = stopped
    header, arrays = bare(path, "checkpoint")
    state = json.loads(header["state"])
    if change == "shape":
        arrays["W"] = arrays["W"][:1]
    elif change == "dtype":
        arrays["mu"] = arrays["mu"].astype(np.float32)
    elif change == "missing":
        del arrays["gaps"]
    elif change == "nan":
        arrays["W"][:] = np.nan
    elif change == "gap":  # more entropy than there can be: the dual would pass the optimum
        arrays["h"][:] = 1e300
    elif change == "state":
        state = []
    elif change == "counts":
        state["epochs"] = "two"
    else:
        state["random"]["state"] = {"state": -1, "inc": 1}
    text = json.dumps(state)
    Path(path).write_bytes(model_bytes(({**header, "state": text}, arrays)))
    with pytest.raises(DataError, match="not a state of this training, or is damaged") as error:
        resume()
    assert str(error.value).startswith(path)


def test_a_tag_in_misc_and_its_probability_share_the_column():
    """They were two replacements of one field, written beyond the end of the output."""
    rows = [f"{i}\tw{i % 7}\t_\t_\t_\t_\t_\t_\t_\tX={i % 3}" for i in range(1, 30)]
    data = ("\n".join(rows) + "\n\n").encode()
    model, _ = train(options_for("pos", train=data, target="misc", epochs=3), "/dev/null")
    bare = data.replace(b"X=0", b"_").replace(b"X=1", b"_").replace(b"X=2", b"_")
    for given in (data, bare):
        out = io.BytesIO()
        predict(model, given, out, Output(marginals=True))
        found = read(out.getvalue(), "conllu").strings(9)
        assert len(found) == 29
        assert all(f.startswith("X=") and "|Prob=0." in f for f in found)


def test_what_is_written_last_counts():
    block, each = read(TAGS, "columns"), np.zeros(6, np.int64)
    edits = Edits(block)
    edits.replace(1, ["x"], each)
    edits.replace(1, ["y", "z"], each)
    found = edits.written()
    assert read(edits.text(), "columns").column(1).strings == found.column(1).strings == ["y"]
    assert found.filled(1).all()
    assert found.column(0).strings == block.column(0).strings


def test_column_numbers():
    for name in ("²", "٣" * 20, "9" * 5000):
        assert CONLLU.index(name) is None
    assert CONLLU.index("3") == 2


def test_damaged_gz_of_names(tmp_path):
    path = tmp_path / "names.gz"
    whole = gzip.compress(b"Ada Lind\n" * 100)
    for data in (whole[:20], whole[:12] + b"\xff" * 20):
        path.write_bytes(data)
        with pytest.raises(DataError, match="cannot be read as a gazetteer"):
            Gazetteer.read("g", str(path))


def test_the_mark_of_a_document_does_not_tell_the_format():
    for size in (4, 20, 1000):
        blocks = stream(b"-DOCSTART-\n\nAda B-X\nLind I-X\n", block_bytes=size)
        assert [w for b in blocks for w in b.strings(0)] == ["Ada", "Lind"]


def test_many_comments_before_the_first_token():
    data = b"# a comment\n" * 300 + b"1\tAda\t_\t_\t_\t_\t0\troot\t_\t_\n"
    assert read(data).format == replace(CONLLU)
