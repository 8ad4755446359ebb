"""A log, sequenced anew by another description of its topic, from the bytes that its rows keep or from Kafka's records.

Law: record by record, and commit by commit at the same commit times, the rows are those that the sequencer would have
written had the topic been described so from the beginning. The decisions of people stay, and the times of ticks. While no
stream time has changed, a tick moves a partition as far as it did. Afterwards it moves it to the lowest stream time of the
partitions that it leaves alone or, if there are none, by as much time as it did.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.values.columns import table_of
from headrace.log.commit_row import PREFIX, CommitRow
from headrace.log.decisions.resets import ACTION as RESET
from headrace.log.record_task import UNPACKED_BYTES_MAX
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_columns import DEAD_LETTER, RECORD, TICK
from headrace.sequence.log_state import LogState
from headrace.sequence.readers.gunzip import in_pieces
from headrace.sequence.replays.chains_in_values import without_chains
from headrace.sequence.replays.exact import ExactGuard
from headrace.sequence.replays.guards import new_guard
from headrace.sequence.sequence_records import Read, Sequencer, judge

MILLI = 1_000


class Resequencer:
    """Takes the log commits of a log one after the other, from the first on."""

    def __init__(
        self, of: RecordFormat, learn: Callable[[Collection[tuple[str, int]]], RecordFormat] | None = None
    ) -> None:
        """Begin with an empty log.

        In: of     as the records are to be read now
            learn  gives the same with more schemas of registries; None: none is asked
        """
        self._sequencer, self._learn, self._compressed = Sequencer(of), learn, of.compressed
        self.schema = self._sequencer.schema
        self.state, self.guard = LogState(), new_guard(of.guard)
        self._before = LogState()

    @property
    def is_the_same(self) -> bool:
        """True while the stream times are those of the log that is read."""
        return _stream_times(self.state) == _stream_times(self._before)

    def take(
        self, rows: pa.Table, kept: Mapping[str, object], delivered: pa.Table | None = None
    ) -> Iterator[pa.Table]:
        """The rows of the next commit, its commit row among them; all have to be taken.

        In:  rows       of one log commit, of all kinds, in the columns of the log that is read, by partition and offset
             kept       what the state says of the bytes of records (see `raw_records.kept_by`)
             delivered  the same records as Kafka delivers them, as `RECORDS`; None: the rows have their bytes
        Out: tables of neighbours; in none are compressed records that hold more than `UNPACKED_BYTES_MAX`, unless one
             record alone does
        """
        commit = _commit_row(rows)
        kinds = rows["kind"].to_numpy(zero_copy_only=False)
        records = np.isin(kinds, (RECORD, DEAD_LETTER))
        state = self.state
        if records.any():
            raw = _raw(rows.filter(pa.array(records))) if delivered is None else delivered
            state = yield from self._sequenced(raw, commit.after.ingested_at_ms)
        times = _stream_times(state) | self._moved_by_ticks(rows, kinds, commit)
        highest = state.highest_event_ms
        self.state = _with_times(commit.after, times, highest, kept)
        self._before = commit.after
        self._reset(rows)
        said = replace(commit, after=self.state)
        yield self._decisions(rows.filter(pa.array(~records)), said)

    def _sequenced(self, raw: pa.Table, at_ms: int) -> Generator[pa.Table, None, LogState]:
        """The rows of a commit's records; returns the state after them."""
        state, lowest_ms, before = self.state, self.state.lowest_stream_ms(), self.guard
        guard = before.unbounded() if isinstance(before, ExactGuard) else before
        for piece in in_pieces(raw, self._compressed, UNPACKED_BYTES_MAX):
            read = self._read(piece, state, at_ms)
            read, replay, guard = judge(read, guard)
            columns, ends = self._sequencer.finish(read, replay, state, at_ms, lowest_ms)
            yield table_of(self.schema, columns, len(replay))
            state = state.after(at_ms, ends)
        if isinstance(before, ExactGuard) and isinstance(guard, ExactGuard):
            guard = guard.bounded(before.gaps_max)
        self.guard = guard
        return state

    def _read(self, raw: pa.Table, state: LogState, at_ms: int) -> Read:
        """Read records, with the schemas that they name."""
        while True:
            read = self._sequencer.read(raw, state, at_ms)
            if self._learn is None or not read.decoded.asked:
                return read
            self._sequencer = Sequencer(self._learn(read.decoded.asked))

    def _moved_by_ticks(self, rows: pa.Table, kinds: np.ndarray, commit: CommitRow) -> dict[int, int]:
        """The stream times to which the ticks of a commit move partitions."""
        known, now = _stream_times(self._before), _stream_times(commit.after)
        ticked = set(rows.filter(pa.array(kinds == TICK))["partition"].to_pylist())
        moved = {p: now[p] for p in ticked if now.get(p) != known.get(p)}
        if self.is_the_same:
            return moved
        mine = _stream_times(self.state)
        others = [at for p, at in mine.items() if p not in moved]
        return {
            p: max(mine[p], min(others)) if others else mine[p] + to - known.get(p, to)
            for p, to in moved.items()
            if p in mine
        }

    def _reset(self, rows: pa.Table) -> None:
        if self.guard is None:
            return
        for text in rows["control"].drop_null().to_pylist():
            said = json.loads(text)
            if said["action"] == RESET:
                topic, partition = said["root_topic"], said["root_partition"]
                roots = {(t, p) for t, p in self.guard.roots() if t == topic and partition in (None, p)}
                self.guard = self.guard.without(roots)

    def _decisions(self, rows: pa.Table, commit_row: CommitRow) -> pa.Table:
        """Ticks and control rows, at the stream times of their partitions; the commit row says where the log stands now."""
        times = _stream_times(self.state)
        at = [times.get(p) for p in rows["partition"].to_pylist()]
        is_commit = pc.starts_with(rows["control"], PREFIX).fill_null(False)
        columns = {
            name: rows[name].combine_chunks()
            for name in ("ingested_at", "kind", "topic", "partition", "replay")
        }
        columns["stream_time"] = pa.array([None if ms is None else ms * MILLI for ms in at], pa.int64()).cast(
            self.schema.field("stream_time").type
        )
        columns["control"] = pc.if_else(is_commit, commit_row.to_json(), rows["control"]).combine_chunks()
        return table_of(self.schema, columns, rows.num_rows)


def _commit_row(rows: pa.Table) -> CommitRow:
    texts = [text for text in rows["control"].drop_null().to_pylist() if text.startswith(PREFIX)]
    return CommitRow.from_json(texts[0])


def _raw(rows: pa.Table) -> pa.Table:
    """Records as Kafka delivered them."""
    names = {"key": "raw_key", "value": "raw_value", "timestamp": "raw_timestamp"}
    found = {name: rows[names.get(name, name)] for name in ("partition", "offset", *names)}
    return pa.table({**found, "headers": without_chains(rows["headers"].combine_chunks())})


def _stream_times(state: LogState) -> dict[int, int]:
    return {p: at.stream_ms for p, at in state.partitions.items() if at.stream_ms is not None}


def _with_times(
    after: LogState, times: Mapping[int, int], highest: int | None, kept: Mapping[str, object]
) -> LogState:
    """The state of the other log after the same commit, with these stream times."""
    partitions = {p: replace(at, stream_ms=times.get(p)) for p, at in after.partitions.items()}
    return replace(after, partitions=partitions, highest_event_ms=highest, raw=kept)
