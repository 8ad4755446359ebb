"""A table with a long life: what `lake/` would leave of it after many more commits, written down at once.

Making 600,000 commits takes hours; what they leave is little. So `grow` follows a table in memory, commit by commit, by the
rules of `headrace.writing.table_upkeep`: each commit appends a file of one row; once there are more than 400 files, those
that are worth it are put into one; every 20 commits there is a checkpoint, every 250 a clean-up. Then it writes what is left
of that life, in the place of the table's own history:

- the live files, with their rows;
- the commits that clean-up keeps, each with what it added and removed;
- the checkpoints that clean-up keeps. The newest has the live files and the tombstones of its moment; the others are copies
  of it, for nobody reads them;
- no file that only older versions name: no reader of the newest version looks at one.

`per_second` says how fast commits came. It decides how many tombstones and commits are still young enough to be kept.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.lake import DataFileWriter, Encoding, LakeTable, NewFile, small_files
from headrace.lake.care import upkeep
from headrace.lake.files.data_file import time_text
from headrace.lake.kinds import COMMITS_MAX
from headrace.lake.table import CHECKPOINT_EVERY
from headrace.writing import table_upkeep

WRITER = "bench"
A_SECOND = 2.0  # commits of a stream to one table
SCHEMA = pa.schema(
    [("ingested_at", pa.timestamp("us", "UTC")), ("n", pa.int64()), ("text", pa.string())]
)  # of a table whose life is measured
SECONDS = {"seconds": 1, "minutes": 60, "hours": 3600}


@dataclass(frozen=True)
class Shape:
    """What a table consists of beside its rows.

    tombstones   in the newest checkpoint
    commits      commit files; `checkpoints` likewise
    stored_bytes of `_delta_log`
    """

    version: int
    rows: int
    files: int
    tombstones: int
    commits: int
    checkpoints: int
    stored_bytes: int

    def __str__(self) -> str:
        """In one line."""
        return (
            f"version {self.version:,}: {self.rows:,} rows in {self.files:,} live files, {self.tombstones:,} tombstones, "
            f"{self.commits:,} commit files, {self.checkpoints:,} checkpoints, {self.stored_bytes / 2**20:.1f} MiB of log"
        )


def shape_of(table: LakeTable) -> Shape:
    """Look at a table on a local disk."""
    folder = Path(table.uri.removeprefix("file:")) / "_delta_log"
    snapshot, names = table.snapshot(), [file.name for file in folder.iterdir()]
    checkpoints = sorted(name for name in names if name.endswith(".checkpoint.parquet"))
    tombstones = 0
    if checkpoints:
        removed = pq.read_table(folder / checkpoints[-1], columns=["remove"])["remove"]
        tombstones = removed.length() - removed.null_count
    return Shape(
        snapshot.version,
        snapshot.rows,
        len(snapshot.files),
        tombstones,
        sum(bool(re.fullmatch(r"\d{20}\.json", name)) for name in names),
        len(checkpoints),
        small_files.usage(f"{table.uri}/_delta_log")[1],
    )


def rows_from(first: int, rows: int) -> pa.Table:
    """Rows whose numbers follow one another, as far apart in time as commits of a stream."""
    numbers = range(first, first + rows)
    times = pa.array([_us(number) for number in numbers], pa.timestamp("us", "UTC"))
    return pa.table([times, [*numbers], ["some text"] * rows], schema=SCHEMA)


def write_rows(uri: str, first: int, rows: int) -> NewFile:
    """A file of such rows in a table's folder."""
    writer, written = DataFileWriter(uri, SCHEMA, Encoding()), rows_from(first, rows)
    for at in range(0, rows, upkeep.GROUP_ROWS):
        part = written.slice(at, upkeep.GROUP_ROWS)
        columns = dict(zip(part.column_names, part.columns, strict=True))
        writer.write(columns, part.num_rows)
        writer.bound_numbers(columns)
    return NewFile(**(writer.close() or {}))


@dataclass
class _Life:
    """A table as it is followed in memory.

    live        the rows of each live file: the first number, and how many
    tombstones  the files that were removed, and when (ms since 1970), the oldest first
    actions     of the last commits
    """

    version: int
    next_row: int
    live: dict[str, tuple[int, int]]
    young: int  # files that are not put into one yet
    tombstones: deque[tuple[str, int]] = field(default_factory=deque)
    actions: deque[tuple[int, int, list[str], list[str]]] = field(default_factory=deque)

    def commit(self, at_ms: int, added: Mapping[str, tuple[int, int]], removed: list[str]) -> None:
        self.version += 1
        for name in removed:
            del self.live[name]
            self.tombstones.append((name, at_ms))
        self.live |= added
        self.actions.append((self.version, at_ms, [*added], removed))

    def append(self, at_ms: int) -> None:
        self.commit(at_ms, {_name(): (self.next_row, 1)}, [])
        self.next_row += 1

    def pack(self, at_ms: int) -> None:
        known = [*self.live.items()][: len(self.live) - self.young]
        chosen = upkeep.not_outweighed({name: rows for name, (_, rows) in known})
        if len(chosen) > 1:
            first = min(self.live[name][0] for name in chosen)
            rows = sum(self.live[name][1] for name in chosen)
            self.commit(at_ms, {_name(): (first, rows)}, chosen)


def grow(table: LakeTable, through: int, per_second: float) -> LakeTable:
    """Let a table that `lake/` wrote grow old, to a version. It lies on a local disk, and nobody else uses it.

    Out: the table, opened anew
    """
    from headrace import lake

    settings: Mapping[str, str] = table.metadata.configuration
    snapshot, now_ms = table.snapshot(), time.time_ns() // 1_000_000
    is_log = settings.get("delta.appendOnly") == "true"
    young = round(table_upkeep.PACKED_AFTER_MS / 1000 * A_SECOND) if is_log else 0
    life = _Life(snapshot.version, snapshot.rows, _placed(table), young)
    kept_ms = 1000 * seconds(settings["delta.logRetentionDuration"])
    commits_max = int(min(kept_ms / 1000 * per_second, float(settings.get(COMMITS_MAX, "inf"))))
    tombstones_ms = 1000 * seconds(settings["delta.deletedFileRetentionDuration"])
    while life.version < through:
        at_ms = now_ms - round((through - life.version) * 1000 / per_second)
        life.append(at_ms)
        if len(life.live) > table_upkeep.FILES_MAX and life.version < through:
            life.pack(at_ms)
        while life.tombstones and life.tombstones[0][1] < now_ms - tombstones_ms:
            life.tombstones.popleft()
        while len(life.actions) > commits_max + upkeep.CLEAN_EVERY:
            life.actions.popleft()
    _write(table, life)
    lake.forget(table.uri)
    return lake.open_table(table.uri)


def _placed(table: LakeTable) -> dict[str, tuple[int, int]]:
    """The rows of the live files that `lake/` has written, one after the other."""
    files = sorted(table.snapshot().files.items(), key=lambda each: int(each[1].lowest["n"]))
    return {name: (int(file.lowest["n"]), file.rows or 0) for name, file in files}


def _write(table: LakeTable, life: _Life) -> None:
    folder = Path(table.uri.removeprefix("file:"))
    log = folder / "_delta_log"
    known = sorted(log.glob("*.checkpoint.parquet"))[-1]
    heads = [row for row in pq.read_table(known).to_pylist() if row["protocol"] or row["metaData"]]
    schema = pq.read_schema(known)
    there = {file.name for file in folder.glob("*.parquet")}
    files = {name: _stored(table, name, rows, exists=name in there) for name, rows in life.live.items()}
    for file in [*log.iterdir()]:
        file.unlink()
    for name in there - {file.path for file in files.values()}:
        (folder / name).unlink()
    begin = life.version - life.version % CHECKPOINT_EVERY
    for version, at_ms, added, removed in life.actions:
        lines = [_info(version, at_ms), *(_removed(name, at_ms) for name in removed)]
        added_files = (files.get(name, NewFile(name, 1000, '{"numRecords": 1}')) for name in added)
        lines += [{"add": _added(file, at_ms, changes_data=not removed)} for file in added_files]
        (log / f"{version:020d}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    later = [(added, removed) for version, _, added, removed in life.actions if version > begin]
    come, gone = {n for added, _ in later for n in added}, [n for _, removed in later for n in removed]
    assert not gone, "a pack after the newest checkpoint: choose another last version"
    now_ms = time.time_ns() // 1_000_000
    rows = heads + [{"add": _added(file, now_ms)} for name, file in files.items() if name not in come]
    rows += [_removed(name, at_ms) for name, at_ms in life.tombstones]
    checkpoint = log / f"{begin:020d}.checkpoint.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema), checkpoint, compression="NONE")
    last = {"version": begin, "size": len(rows), "sizeInBytes": checkpoint.stat().st_size}
    (log / "_last_checkpoint").write_text(json.dumps(last))
    for version, *_ in life.actions:
        if version % CHECKPOINT_EVERY == 0 and version < begin:
            shutil.copyfile(checkpoint, log / f"{version:020d}.checkpoint.parquet")


def _stored(table: LakeTable, name: str, rows: tuple[int, int], *, exists: bool) -> NewFile:
    """A live file with its rows; those that `lake/` wrote are there."""
    if exists:
        known = table.snapshot().files[name]
        return NewFile(name, known.size, _stats(rows))
    return replace(write_rows(table.uri, *rows), stats=_stats(rows))


def _stats(rows: tuple[int, int]) -> str:
    first, last = rows[0], rows[0] + rows[1] - 1
    times = [time_text(_us(n), "UTC") for n in (first, last)]
    lowest, highest = ({"ingested_at": at, "n": n} for at, n in zip(times, (first, last), strict=True))
    nothing = {"ingested_at": 0, "n": 0}
    return json.dumps(
        {"numRecords": rows[1], "minValues": lowest, "maxValues": highest, "nullCount": nothing}
    )


def _added(file: NewFile, at_ms: int, *, changes_data: bool = True) -> dict[str, Any]:
    return {
        "path": file.path,
        "partitionValues": {},
        "size": file.size,
        "modificationTime": at_ms,
        "dataChange": changes_data,
        "stats": file.stats,
    }


def _removed(name: str, at_ms: int) -> dict[str, Any]:
    removed = {"path": name, "deletionTimestamp": at_ms, "dataChange": False, "extendedFileMetadata": True}
    return {"remove": {**removed, "partitionValues": {}, "size": 1000}}


def _info(version: int, at_ms: int) -> dict[str, Any]:
    fence = {"role": "appender", "epoch": 1, "token": uuid4().hex, "epochs": {"appender": 1}}
    record = {"writer": WRITER, "next": version, "fence": fence}
    info = {"timestamp": at_ms, "operation": "WRITE", "operationParameters": {"mode": "Append"}}
    return {"commitInfo": {**info, "userMetadata": json.dumps(record)}}


def _us(number: int) -> int:
    return round(number * 1_000_000 / A_SECOND)


def _name() -> str:
    return f"part-00000-{uuid4()}-c000.snappy.parquet"


def seconds(interval: str) -> float:
    """An interval as Delta's properties have it."""
    _, number, unit = interval.split()
    return float(number) * SECONDS[unit]
