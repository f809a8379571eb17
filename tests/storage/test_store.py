"""The model file: whole or refused, in one sentence."""

import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from turbotag.errors import DataError
from turbotag.storage import store, thin
from turbotag.storage.checkpoints import Checkpoint
from turbotag.storage.tensors import Entry


@pytest.fixture
def model(tmp_path):
    path = str(tmp_path / "m")
    store.save_file(path, "tagger", {"a": 1}, {"x": np.arange(5, dtype=np.uint64)})
    return path


def test_round_trip_and_equal_bytes(model, tmp_path):
    header, arrays = store.load_file(model, "tagger")
    assert header["a"] == 1
    assert arrays["x"].tolist() == [0, 1, 2, 3, 4]
    other = str(tmp_path / "n")
    store.save_file(other, "tagger", {"a": 1}, {"x": np.arange(5, dtype=np.uint64)})
    assert open(model, "rb").read() == open(other, "rb").read()
    assert sorted(os.listdir(tmp_path)) == ["m", "n"]


def test_truncated_at_every_byte(model):
    data = open(model, "rb").read()
    for size in range(len(data)):
        with open(model, "wb") as f:
            f.write(data[:size])
        with pytest.raises(DataError, match="m: is not a turbotag model, or is damaged"):
            store.load_file(model, "tagger")


def test_a_file_with_any_byte_changed_is_refused(model):
    """Two of the 255 ways to change each byte."""
    data = open(model, "rb").read()
    for at in range(len(data)):
        for bits in (0x01, 0x80):
            with open(model, "wb") as f:
                f.write(data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :])
            with pytest.raises(DataError, match=r"m: (is|has)"):
                store.load_file(model, "tagger")


def test_zeros_for_half_of_a_file(model):
    data = open(model, "rb").read()
    with open(model, "wb") as f:
        f.write(data[:-20] + bytes(20))
    with pytest.raises(DataError, match=r"m: is damaged: array 'x' is not what was written$"):
        store.load_file(model, "tagger")


def test_files_of_version_1_are_read_and_written_as_version_2(model):
    """They have no checksums."""
    data = open(model, "rb").read()
    n = 8 + int.from_bytes(data[:8], "little")
    table = json.loads(data[8:n])
    header = json.loads(table["__metadata__"]["turbotag"])
    assert header.pop("crc32").keys() == {"header", "arrays"}
    metadata = {"turbotag": json.dumps({**header, "format_version": 1})}
    with open(model, "wb") as f:
        f.write(save({"x": np.arange(5, dtype=np.uint64)}, metadata=metadata))
    header, arrays = store.load_file(model, "tagger")
    assert header["a"] == 1
    assert arrays["x"].tolist() == [0, 1, 2, 3, 4]
    store.save_file(model, "tagger", header, arrays)
    assert open(model, "rb").read() == data


@pytest.mark.parametrize(
    "sums", [1, [], {}, {"header": "x"}, {"header": 0, "arrays": {}}, {"arrays": {}}]
)
def test_checksums_that_are_none(model, sums):
    table = {"format_version": 2, "kind": "tagger", "crc32": sums}
    with open(model, "wb") as f:
        f.write(save({"x": np.zeros(1)}, metadata={"turbotag": json.dumps(table)}))
    with pytest.raises(DataError, match="m: has a damaged header"):
        store.load_file(model, "tagger")


def test_foreign_newer_other_kind_damaged_header_directory_missing(tmp_path, model):
    path = str(tmp_path / "x")
    cases = {
        "not a turbotag model": {"other": "x"},
        "newer": {"turbotag": json.dumps({"format_version": 99, "kind": "tagger"})},
        "damaged header": {"turbotag": "{"},
        "is a checkpoint": {"turbotag": json.dumps({"format_version": 1, "kind": "checkpoint"})},
    }
    for words, metadata in cases.items():
        with open(path, "wb") as f:
            f.write(save({"x": np.zeros(1)}, metadata=metadata))
        with pytest.raises(DataError, match=words):
            store.load_file(path, "tagger")
    with pytest.raises(DataError, match="directory"):
        store.load_file(str(tmp_path), "tagger")
    with pytest.raises(DataError, match="no such file"):
        store.load_file(str(tmp_path / "none"), "tagger")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(model, tmp_path, monkeypatch):
    before = open(model, "rb").read()

    def broken(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(DataError, match="no space left"):
        store.save_file(model, "tagger", {}, {"x": np.zeros(9)})
    assert open(model, "rb").read() == before
    assert os.listdir(tmp_path) == ["m"]


def test_check_writable(tmp_path):
    with pytest.raises(DataError, match="directory"):
        store.check_writable(str(tmp_path))
    with pytest.raises(DataError, match="does not exist"):
        store.check_writable(str(tmp_path / "no" / "m"))


def temporary(path, name="abcd1234"):
    return path.parent / f".{path.name}.{name}.tmp"


def test_temporary_files_of_killed_processes_are_removed_and_those_in_use_are_not(tmp_path):
    path = tmp_path / "m"
    other = tmp_path / ".m.checkpoint.abcd1234.tmp"
    for stale in (temporary(path), temporary(path, "a_old_09"), other):
        stale.write_bytes(b"half")
    with store.replacing(str(path)) as f:  # of another process, as far as the lock can tell
        f.write(b"first")
        in_use = f.name
        store.write_atomically(str(path), b"second")
        assert os.path.exists(in_use)
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert sorted(os.listdir(tmp_path)) == [other.name, "m"]


def test_a_process_that_ends_removes_what_it_has_begun(tmp_path):
    path = tmp_path / "m"
    path.write_bytes(b"old")
    with (
        pytest.raises(DataError, match="cannot be written"),
        store.held(str(path)),
        store.replacing(str(path)) as f,
    ):
        f.write(b"new")
        store.remove_unfinished()
        assert os.listdir(tmp_path) == ["m"]
    assert path.read_bytes() == b"old"


def test_a_model_is_trained_by_one_process_at_a_time(tmp_path):
    path = str(tmp_path / "m")
    with store.held(path):
        with pytest.raises(DataError, match=f"m: is being trained by process {os.getpid()}"):
            store.held(path).__enter__()
        with store.held(str(tmp_path / "n")):
            assert sorted(os.listdir(tmp_path)) == [".m.lock", ".n.lock"]
    (tmp_path / ".m.lock").write_text("process 1, which was killed")
    with store.held(path), store.held(os.devnull), store.held(os.devnull):
        pass
    assert os.listdir(tmp_path) == []


def test_a_model_that_is_cut_while_it_is_read(model, monkeypatch):
    """Mapped into memory, it would end the process with a bus error."""
    store.save_file(model, "tagger", {}, {"x": np.arange(1 << 16)})
    header = store._header

    def cut(*arguments):
        os.truncate(model, 4096)
        return header(*arguments)

    monkeypatch.setattr(store, "_header", cut)
    with pytest.raises(DataError, match=r"truncated|changed while it was read"):
        store.load_file(model, "tagger")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_found_before_training(tmp_path):
    path = tmp_path / "m"
    path.write_bytes(b"old")
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(DataError, match="permission denied"):
            store.check_writable(str(path))
    finally:
        tmp_path.chmod(0o755)


def test_a_damaged_checkpoint_is_refused(tmp_path):
    checkpoint = Checkpoint(str(tmp_path / "m.checkpoint"), {"C": 1.0})
    checkpoint.save({"W": np.arange(9.0)}, "{}")
    arrays, state = checkpoint.load()
    assert (arrays["W"].tolist(), state) == (list(range(9)), "{}")
    data = bytearray(open(checkpoint.path, "rb").read())
    for at in (*range(8, len(data), 5), len(data) - 1):
        with open(checkpoint.path, "wb") as f:
            f.write(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(DataError, match=r"m\.checkpoint: "):
            checkpoint.load()


# ---- Matrices that are mostly 0 ------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(0, 5), st.integers(1, 300), st.floats(0.0, 1.0), st.integers(0, 99))
def test_thin_matrices_come_back(n, width, share, seed):
    draw = np.random.default_rng(seed)
    full = draw.integers(-128, 128, (n, width)).astype(np.int8)
    matrix = np.where(draw.random((n, width)) < share, full, 0).astype(np.int8)
    arrays = {"a": matrix, "b": np.arange(3.0)}
    parts, widths = thin.thinned(arrays)
    assert sum(p.nbytes for p in parts.values()) <= sum(a.nbytes for a in arrays.values())
    assert all(np.array_equal(thin.whole(k, parts, widths), v) for k, v in arrays.items())


def test_a_file_with_a_thin_matrix_is_smaller_and_of_version_3(tmp_path):
    matrix = np.zeros((1000, 40), np.int8)
    matrix[::7, 3] = 5
    for name, array, version in (("thin", matrix, 3), ("full", matrix + np.int8(1), 2)):
        path = str(tmp_path / name)
        store.save_file(path, "tagger", {}, {"rows": array})
        header, arrays = store.load_file(path, "tagger")
        assert np.array_equal(arrays["rows"], array)
        assert arrays["rows"].dtype == np.int8
        assert header == {"format_version": version, "kind": "tagger"}
    assert (tmp_path / "thin").stat().st_size < 3000 < (tmp_path / "full").stat().st_size


@pytest.mark.parametrize(
    ("widths", "parts"),
    [
        ({"rows": 4}, {"counts": [1, 2], "columns": [0, 1], "values": [1, 2]}),  # of other rows
        ({"rows": 2}, {"counts": [1, 1], "columns": [0, 2], "values": [1, 2]}),  # beyond the last
        ({"rows": 4}, {"counts": [1, 1], "columns": [0, 2], "values": [1]}),
        ({"rows": 0}, {"counts": [0], "columns": [], "values": []}),
        ({"rows": "4"}, {"counts": [1, 1], "columns": [0, 2], "values": [1, 2]}),
        ({"other": 4}, {"counts": [1, 1], "columns": [0, 2], "values": [1, 2]}),
        ({"rows": 4}, {"counts": [1, 1], "columns": [0, 2]}),
    ],
)
def test_thin_matrices_that_are_damaged_are_refused(widths, parts):
    types = {"counts": np.uint8, "columns": np.uint8, "values": np.int8}
    arrays = {f"rows/{k}": np.array(v, types[k]) for k, v in parts.items()}
    entries = {k: Entry(a.dtype, a.shape, 0) for k, a in arrays.items()}
    with pytest.raises((ValueError, KeyError)):
        thin.whole_entries(entries, widths)
        thin.whole("rows", arrays, widths)
