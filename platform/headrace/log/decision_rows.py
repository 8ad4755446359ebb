"""Rows that the sequencer writes by itself: ticks, control rows and commit rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headrace.lake.files.data_file import DataFileWriter, Encoding, NewFile
from headrace.sequence.log_columns import SKIPPING

ENCODING = Encoding(
    repeating=frozenset({"kind", "topic", "root_topic", "path"}),
    different=frozenset(
        {"offset", "timestamp", "stream_time", "clock", "cause", "root_offset", "headers.list.element.value"}
    ),
    statistics=SKIPPING,
)


@dataclass(frozen=True)
class Decision:
    """One row: the partition in which it stands, the stream time there in ms, the JSON of a control row."""

    partition: int
    stream_ms: int | None
    control: str | None = None


@dataclass(frozen=True)
class LogFolder:
    """The folder of a log's table. In: schema  of the table."""

    uri: str
    schema: pa.Schema


def write_decisions(
    log: LogFolder,
    topic: str,
    kind: str,
    at_ms: int,
    rows: Sequence[Decision],
    file: DataFileWriter | None = None,
) -> NewFile:
    """Write rows of one kind to a file in the log's folder, which no commit names yet.

    In: at_ms  the commit's `ingested_at`
        rows   one at least
        file   of the same folder, to which they are added; None: one of their own
    """
    moment, number = log.schema.field("ingested_at").type, len(rows)
    columns = {
        "ingested_at": pa.array([at_ms * 1000] * number, moment),
        "kind": pa.array([kind] * number),
        "topic": pa.array([topic] * number),
        "partition": pa.array([row.partition for row in rows], pa.int32()),
        "stream_time": pa.array([_micros(row.stream_ms) for row in rows], moment),
        "replay": pa.array([False] * number),
        "control": pa.array([row.control for row in rows], pa.string()),
    }
    return write_rows(log, kind, columns, number, file=file)


def write_rows(
    log: LogFolder,
    kind: str,
    columns: Mapping[str, pa.Array | pa.ChunkedArray],
    number: int,
    group_rows: int | None = None,
    *,
    file: DataFileWriter | None = None,
) -> NewFile:
    """Write rows of one kind, one at least, to a file in the folder of a log; columns that are not given are null.

    In: file  see `write_decisions`; it is closed
    """
    file = file or DataFileWriter(log.uri, log.schema, ENCODING)
    try:
        file.write(columns, number, group_rows)
        absent = {n: pa.nulls(number, log.schema.field(n).type) for n in SKIPPING if n not in columns}
        file.bound_numbers(absent | {name: columns[name] for name in SKIPPING if name in columns})
        file.bound_by("kind", kind, kind)
        report = file.close()
    except BaseException:
        file.remove()
        raise
    assert report is not None
    return NewFile(**report)


def _micros(ms: int | None) -> int | None:
    return None if ms is None else ms * 1000
