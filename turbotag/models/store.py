"""The one file format: safetensors arrays and a JSON header, written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from turbotag.errors import DataError

FORMAT_VERSION = 1
_KEY = "turbotag"  # one metadata entry: several would be written in random order


def write_atomically(path: str, data: bytes) -> None:
    """Write to a temporary name in the same folder and rename: the old file or the new one."""
    target = Path(path)
    if target.exists() and not target.is_file():  # a device or a pipe cannot be renamed over
        try:
            with open(target, "wb") as f:
                f.write(data)
        except OSError as e:
            raise cannot_write(path, e) from e
        return
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(
            dir=target.parent, prefix=f".{target.name}.", suffix=".tmp", delete=False
        ) as f:
            temporary = f.name
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, target)
    except OSError as e:
        raise cannot_write(path, e) from e
    finally:
        if temporary is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)


def cannot_write(path: str, e: OSError) -> DataError:
    reason = "no space left on the device" if e.errno == errno.ENOSPC else (e.strerror or str(e))
    return DataError(f"cannot be written: {reason.lower()}", path)


def check_writable(path: str) -> None:
    """Fail before a long training, not after it."""
    target = Path(path)
    if target.is_dir():
        raise DataError("is a directory, not a file", path)
    if not target.parent.is_dir():
        raise DataError(f"folder {str(target.parent)!r} does not exist", path)
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise DataError("cannot be written: permission denied", path)


def save_file(path: str, kind: str, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write a model or a checkpoint."""
    text = json.dumps(
        {"format_version": FORMAT_VERSION, "kind": kind, **header}, ensure_ascii=False
    )
    contiguous = {k: np.ascontiguousarray(v) for k, v in arrays.items()}
    write_atomically(path, save(contiguous, metadata={_KEY: text}))


def load_file(
    path: str, kind: str | None, skip: tuple[str, ...] = ()
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read one; a damaged, foreign or newer file is refused in one sentence.

    Arrays whose names begin with one of `skip` are left in the file; kind None takes any.
    """
    if Path(path).is_dir():
        raise DataError("is a directory, not a file", path)
    try:
        with safe_open(path, framework="numpy") as f:
            metadata = f.metadata() or {}
            if _KEY not in metadata:
                raise DataError("is a safetensors file, but not a turbotag model", path)
            header = _header(metadata[_KEY], path, kind)
            wanted = [name for name in f.keys() if not name.startswith(skip)]  # noqa: SIM118
            arrays = {name: f.get_tensor(name) for name in wanted}
    except FileNotFoundError:
        raise DataError("no such file", path) from None
    except OSError as e:
        raise DataError((e.strerror or str(e)).lower(), path) from e
    except SafetensorError as e:
        raise DataError(f"is not a turbotag model, or is damaged or truncated ({e})", path) from e
    return header, arrays


def kind(path: str) -> str:
    """Which kind of model a file holds."""
    header, _ = load_file(path, None, ("",))
    return str(header["kind"])


def _header(text: str, path: str, kind: str | None) -> dict[str, Any]:
    try:
        header = json.loads(text)
        version, found = header["format_version"], header["kind"]
    except (ValueError, KeyError, TypeError):
        raise DataError("has a damaged header", path) from None
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise DataError(
            f"has format version {version}, this program reads up to {FORMAT_VERSION}: "
            "a newer turbotag is needed",
            path,
        )
    if kind is not None and found != kind:
        raise DataError(f"is a {found}, expected a {kind}", path)
    return header
