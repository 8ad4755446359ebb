"""The log of a node: its final rows as records, for other nodes to read. It has one partition.

Law (L32): the log follows from the node's table and from the logs of its topics alone, however these were cut.
- A row is a record of the log commit that made it final. Within a commit rows stand by their place (see `sink_rows`).
- A row has the clock of what caused it: that of a record, or a deadline (see `RowClock`); if commits decide when it leaves,
  the log's clock before. After the records of each log commit stands a tick with the clock after it: the node's lowest time
  L (L3), by clocks if the node goes by them.
- Stream time is the clock, less how long the node waits, or has waited under a longer limit that was set; of a node that
  goes by clocks, less how far the logs of its topics are behind their clocks. No row is below the tick before its commit.
- A control row says where the log becomes idle: all driving topics are, and L has reached their highest event time and how
  long the node waits; of a node that goes by clocks their highest clock, too. Another one says where this is over, though
  no row may have left yet.
- Readers that go by clocks take clocks in place of stream times. Their logs are as far behind as this one. A control row
  says from which commit on that is further than the description says: a longer limit was set.
- A row has the place of what caused it, which does not depend on commits as its offset does (see `causes`).
- Before the table of a node is complete that has to be so first, there is no stream time.
- By the wall clock a record has the time at which it left for event time, and a commit its own time for stream time.
- Of the changes of a table, a row without a value is a tombstone.
- Limits that people set in the logs of its topics are set in it, too, at the same commit: so they reach the readers.

It is written after the state of a micro-batch, from what the tables hold then. So a crash leaves it behind, never ahead,
and the next process makes up for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace import lake as lakes
from headrace.description import NodeOutput, output_name
from headrace.description.clocks import WALL
from headrace.description.source_chain import SOURCE_CHAIN
from headrace.description.table_changes import KEY_DELETED
from headrace.engine.state_parquet import open_parquet
from headrace.errors import TerminalError
from headrace.fold.aggregates.kind import whole
from headrace.fold.aggregates.nested import fields_of, structs_of
from headrace.fold.contract import CAUSE
from headrace.fold.records import CHAIN, ELEMENT
from headrace.fold.segments import NO_TIME
from headrace.fold.values.columns import MOMENT, fitted, int64, moments
from headrace.fold.values.json_size import json_size
from headrace.lake import kinds
from headrace.lake.care.alter import rewritable
from headrace.lake.files.data_file import NewFile
from headrace.log.decision_rows import LogFolder, write_rows
from headrace.log.decisions.promise import read_promise, write_promise
from headrace.nodes.balances.older_rows import made_of
from headrace.nodes.balances.opening import read_opening
from headrace.nodes.standing.reader_commits import LogCommits, commits_of_topics, limits_of
from headrace.operators.contract import SEQUENCE, TIMESTAMP
from headrace.operators.registry import operator_for
from headrace.operators.stream_joins.fold.result_rows import PARTNER_CAUSE
from headrace.sequence.log_columns import CONTROL, RECORD, SKIPPING, TICK, log_schema
from headrace.sequence.replays.hops import closed_chains
from headrace.spark.one_task import arrow_schema
from headrace.writing.node_logs.causes import clocks_of, places_of
from headrace.writing.node_logs.log_commits import longest_waits
from headrace.writing.node_logs.node_log_cut import cut_part
from headrace.writing.node_logs.node_log_times import (
    LogTimes,
    Reached,
    behind_changes,
    behind_clock,
    closings,
    idle_after,
    idle_changes,
    is_over,
    node_times,
    times_after,
    wall_end_ms,
)

if TYPE_CHECKING:
    from headrace.description import Node
    from headrace.lake import LakeTable
    from headrace.lake.paths import Lake
    from headrace.nodes.progress import Progress

GROUP_ROWS = 50_000


def node_log(lake: Lake, node: Node, *, is_read: bool) -> NodeLog | None:
    """The log of a node that others read, or once did; None: nobody has."""
    return NodeLog(lake, node) if is_read or lakes.exists(lake.log(output_name(node))) else None


def rewrite_node_log(lake: Lake, node: Node) -> bool:
    """Write the log of a node anew, once its tables were computed anew; nothing may write meanwhile.

    Out: False: nobody reads the node
    """
    log = node_log(lake, node, is_read=False)
    if log is not None:
        log.rewrite()
    return log is not None


def log_reached_ms(lake: Lake, node: Node) -> int | None:
    """The commit time through which the rows of a node are in its log; None: it has no log."""
    uri = lake.log(output_name(node))
    return _reached(lakes.open_table(uri), NodeOutput.of(node)).ingested_at_ms if lakes.exists(uri) else None


class NodeLog:
    """Writes the log of one node. Exactly one may be open for a node; the caller holds the lease."""

    def __init__(self, lake: Lake, node: Node) -> None:
        """Open the log, creating it if need be.

        Raises: TerminalError when rows of the node's logs were cut off before others began to read it
        """
        self._lake, self._node, self._operator = lake, node, operator_for(node)
        self.topic = NodeOutput.of(node)
        self._uri = lake.log(self.topic.name)
        self._schema = arrow_schema(log_schema(self.topic))
        is_new = not lakes.exists(self._uri)
        if is_new and not read_opening(lake, node).is_at_the_beginning:
            raise TerminalError(
                f"Node '{node.required_name}': rows of its logs were cut off, so what it gave then is not known.",
                hint="Let other nodes read a new node, under another name, that does the same.",
            )
        table = lakes.create(self._uri, self._schema, kinds.log(SKIPPING), grows="value")
        self._writer = lakes.TableWriter(table, lakes.APPENDER, carries=[self._name])
        self.reached = _reached(table, self.topic)
        self._promised_ms = read_promise(self._uri)

    @property
    def _name(self) -> str:
        return f"log/{self.topic.name}"

    def follow(self, progress: Progress) -> bool:
        """Append what the node has given through its progress; False if there is nothing new."""
        upto_ms = min((progress.upto_ms.get(topic.name, 0) for topic in self._node.topics), default=0)
        if upto_ms <= self.reached.ingested_at_ms:
            return False
        files, after = self._files_of(self.reached, upto_ms)
        self._writer.append(files, self._record(after))
        self.reached = after
        return True

    def rewrite(self) -> None:
        """Tell all of it again, in place of what was told, as the tables have it now."""
        table, through_ms = lakes.open_table(self._uri), self.reached.ingested_at_ms
        older, before = self._until_cut()
        files, after = self._files_of(before, through_ms)
        files = [*older, *files]
        signed = {"writer": f"anew/{self._name}", **lakes.carried(table, [self._name])}
        maintainer = lakes.TableWriter(table, lakes.MAINTAINER, carries=[self._name], mends=True)
        with rewritable(maintainer, signed):
            maintainer.replace(table.snapshot().files, files, self._record(after), changes_data=True)
        self.reached = after

    def _until_cut(self) -> tuple[list[NewFile], Reached]:
        """Files with the part that the node's topics no longer lead to, and where the log stands after it."""
        part = cut_part(self._lake, self._node, self.reached)
        if part is None:
            return [], Reached()
        rows = self._rows(0, part.reached.ingested_at_ms)
        made = (
            self._records(rows, Reached(), part.times),
            self._ticks(part.times),
            self._controls(part.entries, part.times),
        )
        return [file for file in made if file], replace(part.reached, next_offset=rows.num_rows)

    def _record(self, reached: Reached) -> dict[str, Any]:
        return {"writer": self._name, "ingested_at_ms": reached.ingested_at_ms, "reached": reached.to_json()}

    def _files_of(self, before: Reached, upto_ms: int) -> tuple[list[NewFile], Reached]:
        """Files with what the node has given through a commit time, and where its log stands then."""
        read = commits_of_topics(self._lake, self._node, before.ingested_at_ms, upto_ms)
        times = node_times(self._node, before, read)
        complete_ms = self._completed(before, read)
        commits = closings(self._node, times, complete_ms)
        rows = self._rows(before.ingested_at_ms, upto_ms)
        limits = limits_of(read)
        waits_ms = longest_waits(self._node, before.waits_ms, [ms for ms, _ in commits], limits)
        behind_ms = behind_clock(self._node, times, waits_ms)
        moved = times_after(before, commits, self._operator.waits.lag_ms, behind_ms)
        idle = idle_after(self._node, times, commits, waits_ms)
        changes = [
            *idle_changes(moved.at_ms, before.is_idle, idle),
            *behind_changes(self._node, before, moved.at_ms, behind_ms),
        ]
        made = (
            self._records(rows, before, moved),
            self._ticks(moved),
            self._controls(sorted([*limits, *changes]), moved),
        )
        longest_ms = max(waits_ms, default=0)
        after = Reached(
            upto_ms,
            before.next_offset + rows.num_rows,
            *moved.last_ms,
            times[-1][1] if times else before.reader,
            idle[-1] if idle else before.is_idle,
            longest_ms if longest_ms > self._node.longest_wait_ms else before.waits_ms,
            complete_ms,
        )
        return [file for file in made if file is not None], after

    def _completed(self, before: Reached, read: Mapping[str, LogCommits]) -> dict[str, int]:
        """The commits with which topics became complete that the node waits for."""
        found = {name: read[name].complete_ms for name in self._operator.waits.complete}
        return {name: ms for name, ms in {**found, **before.complete_ms}.items() if ms is not None}

    @property
    def has_waited(self) -> bool:
        """Whether nothing that the node has read waits for the wall clock any more, at the last commit in the log."""
        last_ms = self.reached.reader.last_record_ms(self._operator.driving)
        return is_over(wall_end_ms(self._node, last_ms, self.reached.waits_ms), self.reached.clock_ms)

    def promise(self, through_ms: int) -> None:
        """Promise that no later row will lie at or before a commit time, if that is news (see `log.decisions.promise`)."""
        if through_ms > max(self._promised_ms, self.reached.ingested_at_ms):
            write_promise(self._uri, through_ms)
            self._promised_ms = through_ms

    def _rows(self, after_ms: int, upto_ms: int) -> pa.Table:
        """The rows of the node's table that became final, in their order."""
        table = lakes.open_table(self._lake.table(self._node.required_name))
        parts = [self._wanted.empty_table()]
        for name, file in table.snapshot().within(SEQUENCE, after_ms + 1, upto_ms).items():
            with open_parquet(f"{table.uri}/{name}", file.size, None) as parquet:
                found = parquet.read(columns=self._wanted.names)
            parts.append(made_of(self._node, fitted(found, self._wanted)))
        rows = pa.concat_tables(parts).combine_chunks()
        sequence = int64(rows[SEQUENCE])
        rows = rows.filter(pa.array((sequence > after_ms) & (sequence <= upto_ms)))
        order = [SEQUENCE, *(name for name in self._operator.order if name in rows.column_names)]
        return rows.sort_by([(name, "ascending") for name in order])

    @cached_property
    def _wanted(self) -> pa.Schema:
        """The columns of the node's table that are needed."""
        schema = lakes.open_table(self._lake.table(self._node.required_name)).columns
        own = (*self._operator.order, *self._operator.cause, CAUSE, PARTNER_CAUSE, CHAIN)
        internal = [name for name in own if name in schema.names]
        clock = self._operator.clock
        times = [] if clock is None else [clock.column]
        names = dict.fromkeys([*self._node.columns, *internal, *times, SEQUENCE, TIMESTAMP])
        return pa.schema([schema.field(name) for name in names])

    def _records(self, rows: pa.Table, before: Reached, times: LogTimes) -> NewFile | None:
        if not rows.num_rows:
            return None
        commit = int64(rows[SEQUENCE])
        number, values = rows.num_rows, self._struct(rows, "value")
        clock = clocks_of(rows, self._operator.clock, times.before(commit, times.clock))
        columns = self._shared(number) | {
            "ingested_at": moments(commit),
            "offset": pa.array(np.arange(before.next_offset, before.next_offset + number), pa.int64()),
            "timestamp": self._event_times(rows),
            "stream_time": moments(times.of_rows(commit, clock), NO_TIME),
            "clock": moments(clock, NO_TIME),
            "cause": places_of(rows, self._operator.cause),
            "tombstone": self._tombstones(rows),
            "size_bytes": pa.array(json_size(fields_of(values)), pa.int32()),
            "value": values,
        }
        if CHAIN in rows.column_names:
            columns["headers"] = self._headers(rows)
        if self.topic.key_columns:
            columns["key"] = self._struct(rows, "key")
        return self._written(RECORD, columns, number)

    def _tombstones(self, rows: pa.Table) -> pa.Array:
        """Which rows say that a key is gone: of the changes of a table alone."""
        if self._node.tells_changes:
            return whole(rows[KEY_DELETED])
        return pa.repeat(pa.scalar(False), rows.num_rows)

    def _headers(self, rows: pa.Table) -> pa.Array:
        """The source chains of the rows, which go on, as their only headers."""
        element = whole(rows[ELEMENT]) if ELEMENT in rows.column_names else None
        name, sequence = self._node.required_name, whole(rows[SEQUENCE])
        chains = closed_chains(whole(rows[CHAIN]), element, name, sequence)
        names = pa.repeat(pa.scalar(SOURCE_CHAIN), rows.num_rows)
        each = pa.StructArray.from_arrays([names, chains.cast(pa.binary())], ["key", "value"])
        lists = pa.ListArray.from_arrays(pa.array(np.arange(rows.num_rows + 1), pa.int32()), each)
        return lists.cast(self._schema.field("headers").type)

    def _event_times(self, rows: pa.Table) -> pa.ChunkedArray:
        if (column := self._node.time_column) is not None:
            return rows[column].cast(MOMENT)
        if self._node.clock == WALL:
            return moments(int64(rows[SEQUENCE]))
        return pc.multiply(rows[TIMESTAMP], 1_000).cast(MOMENT)

    def _ticks(self, times: LogTimes) -> NewFile | None:
        number = len(times.at_ms)
        if not number:
            return None
        columns = self._shared(number) | {
            "ingested_at": moments(times.at_ms),
            "stream_time": moments(times.stream[1:], NO_TIME),
            "clock": moments(times.clock[1:], NO_TIME),
        }
        return self._written(TICK, columns, number)

    def _controls(self, entries: Sequence[tuple[int, str]], times: LogTimes) -> NewFile | None:
        """Control rows; each has the stream time and the clock after its commit, as its tick has."""
        if not entries:
            return None
        set_ms = np.array([ms for ms, _ in entries], np.int64)
        columns = self._shared(len(entries)) | {
            "ingested_at": moments(set_ms),
            "stream_time": moments(times.after(set_ms, times.stream), NO_TIME),
            "clock": moments(times.after(set_ms, times.clock), NO_TIME),
            "control": pa.array([entry for _, entry in entries], pa.string()),
        }
        return self._written(CONTROL, columns, len(entries))

    def _shared(self, number: int) -> dict[str, pa.Array]:
        return {
            "topic": pa.repeat(pa.scalar(self.topic.name), number),
            "partition": pa.array(np.zeros(number, np.int32)),
            "replay": pa.repeat(pa.scalar(False), number),
        }

    def _struct(self, rows: pa.Table, side: str) -> pa.Array:
        of = self._schema.field(side).type
        return structs_of({each.name: whole(rows[each.name]).cast(each.type) for each in of})

    def _written(self, kind: str, columns: Mapping[str, pa.Array], number: int) -> NewFile:
        kinds = pa.repeat(pa.scalar(kind), number)
        told = {**columns, "kind": kinds}
        return write_rows(LogFolder(self._uri, self._schema), kind, told, number, GROUP_ROWS)


def _reached(table: LakeTable, topic: NodeOutput) -> Reached:
    commit = lakes.last_commit(table, f"log/{topic.name}")
    return Reached() if commit is None else Reached.from_json(commit.record["reached"])
