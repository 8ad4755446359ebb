"""The rows by which an oracle knows the commits of a log, read from as few groups of rows as tell them.

Law: `commits_of` makes of them what it makes of all rows. The commit row of a topic's log tells in which partitions the
commit has records, and the stream time of each with the last of them, beyond which no other of the commit goes. So groups
with records alone are not read. A node's log has no commit rows, and is read part by part.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description import is_of_kafka
from headrace.engine.slices.log_parts import Wanted, parts_of
from headrace.engine.slices.log_slices import PLACED, Origin
from headrace.fold.contract import FATE, INGESTED, OFFSET, PARTITION, STREAM, TOPIC
from headrace.fold.fates import TICK
from headrace.fold.values.columns import MOMENT, int64
from headrace.log.commit_row import PREFIX, CommitRow
from headrace.oracle.reader_time import BUSY, IDLE
from headrace.sequence.log_columns import CONTROL
from headrace.spark.row_steps import raw_column

if TYPE_CHECKING:
    from headrace.description import Topic
    from headrace.engine.slices.log_slices import LogSlice

NEVER = -(1 << 63)
Rows = list[dict[str, Any]]


def rows_of_commits(log: LogSlice, topic: Topic, *, clocks: bool) -> Rows:
    """For each commit, partition and fate of a topic's log the highest stream time, as a row of `commits_of`.

    In: clocks  whether the reader goes by the clocks of a node's rows
    """
    columns = {
        INGESTED: Origin(("ingested_at",), MOMENT),
        PARTITION: Origin(("partition",), pa.int32()),
        STREAM: Origin((raw_column("stream_time", topic, clocks=clocks),), MOMENT),
        "kind": Origin(("kind",), pa.string()),
        "control": Origin(("control",), pa.string()),
    }
    if not is_of_kafka(topic):
        return _highest(topic.name, (part.read(columns) for part in parts_of(log, Wanted())))
    decisions = log.decisions(columns)
    is_commit = pc.fill_null(pc.starts_with(decisions["control"], PREFIX), False)
    commits = map(CommitRow.from_json, decisions.filter(is_commit)["control"].to_pylist())
    found = _highest(topic.name, [decisions.filter(pc.invert(is_commit))])
    return found + [row for commit in commits for row in _records_of(topic.name, commit)]


def _records_of(topic: str, commit: CommitRow) -> Iterator[dict[str, Any]]:
    """The partitions that have records in a commit. A commit that a cut left has none, whatever its state says."""
    at_ms = commit.after.ingested_at_ms
    for partition, state in commit.after.partitions.items():
        if commit.records and state.record_at_ms == at_ms:
            yield _row(topic, at_ms, partition, None, 0, state.stream_ms)


def _row(
    topic: str, at_ms: int, partition: int, fate: str | None, offset: int | None, stream_ms: int | None
) -> dict[str, Any]:
    names = (TOPIC, INGESTED, PARTITION, FATE, OFFSET, STREAM)
    return dict(zip(names, (topic, at_ms, partition, fate, offset, stream_ms), strict=True))


def _highest(topic: str, parts: Iterable[pa.Table]) -> Rows:
    """An offset of 0 says that there is one."""
    runs = [_runs(rows) for rows in parts if rows.num_rows]
    if not runs:
        return []
    by = [INGESTED, PARTITION, FATE, OFFSET]
    highest = pa.concat_tables(runs).group_by(by).aggregate([(STREAM, "max")])
    columns = (highest[name].to_pylist() for name in (*by, f"{STREAM}_max"))
    return [_row(topic, *values) for values in zip(*columns, strict=True)]


def _runs(rows: pa.Table) -> pa.Table:
    """The rows of a log, those that follow one another with the same commit, partition and kind as one."""
    kinds = rows["kind"].combine_chunks().dictionary_encode()
    numbers, names = kinds.indices.to_numpy(), kinds.dictionary.to_pylist()
    at_us, partition = int64(rows[INGESTED].cast(pa.int64())), rows[PARTITION].to_numpy()
    is_control = numbers == (names.index(CONTROL) if CONTROL in names else -1)
    changes = is_control.copy()
    for values in (at_us, partition, numbers):
        changes[1:] |= values[1:] != values[:-1]
    changes[0] = True
    firsts = np.flatnonzero(changes)
    highest_us = np.maximum.reduceat(int64(rows[STREAM].cast(pa.int64()), NEVER), firsts)
    of_first = rows.select([PARTITION, "kind", "control"]).take(pa.array(firsts)).to_pylist()
    return pa.table(
        {
            INGESTED: at_us[firsts] // 1_000,
            PARTITION: partition[firsts],
            FATE: pa.array([_fate(row["kind"], row["control"]) for row in of_first], pa.string()),
            OFFSET: pa.array([0 if row["kind"] in PLACED else None for row in of_first], pa.int64()),
            STREAM: pa.array(highest_us // 1_000, mask=highest_us == NEVER),
        }
    )


def _fate(kind: str, control: str | None) -> str | None:
    """That of ticks and of rows that begin and end idleness; others do not matter here."""
    if kind == TICK:
        return TICK
    action = json.loads(control)["action"] if kind == CONTROL and control else None
    return action if action in (IDLE, BUSY) else None
