"""Batches by Arrow: what `BatchOperator.fold` does, behind the fates that Spark decides (the law: see the package)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql import types as T

from headrace.description import quote
from headrace.description.batches import BYTES, COUNT, DRAIN, WAIT
from headrace.log.columns import DRAIN as DRAINED
from headrace.operators.batches import stretches as reading
from headrace.operators.batches.place import open_state
from headrace.operators.batches.rounds import CutBatches, Limits, Opened, cut
from headrace.operators.batches.stretches import stretches
from headrace.operators.columnar import Columnar, CompletedFold, Found, Pending
from headrace.operators.columnar.fold import tallied
from headrace.operators.columnar.lists import as_lists, distinct_pairs
from headrace.operators.columnar.places import not_before
from headrace.operators.rows import KEPT
from headrace.spark.frames import Selection
from headrace.spark.one_task import CARRIED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

    from headrace.operators.batches.operator import BatchOperator
    from headrace.operators.columnar import HeldFiles
    from headrace.operators.progress import Progress

EVENT = "event:"  # before the names of collected columns
PLACE = ("__ingested_ms", "__partition", "__offset")
FOREVER = np.iinfo(np.int64).max
REASONS = (COUNT, BYTES, WAIT, DRAIN, BYTES)  # in their order: the first that is true has closed a batch


def columnar_batches(operator: BatchOperator, inputs: StructType) -> Columnar | None:
    """How the increments of a node are folded; None: Spark has to.

    In: inputs  the schema of `decide`
    """
    node = operator.node
    types = {field.name.lower(): field.dataType for field in inputs}
    of_one_topic = len(node.topics) == 1 and len(node.by) == 1
    if node.stream.transformed or not of_one_topic or not isinstance(types[node.by[0].lower()], T.StringType):
        return None
    if not all(isinstance(types[name.lower()], CARRIED) for name in node.collect):
        return None
    fold = ColumnarBatches(
        node.by[0],
        node.collect,
        node.topics[0].name,
        Limits(node.max_records, node.max_wait_ms, node.max_bytes),
        tuple(open_state(node)),
        reading.COMMITS_MAX,
    )
    columns = Selection(
        F.col(quote(node.by[0])).alias(node.by[0]),
        *(F.col(quote(name)).alias(f"{EVENT}{name}") for name in node.collect),
        *(F.col(name) for name in (*PLACE, "__size_bytes", "__event_ms", "__stream_ms")),
        F.when(F.col("__fate") != KEPT, F.col("__fate")).alias("__fate"),
    )
    return Columnar(fold, lambda logs: columns.of(operator.decide(logs)))


@dataclass(frozen=True)
class ColumnarBatches(CompletedFold):
    """Batches of one topic, grouped by one text.

    open_state   the columns of the state beside `by` and `__batch`
    commits_max  of one batch that are kept
    """

    by: str
    collect: tuple[str, ...]
    topic: str
    limits: Limits
    open_state: tuple[str, ...]
    commits_max: int

    def fold(self, rows: pa.Table, upto_ms: Mapping[str, int], held: HeldFiles, progress: Progress) -> Found:
        """See `BatchOperator.fold`."""
        after = progress.after(upto_ms, tallied(rows, [self.topic]), [self.topic])
        before_ms, frontier_ms = (each.upto_ms.get(self.topic, 0) for each in (progress, after))
        drained = rows.filter(pc.equal(rows["__fate"], DRAINED).fill_null(False))["__ingested_ms"]
        drains = np.unique(drained.to_numpy())
        kept = rows.filter(pc.is_null(rows["__fate"]))
        known = self._open(held, before_ms)
        groups, group, of_known = _groups(kept[self.by], known[self.by])
        kept, group = _in_order(kept, group)
        opened = _opened(known, of_known, len(groups))
        at_ms, size = kept["__ingested_ms"].to_numpy(), kept["__size_bytes"].to_numpy()
        batches = cut(group, at_ms, size, opened, self.limits, drains, frontier_ms)
        found = self._described(batches, kept, known, groups)
        closed = batches.closed_by >= 0
        results = self._results(found, batches, kept, closed & ~batches.held)
        pending, continued = None, closed & batches.held
        if continued.any():
            commits = known["__commits"].take(pa.array(batches.before[continued]))
            unknown = batches.opened_ms[continued][commits.is_null().to_numpy()]
            from_ms = int(unknown.min()) if len(unknown) else None
            asked = stretches(pc.list_flatten(commits).to_pylist(), from_ms, before_ms)
            pending = Pending(self._results(found, batches, kept, continued), asked)
        state = self._state(found, batches, kept, known, frontier_ms)
        return Found(results if results.num_rows else None, [state], after, pending)

    def complete(self, rows: pa.Table, pending: pa.Table) -> pa.Table:
        """Put what batches had before in front of their events.

        In: rows  of the stretches that were asked for; pending: results without these
        """
        rows = rows.filter(pc.is_null(rows["__fate"]))
        batch = pc.index_in(rows[self.by], pending[self.by].combine_chunks())
        rows, batch = rows.filter(batch.is_valid()), batch.drop_null().to_numpy()
        begun = [
            pc.divide(pending["opened_at"].cast(pa.int64()), 1000).to_numpy()[batch],
            *(pending[name].to_numpy()[batch] for name in PLACE[1:]),
        ]
        mine = not_before([rows[name].to_numpy() for name in PLACE], begun)
        rows, batch = _in_order(rows.filter(pa.array(mine)), batch[mine])
        events, own = self._events(rows), pending["events"].combine_chunks()
        every = pa.concat_arrays([events, own.flatten().cast(events.type)])
        of = np.concatenate([batch, pc.list_parent_indices(own).to_numpy()])
        together = as_lists(every.take(pa.array(np.argsort(of, kind="stable"))), of, len(own))
        place = pending.column_names.index("events")
        return pending.set_column(place, "events", together)

    def _open(self, held: HeldFiles, before_ms: int) -> pa.Table:
        """The batches that are open, one row per group (see `BatchOperator.open_batches`)."""
        wait_ms = self.limits.max_wait_ms
        first_ms = 0 if wait_ms is None else before_ms - wait_ms + 1
        known = held.state.within(
            "__opened_ms", first_ms, FOREVER, [self.by, *self.open_state, "__batch"]
        ).sort_by("__batch")
        codes = known[self.by].combine_chunks().dictionary_encode()
        newest = np.zeros(len(codes.dictionary), np.int64)
        newest[codes.indices.to_numpy()] = np.arange(known.num_rows)  # the last of each
        known = known.take(pa.array(np.sort(newest)))
        return known.filter(pc.greater(known["__records"], 0))

    def _described(
        self, batches: CutBatches, kept: pa.Table, known: pa.Table, groups: pa.Array
    ) -> dict[str, pa.Array | np.ndarray]:
        """Of each batch its group, its first record's place, and its highest event time."""
        held, before = batches.held, batches.before
        first = {}
        for name in PLACE[1:]:
            own = _at(kept[name].to_numpy(), batches.begin)
            first[name] = np.where(held, _at(known[name].to_numpy(), before), own)
        event_ms = np.where(held, _at(known["__event_ms"].to_numpy(), before), np.iinfo(np.int64).min)
        touched = batches.end > batches.begin
        if touched.any():  # their records lie one behind the other, and are all there are
            highest = np.maximum.reduceat(kept["__event_ms"].to_numpy(), batches.begin[touched])
            event_ms[touched] = np.maximum(event_ms[touched], highest)
        return {self.by: groups.take(pa.array(batches.group)), **first, "__event_ms": event_ms}

    def _results(
        self,
        found: Mapping[str, pa.Array | np.ndarray],
        batches: CutBatches,
        kept: pa.Table,
        which: np.ndarray,
    ) -> pa.Table:
        row = np.flatnonzero(which)
        number, records = batches.records_of(row, np.ones(len(row), bool))
        events = as_lists(self._events(kept).take(pa.array(records)), number, len(row))
        columns = {name: pa.array(values).take(pa.array(row)) for name, values in found.items()}
        places = (columns[name].cast(pa.string()) for name in PLACE[1:])
        total = pa.array(batches.records[row])
        return pa.table(
            {
                self.by: columns[self.by],
                "batch_id": pc.binary_join_element_wise(self.topic, *places, columns[self.by], "/"),
                "events": events,
                "records": total,
                "opened_at": pa.array(batches.opened_ms[row] * 1000),
                "closed_at": pa.array(batches.closed_ms[row] * 1000),
                "closed_by": pa.array(REASONS).take(pa.array(batches.closed_by[row])),
                "__records": total,
                "__bytes": pa.array(batches.bytes[row]),
                **{name: columns[name] for name in PLACE[1:]},
                "__timestamp": pc.multiply(columns["__event_ms"], 1000),
            }
        )

    def _events(self, rows: pa.Table) -> pa.StructArray:
        columns = [rows[f"{EVENT}{name}"].combine_chunks() for name in self.collect]
        return pa.StructArray.from_arrays(columns, names=[*self.collect])

    def _state(
        self,
        found: Mapping[str, pa.Array | np.ndarray],
        batches: CutBatches,
        kept: pa.Table,
        known: pa.Table,
        frontier_ms: int,
    ) -> pa.Table:
        """See `BatchOperator._state`."""
        is_open = batches.closed_by < 0
        ended = ~is_open & (batches.before >= 0) & batches.last
        if self.limits.max_wait_ms is not None:
            ended &= batches.opened_ms > frontier_ms - self.limits.max_wait_ms
        row = np.flatnonzero((is_open & (batches.end > batches.begin)) | ended)
        columns = {name: pa.array(values).take(pa.array(row)) for name, values in found.items()}
        goes_on = is_open[row]
        columns |= {
            "__opened_ms": pa.array(batches.opened_ms[row]),
            "__records": pa.array(np.where(goes_on, batches.records[row], 0)),
            "__bytes": pa.array(batches.bytes[row]),
            "__counts": self._counts(batches, row, goes_on, kept, known),
            "__commits": self._commits(batches, row, goes_on, kept, known),
        }
        return pa.table({name: columns[name] for name in (self.by, *self.open_state)})

    def _counts(
        self,
        batches: CutBatches,
        row: np.ndarray,
        goes_on: np.ndarray,
        kept: pa.Table,
        known: pa.Table,
    ) -> pa.Array:
        """How many records of an open batch each partition has; null of those that closed."""
        own, record = batches.records_of(row, goes_on)
        before, lists = batches.known_of(row, goes_on, known["__counts"])
        of = np.concatenate([own, before])
        parts = lists.flatten()
        partition = np.concatenate(
            [kept["__partition"].to_numpy()[record], parts.field("partition").to_numpy()]
        )
        records = np.concatenate([np.ones(len(own), np.int64), parts.field("records").to_numpy()])
        of, partition, pair = distinct_pairs(of, partition)
        total = np.bincount(pair, records, len(of)).astype(np.int64)
        fields = [("partition", pa.int32()), ("records", pa.int64())]
        counts = pa.StructArray.from_arrays(
            [pa.array(partition, pa.int32()), pa.array(total)], fields=[pa.field(*field) for field in fields]
        )
        return as_lists(counts, of, len(row), ~goes_on)

    def _commits(
        self,
        batches: CutBatches,
        row: np.ndarray,
        goes_on: np.ndarray,
        kept: pa.Table,
        known: pa.Table,
    ) -> pa.Array:
        """The commit times of a batch's records, null where there are too many; of one that closed, those before."""
        own, record = batches.records_of(row, goes_on)
        before, lists = batches.known_of(row, np.ones(len(row), bool), known["__commits"])
        times = np.concatenate([kept["__ingested_ms"].to_numpy()[record], lists.flatten().to_numpy()])
        of, times, _ = distinct_pairs(np.concatenate([own, before]), times)
        unknown = np.zeros(len(row), bool)
        held = np.flatnonzero(batches.held[row])
        unknown[held] = known["__commits"].is_null().to_numpy()[batches.before[row[held]]]
        unknown |= ~batches.held[row] & ~goes_on
        unknown |= np.bincount(of, minlength=len(row)) > self.commits_max
        known_of = ~unknown[of]
        return as_lists(pa.array(times[known_of]), of[known_of], len(row), unknown)


def _groups(own: pa.ChunkedArray, known: pa.ChunkedArray) -> tuple[pa.Array, np.ndarray, np.ndarray]:
    """All groups; of each record, and of each batch that is open, which it is."""
    every = pa.chunked_array([*own.chunks, *known.chunks], pa.string()).combine_chunks()
    encoded = every.dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int64)
    return encoded.dictionary, codes[: len(own)], codes[len(own) :]


def _in_order(rows: pa.Table, group: np.ndarray) -> tuple[pa.Table, np.ndarray]:
    """Rows by group, those of one in the log's order."""
    at_ms, partition, offset = (rows[name].to_numpy() for name in PLACE)
    order = np.lexsort((offset, partition, at_ms))
    small = group[order].astype(np.uint16) if len(group) and group.max() < 1 << 16 else group[order]
    order = order[np.argsort(small, kind="stable")]
    return rows.take(pa.array(order)).combine_chunks(), group[order]


def _opened(known: pa.Table, group: np.ndarray, groups: int) -> Opened:
    row = np.full(groups, -1, np.int64)
    row[group] = np.arange(known.num_rows)
    return Opened(row, *(known[name].to_numpy() for name in ("__opened_ms", "__records", "__bytes")))


def _at(values: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Values at places; anything at those that are none."""
    return values[np.clip(place, 0, len(values) - 1)] if len(values) else np.zeros(len(place), np.int64)
