"""Copies of large state files on the disk of the process that folds: Arrow, sorted by hash, mapped into memory.

A micro-batch of random keys decodes a group of rows of Parquet for each key. In a copy it finds a key by its hash, and
takes its row. A read that lacks hundreds of groups asks for copies of their files; one thread makes them, one at a time.

Law: a read gives the same rows with a copy and without. A copy is complete, and is that of one file and of one state
table's columns: its name says which, and has a checksum of its content. It may vanish at any time; then Parquet is read.
All copies in a folder have a stated number of bytes at most, and leave a part of the disk free.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import structlog

from headrace.engine.state_layout import TIME
from headrace.engine.state_needs import NeededPart, SortedHashes, needed_places
from headrace.fold.contract import HASH
from headrace.lake.state_limits import state_limits

logger = structlog.get_logger(__name__)
# A table with times has two more columns: the places of the rows in the order of their times, and those times.
BY_TIME, IN_ORDER = ("__by_time", "__in_order")
SUFFIX, TEMPORARY, LOCK = ".arrow", "making.tmp", "making.lock"
FREE_BYTES_MIN = 1 << 30  # of the disk; a copy never takes them
OPEN_MAX = 512  # copies that one process has mapped
IN_USE_SECONDS, NOTED_SECONDS = 600.0, 60.0  # a copy makes room only if no process has used it for so long
UNUSED_SECONDS = 3_600.0  # then a copy leaves: the file that it copies may have been replaced, or erased
TRY_AGAIN_SECONDS = 60.0  # after a copy did not fit, or failed: then no other one is tried, either
CHECKED_BYTES = 1 << 20  # at a time


@dataclass(frozen=True)
class CopiedFile:
    """The file that a copy is of.

    uri, size  of the Parquet file
    table      the name of the state table
    schema     of its rows, as `StateTable.empty` has them
    """

    uri: str
    size: int
    table: str
    schema: pa.Schema

    @property
    def name(self) -> str:
        """The copy's name but for the checksum: which Delta table, which file of it, and which columns."""
        columns = f"{self.size}\n{self.table}\n{self.schema.to_string(truncate_metadata=False)}"
        folder = self.uri.rpartition("/")[0]
        return f"{_digest(folder)}-{_digest(self.uri)}-{_digest(columns)}"


class Copy:
    """A copy that is mapped into memory."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        """Map the file.

        Raises: OSError; pa.ArrowException
        """
        self.path, self.bytes = path, path.stat().st_size
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
        self._rows = table.select(schema.names)
        if not self._rows.schema.equals(schema):
            raise pa.ArrowInvalid("another schema")
        numbers = {
            name: table[name].to_numpy() for name in (TIME, BY_TIME, IN_ORDER) if name in table.column_names
        }
        self._sorted = SortedHashes(
            table[HASH].to_numpy(), numbers.get(TIME), numbers.get(BY_TIME), numbers.get(IN_ORDER)
        )
        self.noted_at = 0.0

    def needed(self, parts: Sequence[NeededPart]) -> pa.Table:
        """The rows that are needed; they share no memory with the copy."""
        return self._rows.take(pa.array(needed_places(parts, self._sorted)))


def copied(rows: pa.Table, times: np.ndarray | None) -> pa.Table:
    """The rows of a state file as its copy has them. In: times  TIME of each row; None: the table has no time column."""
    hashes = rows[HASH].to_numpy()
    if (hashes[1:] < hashes[:-1]).any():
        order = np.argsort(hashes, kind="stable")
        rows, times = rows.take(pa.array(order)), None if times is None else times[order]
    if times is not None:
        by_time = np.argsort(times, kind="stable")
        rows = rows.append_column(TIME, pa.array(times))
        rows = rows.append_column(BY_TIME, pa.array(by_time.astype(np.int32)))
        rows = rows.append_column(IN_ORDER, pa.array(times[by_time]))
    return rows.combine_chunks()


class StateCopies:
    """The copies in one folder, as one process uses them. Other processes of the machine may use the same folder."""

    def __init__(self, folder: Path, bytes_max: int, free_bytes_min: int = FREE_BYTES_MIN) -> None:
        """Nothing is opened yet. In: bytes_max  of all copies; 0: there are none."""
        self._folder, self._bytes_max, self._free_bytes_min = folder, bytes_max, free_bytes_min
        self._open: OrderedDict[CopiedFile, Copy] = OrderedDict()
        self._wanted: OrderedDict[CopiedFile, Callable[[], pa.Table]] = OrderedDict()
        self._rests_until = 0.0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def bytes(self) -> int:
        """The size of all copies in the folder."""
        return sum(size for _, size, _ in self._files())

    @property
    def mapped_bytes(self) -> int:
        """The size of the copies that this process has open."""
        with self._lock:
            return sum(copy.bytes for copy in self._open.values())

    def find(self, file: CopiedFile) -> Copy | None:
        """The copy of a file; None: there is none that this process has opened."""
        with self._lock:
            copy = self._open.get(file)
            if copy is None:
                return None
            self._open.move_to_end(file)
        now = time.monotonic()
        if now - copy.noted_at > NOTED_SECONDS:
            copy.noted_at = now
            try:
                os.utime(copy.path)
            except OSError:  # it has vanished
                self._close(file)
                return None
        return copy

    def want(self, file: CopiedFile, rows: Callable[[], pa.Table]) -> None:
        """Ask for a copy; a thread opens or makes it. In: rows  reads those of the file (see `copied`)."""
        if not self._bytes_max:
            return
        with self._lock:
            if file in self._open or time.monotonic() < self._rests_until:
                return
            self._wanted.setdefault(file, rows)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name="state copies", daemon=True)
                self._thread.start()

    def keep(self, folder: str, files: Collection[str]) -> None:
        """Delete the copies of files that a Delta table no longer names. In: folder  its URI; `files`: what it names."""
        kept = {_digest(f"{folder}/{name}") for name in files}
        for path, _, _ in self._files():
            of, name, *_ = path.name.split("-")
            if of == _digest(folder) and name not in kept:
                path.unlink(missing_ok=True)
        self._sweep()

    def wait(self) -> None:
        """Wait until all that was asked for is made, or has failed."""
        while (thread := self._thread) is not None and thread.is_alive():
            thread.join()

    def forget(self) -> None:
        """Close all copies, and ask for none, as in a process that has just begun. The files stay."""
        with self._lock:
            self._wanted.clear()
        self.wait()
        with self._lock:
            self._open.clear()
            self._rests_until = 0.0

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._wanted:
                    self._thread = None
                    return
                file, rows = self._wanted.popitem(last=False)
            began = time.monotonic()
            try:
                self._require_own_folder()
                copy = self._whole(file) or self._made(file, rows)
            except (OSError, pa.ArrowException, ValueError) as error:
                logger.warning("no local copy of a state file, will be tried again", error=str(error))
                copy = None
            with self._lock:
                if copy is None:
                    self._rests_until = time.monotonic() + TRY_AGAIN_SECONDS
                    self._wanted.clear()
                else:
                    self._open[file] = copy
                    while len(self._open) > OPEN_MAX:
                        self._open.popitem(last=False)
            time.sleep(min(1.0, time.monotonic() - began))  # micro-batches come first

    def _whole(self, file: CopiedFile) -> Copy | None:
        """A copy that another process has made, or this one before it forgot it; one that is not whole is deleted."""
        for path in self._folder.glob(f"{file.name}-*{SUFFIX}"):
            try:
                if _checksum(path) == path.stem.rpartition("-")[2]:
                    os.utime(path)
                    return Copy(path, file.schema)
            except (OSError, pa.ArrowException):
                pass
            path.unlink(missing_ok=True)
        return None

    def _made(self, file: CopiedFile, read: Callable[[], pa.Table]) -> Copy | None:
        """A new copy; None: it does not fit."""
        with self._alone():
            copy = self._whole(file)  # another process may have made it meanwhile
            if copy is not None:
                return copy
            self._sweep()
            if not self._has_room(file.size):  # a copy has more bytes: only where it may fit, rows are read
                return None
            rows = read()
            if not self._has_room(rows.nbytes):
                return None
            temporary = self._folder / TEMPORARY
            try:
                checksum = _write(temporary, rows)
                path = self._folder / f"{file.name}-{checksum}{SUFFIX}"
                temporary.rename(path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        return Copy(path, file.schema)

    def _require_own_folder(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = self._folder.stat()
        if status.st_uid != os.getuid() or status.st_mode & 0o022:
            raise PermissionError(f"'{self._folder}' is not this user's alone.")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process of the machine makes a copy at a time; the lock ends with the process that has it."""
        with (self._folder / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _has_room(self, size: int) -> bool:
        """Delete the copies that were used longest ago until one of so many bytes fits; False if it does not."""
        if shutil.disk_usage(self._folder).free - size < self._free_bytes_min:
            return False
        known = sorted(self._files(), key=lambda file: file[2])
        total = sum(each for _, each, _ in known)
        for path, each, used_at in known:
            if total + size <= self._bytes_max:
                break
            if time.time() - used_at < IN_USE_SECONDS:
                return False
            path.unlink(missing_ok=True)
            total -= each
        return total + size <= self._bytes_max

    def _sweep(self) -> None:
        for path, _, used_at in self._files():
            if time.time() - used_at > UNUSED_SECONDS:
                path.unlink(missing_ok=True)
        self._close_vanished()

    def _close_vanished(self) -> None:
        """A deleted file takes its place on the disk as long as a process has mapped it."""
        with self._lock:
            for file in [file for file, copy in self._open.items() if not copy.path.exists()]:
                del self._open[file]

    def _files(self) -> list[tuple[Path, int, float]]:
        """The copies in the folder: size, and when each was used last."""
        files = []
        with suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name.endswith(SUFFIX):
                    with suppress(FileNotFoundError):
                        status = entry.stat()
                        files.append((Path(entry.path), status.st_size, status.st_mtime))
        return files

    def _close(self, file: CopiedFile) -> None:
        with self._lock:
            self._open.pop(file, None)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:20]


class _Summed:
    """A file that knows the checksum of what is written to it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self.checksum, self.closed = 0, False

    def write(self, data: Any) -> int:
        self.checksum = zlib.crc32(data, self.checksum)
        self._file.write(data)
        return len(data)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self.closed = True
        self._file.close()


def _write(path: Path, rows: pa.Table) -> str:
    """Write a copy; its checksum."""
    sink = _Summed(path)
    try:
        with pa.PythonFile(sink, mode="w") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
    finally:
        sink.close()
    return f"{sink.checksum:08x}"


def _checksum(path: Path) -> str:
    checksum = 0
    with path.open("rb") as file:
        while data := file.read(CHECKED_BYTES):
            checksum = zlib.crc32(data, checksum)
    return f"{checksum:08x}"


def _of_this_process() -> StateCopies:
    limits = state_limits()
    return StateCopies(Path(limits.copies_folder), limits.copies_bytes)


COPIES = _of_this_process()
