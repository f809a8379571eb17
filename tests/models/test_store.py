"""The model file: whole or refused, in one sentence."""

import json
import os

import numpy as np
import pytest
from safetensors.numpy import save

from turbotag.errors import DataError
from turbotag.models import store


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
