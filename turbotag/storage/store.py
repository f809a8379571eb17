"""The one file format: safetensors arrays and a JSON header, written whole or not at all.

From format version 2 on, the header's entry `crc32` has checksums of the rest of the header and of
each array. They tell of damage, not of malice: whoever changes a file on purpose can change them.
Version 3 has matrices that are mostly 0 in parts, named in the header's entry `thin`
(storage/thin); a file without such a matrix is of version 2.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
import secrets
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from safetensors.numpy import save

from turbotag.corpus.reader import Steady
from turbotag.errors import DataError
from turbotag.storage import members, memory, thin
from turbotag.storage.checks import fitting
from turbotag.storage.tensors import Entries, Entry, read_array, read_entries, read_json

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FORMAT_VERSION = 3  # the newest; version 1 has no checksums and is read too
_KEY = "turbotag"  # one metadata entry: several would be written in random order
_SUMS, _THIN = "crc32", "thin"
Wanted = Callable[[dict[str, Any], Entries], Iterable[str]]
_unfinished: set[str] = set()  # files of this process that must not outlive it


def write_atomically(path: str, data: bytes) -> None:
    """Write under a temporary name in the same folder, then rename: at any time there is the old
    file or the new one."""
    with replacing(path) as f:
        f.write(data)


class replacing:
    """A file that appears under its name only when it has been written completely.

    Until then it is a locked file in the same folder, .NAME.tmp with eight hexadecimal digits in
    it. If nobody holds its lock, it was left by a process that was killed, and it is removed when
    NAME is next written.
    """

    def __init__(self, path: str):
        self.path = path
        self.temporary: str | None = None

    def __enter__(self) -> IO[bytes]:
        check_writable(self.path)
        try:
            if _is_device(self.path):
                self.file = open(self.path, "wb")
            else:
                remove_stale(self.path)
                self._open()
        except OSError as e:
            raise cannot_write(self.path, e) from e
        return self.file

    def _open(self) -> None:
        target = Path(self.path)
        while True:
            self.temporary = str(target.parent / f".{target.name}.{secrets.token_hex(4)}.tmp")
            _unfinished.add(self.temporary)
            try:
                self.file = open(self.temporary, "xb")
                if _lock(self.file, self.temporary):
                    return
                self.file.close()
            except BlockingIOError:  # another process has taken it for stale
                self.file.close()
            except OSError:
                _unfinished.discard(self.temporary)
                raise
            _remove(self.temporary)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            with self.file:
                if error is None and self.temporary is not None:
                    self.file.flush()
                    os.fsync(self.file.fileno())
                    if fcntl is None:  # Windows renames no open file
                        self.file.close()
                    os.replace(self.temporary, self.path)
        except OSError as e:
            error = error or e
        finally:
            if self.temporary is not None:
                _remove(self.temporary)
        if isinstance(error, OSError):
            raise cannot_write(self.path, error) from error


@contextlib.contextmanager
def held(path: str | None) -> Iterator[None]:
    """Refuse to train a model that another process is training: both would use the same
    checkpoints."""
    if path is None:
        yield
        return
    check_writable(path)
    if _is_device(path):
        yield
        return
    lock = str(Path(path).parent / f".{Path(path).name}.lock")
    try:
        file = _take(lock)
    except BlockingIOError as e:
        raise DataError(
            f"is being trained by {e}: wait for it, or choose another name", path
        ) from e
    except OSError as e:
        raise cannot_write(path, e) from e
    try:
        yield
    finally:
        _remove(lock)
        file.close()


def _take(lock: str) -> IO[str]:
    """A locked file that names this process, or BlockingIOError with the name of the process that
    has it."""
    while True:
        _unfinished.add(lock)
        try:
            file = open(lock, "x+")
        except OSError as e:
            _unfinished.discard(lock)
            if not isinstance(e, FileExistsError):
                raise
            try:
                file = open(lock, "r+")
            except FileNotFoundError:
                continue
        try:
            if _lock(file, lock):
                _unfinished.add(lock)
                with contextlib.suppress(OSError):
                    file.truncate(0)
                    os.write(file.fileno(), f"process {os.getpid()}".encode())
                return file
        except BlockingIOError:
            _unfinished.discard(lock)
            with file:
                raise BlockingIOError(file.read() or "another process") from None
        file.close()


def remove_stale(path: str) -> None:
    """Remove temporary files of `path` that killed processes left."""
    target = Path(path)
    ours = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-z_]{{8}}\.tmp")
    with contextlib.suppress(OSError):  # a folder that cannot be listed
        for name in filter(ours.fullmatch, os.listdir(target.parent)):
            with contextlib.suppress(OSError), open(target.parent / name, "r+b") as f:
                if fcntl is not None:
                    fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(f.name)


def remove_unfinished() -> None:
    """Remove the files that this process, which is about to end, has begun to write."""
    for name in list(_unfinished):
        _remove(name)


def _remove(name: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name)
    _unfinished.discard(name)


def _lock(file: IO[Any], name: str) -> bool:
    """Lock an open file, or raise BlockingIOError; returns False if the file no longer has its
    name. On systems without locks nothing is done."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file.fileno()), os.stat(name))
    except BlockingIOError:
        raise
    except FileNotFoundError:
        return False
    except OSError:  # a file system without locks
        return True


def _is_device(path: str) -> bool:
    """Whether a path is a device or a pipe, over which no file can be renamed."""
    return os.path.exists(path) and not os.path.isfile(path)


def cannot_write(path: str, e: OSError) -> DataError:
    reason = "no space left on the device" if e.errno == errno.ENOSPC else (e.strerror or str(e))
    return DataError(f"cannot be written: {reason.lower()}", path)


def check_writable(path: str) -> None:
    """Fail before a long training, not at its end."""
    target = Path(path)
    if target.is_dir():
        raise DataError("is a directory, not a file", path)
    if not target.parent.is_dir():
        raise DataError(f"folder {str(target.parent)!r} does not exist", path)
    here = [] if _is_device(path) else [target.parent]  # where the temporary file will be
    if not all(os.access(p, os.W_OK) for p in [*here, *([target] if target.exists() else [])]):
        raise DataError("cannot be written: permission denied", path)


def save_file(path: str, kind: str, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write a model or a checkpoint."""
    parts, widths = thin.thinned(arrays)
    whole = {**header, "format_version": 3 if widths else 2, "kind": kind}
    if widths:
        whole[_THIN] = widths
    contiguous = {k: np.ascontiguousarray(v) for k, v in parts.items()}
    sums = {k: zlib.crc32(v.data) for k, v in contiguous.items()}
    whole[_SUMS] = {"header": zlib.crc32(_json(whole)), "arrays": sums}
    write_atomically(path, save(contiguous, metadata={_KEY: _json(whole).decode()}))


def _json(header: dict[str, Any]) -> bytes:
    """A header as it is written. A header that is read and written again has the same bytes."""
    return json.dumps(header, ensure_ascii=False).encode()


def load_file(
    path: str, kind: str | None, skip: tuple[str, ...] = (), wanted: Wanted | None = None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read a model or a checkpoint; a damaged, foreign or newer file is refused in one sentence.

    kind: what the file must be, None for anything. wanted: tells, before any array is read, which
    arrays to read; it raises ValueError if the header or the shapes of the arrays are not as they
    should be. Without it all arrays are read, except those whose names begin with one of `skip`.
    The path may be that of a stage (storage/members).
    """
    file, stage = members.split(path)
    if Path(file).is_dir():
        raise DataError("is a directory, not a file", path)
    try:
        with Steady(file) as f:  # not mapped into memory, where truncation would be a crash
            head = _read_head(f, path, stage)
            header, place = head.header, head.place
            if kind is not None and header["kind"] != kind:
                raise DataError(f"is a {header['kind']}, expected a {kind}", path)
            with fitting(path):
                seen = {name: head.whole[at] for name, at in place.items()}
                names = wanted(header, seen) if wanted else seen
                names = list(dict.fromkeys(n for n in names if wanted or not n.startswith(skip)))
                need = sum(_bytes(seen[n]) for n in names)
                if need > memory.available():
                    raise DataError(f"needs {need / 1e9:.1f} GB of memory, more than is free", path)
                read = {n: read_array(f, head.entries[n]) for n in head.stored(names)}
                _check(read, head.entries, head.sums, path)
                arrays = {n: thin.whole(place[n], read, head.widths) for n in names}
            f.seek(0, os.SEEK_END)
            f.readinto(bytearray(1))  # at the end of a file, Steady tells whether it was changed
    except FileNotFoundError:
        raise DataError("no such file", path) from None
    except OSError as e:
        raise DataError((e.strerror or str(e)).lower(), path) from e
    return header, arrays


@dataclass(frozen=True)
class _Head:
    """What a file says before its arrays. header: of the model; entries: the arrays of the file;
    sums: their checksums, None in version 1; whole: entries, with matrices in place of their parts
    (storage/thin); widths: the columns of these matrices; place: for each array of the model, its
    name in `whole`."""

    header: dict[str, Any]
    sums: dict[str, Any] | None
    entries: Entries
    whole: Entries
    widths: dict[str, int]
    place: dict[str, str]

    def stored(self, names: Iterable[str]) -> list[str]:
        """The arrays of the file that arrays of the model are read from."""
        parts = (thin.stored_names(self.place[n], self.widths) for n in names)
        return sorted({part for each in parts for part in each})


def _read_head(f: Steady, path: str, stage: str) -> _Head:
    try:
        metadata, entries = read_entries(f)
    except (ValueError, RecursionError) as e:
        raise DataError(f"is not a turbotag model, or is damaged or truncated ({e})", path) from e
    header, sums = _header(metadata.get(_KEY), path)
    with fitting(path):
        widths = header.pop(_THIN, {})
        whole = thin.whole_entries(entries, widths)
    place = {name: name for name in whole}
    if stage:
        try:
            header, place = members.stage(stage, header, whole)
        except ValueError as e:
            raise DataError(f"is not there: {e}", path) from e
    return _Head(header, sums, entries, whole, widths, place)


def _bytes(entry: Entry) -> int:
    return entry.dtype.itemsize * math.prod(entry.shape)


def _check(
    arrays: dict[str, np.ndarray], entries: Entries, sums: dict[str, Any] | None, path: str
) -> None:
    """Refuse arrays that do not match the checksums, if there are any."""
    if sums is None:
        return
    wrong = sums.keys() ^ entries.keys()
    wrong |= {name for name, array in arrays.items() if sums.get(name) != zlib.crc32(array.data)}
    if wrong:
        raise DataError(f"is damaged: array {min(wrong)!r} is not what was written", path)


def kind(path: str) -> str:
    """The kind of model that a file holds."""
    header, _ = load_file(path, None, ("",))
    return str(header["kind"])


def stages(path: str) -> list[str]:
    """The names of the models in the file of a pipeline; an empty list for a file of one model."""
    header, _ = load_file(path, None, ("",))
    return [stage["name"] for stage in header["stages"]] if header["kind"] == members.KIND else []


def size(path: str) -> int:
    """The bytes of a file; for a stage, the bytes of its arrays, with those that it shares."""
    file, stage = members.split(path)
    with Steady(file) as f:
        head = _read_head(f, path, stage)
    if not stage:
        return Path(file).stat().st_size
    return sum(_bytes(head.entries[name]) for name in head.stored(head.place))


def _header(text: Any, path: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The header, and the checksums of the arrays, None in version 1."""
    if not isinstance(text, str):
        raise DataError("is a safetensors file, but not a turbotag model", path)
    try:
        header = read_json(text)
        _json(header)  # a lone surrogate cannot be encoded
        version, found = header["format_version"], header["kind"]
        if type(version) is not int or version < 1 or not isinstance(found, str):
            raise ValueError
        sums = _take_checksums(header) if 2 <= version <= FORMAT_VERSION else None
    except (ValueError, LookupError, TypeError, RecursionError):
        raise DataError("has a damaged header", path) from None
    if version > FORMAT_VERSION:
        raise DataError(
            f"has format version {version}, this program reads up to {FORMAT_VERSION}: "
            "a newer turbotag is needed",
            path,
        )
    return header, sums


def _take_checksums(header: dict[str, Any]) -> dict[str, Any]:
    """Take the checksums of the arrays out of a header; ValueError if the checksum of the header
    itself is wrong."""
    sums = header.pop(_SUMS)
    if sums["header"] != zlib.crc32(_json(header)):
        raise ValueError
    return dict(sums["arrays"])
