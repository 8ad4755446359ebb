"""The second step: put the records of each batch that closes together, and keep those of batches that are open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description.batches import BEAT, COUNT, DRAIN, WAIT
from headrace.description.batches import BYTES as BY_SIZE
from headrace.fold.contract import (
    DELETED,
    EVENT,
    HASH,
    KEY,
    OFFSET,
    PARTITION,
    SIZE,
    TOPIC,
    Folded,
    Needs,
    Scope,
    StateTable,
    Step,
    Times,
)
from headrace.fold.group_order import order_by_group
from headrace.fold.keys import distinct_hashes, group_columns, groups_of
from headrace.fold.positions import POSITION, order_of, position_columns
from headrace.fold.segments import LOWEST
from headrace.fold.values.columns import fitted, int64, moments
from headrace.fold.values.json_text import json_objects
from headrace.operators.batches.fold.cut_batches import BY_WAIT, OPEN
from headrace.operators.batches.fold.cut_increment import CLOSED_BY, CLOSED_MS, CONTINUED, NUMBER
from headrace.operators.batches.fold.limits import Limits
from headrace.operators.batches.fold.open_batches import BYTES, ENTRY, OPENED, RECORDS, waiting_records

TIMESTAMP, SEQUENCE = "__timestamp", "__sequence"
WAITING = "waiting"  # the state table of records in open batches
SOURCE = (TOPIC, PARTITION, OFFSET)


@dataclass(frozen=True)
class GatherEvents(Step):
    """Gather the records of batches.

    In:    rows of `CutIncrement`; state `waiting`
    Out:   `results`: one row for each batch that closed: the node's columns, RECORDS, BYTES, the place of its first record,
           TIMESTAMP (its highest event time) and SEQUENCE (`closed_at` in ms). Rows of one SEQUENCE are in order by
           `opened_at` and that place
    Law:   a record is written to `waiting` at most once, and is read when its batch closes.
    """

    by: tuple[str, ...]
    collect: tuple[str, ...]
    topics: tuple[str, ...]
    limits: Limits
    inputs: pa.Schema
    plain: bool  # see `batch_ids`
    scope = Scope.GROUP  # by the KEY that the rows have

    @property
    def columns(self) -> tuple[str, ...]:
        """The user's columns that a batch needs of a record."""
        return tuple(dict.fromkeys((*self.by, *self.collect)))

    @property
    def state(self) -> Mapping[str, StateTable]:  # type: ignore[override]
        """`waiting`: the records of open batches."""
        return {WAITING: waiting_records(self.inputs, self.columns, self.topics, self.limits)}

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """The records of batches that were open and closed."""
        closed = rows.select([HASH, OPENED]).filter(
            pc.and_(rows[CONTINUED], pc.not_equal(rows[CLOSED_BY], OPEN))
        )
        if not closed.num_rows:
            return {}
        opened = int64(closed[OPENED])
        return {WAITING: Needs(distinct_hashes(closed), (int(opened.min()), int(opened.max())))}

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the class."""
        closes = pc.not_equal(rows[CLOSED_BY], OPEN)
        waiting = state.get(WAITING, self.state[WAITING].empty())
        return Folded(
            outputs={"results": self._results(rows.filter(closes), waiting)},
            changes={WAITING: self._changes(rows, closes)},
        )

    def _results(self, closing: pa.Table, waiting: pa.Table) -> pa.Table:
        """One row for each batch. In: all new rows of the batches; rows of the state, others too."""
        names = [*ENTRY, *self.columns]
        both = pa.concat_tables([closing.select(names), waiting.select(names)])
        batch, row, first_row = _records(closing, waiting)
        entries = both.select(POSITION).take(pa.array(row)) if len(row) < both.num_rows else both
        order = order_by_group(batch, order_of(position_columns(entries)))
        count = np.bincount(batch, minlength=len(first_row))
        row, ends = row[order], np.cumsum(count)
        begins = ends - count
        first = both.select([*SOURCE, *self.by]).take(pa.array(row[begins]))
        by = group_columns(first, self.by, np.arange(len(begins)))
        of = closing.select([OPENED, CLOSED_MS, CLOSED_BY]).take(pa.array(first_row))
        columns = by | {
            "batch_id": batch_ids(first, by, plain=self.plain),
            "events": _events(both, self.collect, row, ends),
            "records": pa.array(count),
            "opened_at": moments(int64(of[OPENED])),
            "closed_at": moments(int64(of[CLOSED_MS])),
            "closed_by": pa.array(self._reasons).take(of[CLOSED_BY]),
            RECORDS: pa.array(count),
            BYTES: pa.array(_reduced(np.add, int64(both[SIZE])[row], begins)),
            **{name: first[name] for name in SOURCE if name != TOPIC or len(self.topics) > 1},
            TIMESTAMP: _highest(int64(both[EVENT], LOWEST)[row], begins),
            SEQUENCE: of[CLOSED_MS],
        }
        return pa.table(columns)

    @property
    def _reasons(self) -> tuple[str, ...]:
        """By their numbers in `cut_batches`."""
        return COUNT, BY_SIZE, WAIT if self.limits.every_ms is None else BEAT, DRAIN, BY_SIZE

    def _changes(self, rows: pa.Table, closes: pa.ChunkedArray) -> pa.Table:
        """The new records of batches that are open; a row for each batch that was open and closed before its deadline."""
        schema = self.state[WAITING].schema
        kept = rows.select(schema.names[:-1]).filter(pc.invert(closes))
        early = pc.and_(pc.and_(rows[CONTINUED], closes), pc.not_equal(rows[CLOSED_BY], BY_WAIT))
        ended = rows.select([KEY, HASH, OPENED]).filter(early)
        ended = ended.take(pa.array(groups_of(ended).first))
        marks = ended.append_column(DELETED, pa.array(np.ones(ended.num_rows, bool)))
        kept = kept.append_column(DELETED, pa.array(np.zeros(kept.num_rows, bool)))
        return pa.concat_tables([fitted(rows, schema) for rows in (kept, marks)])


def _records(closing: pa.Table, waiting: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The records of batches that close.

    Out: of each record the number of its batch, and its row, those of `waiting` after those of `closing`; of each batch a
         row of `closing`
    """
    number = np.concatenate([int64(closing[NUMBER]), np.zeros(waiting.num_rows, np.int64)])
    groups = groups_of(pa.concat_tables([closing.select([KEY]), waiting.select([KEY])]), number)
    closes = groups.first < closing.num_rows
    batch, first_row = np.cumsum(closes) - 1, groups.first[closes]
    here = np.flatnonzero(closing[OFFSET].is_valid().to_numpy())
    code = groups.codes[closing.num_rows :]
    asked = np.flatnonzero(closes[code] & ~waiting[DELETED].to_numpy())
    first = groups.first[code[asked]]
    # A batch that was open is number 0 of its group. What else the state holds of the group is of batches that closed.
    same = int64(waiting[OPENED])[asked] == int64(closing[OPENED])[first]
    there = asked[same & closing[CONTINUED].to_numpy()[first]] + closing.num_rows
    row = np.concatenate([here, there])
    return batch[groups.codes[row]], row, first_row


def _events(rows: pa.Table, collect: Sequence[str], row: np.ndarray, ends: np.ndarray) -> pa.ListArray:
    """The collected columns of each batch's records, as an array of structs. In: the records' rows, batch by batch."""
    which = pa.array(row)
    columns = [rows[name].combine_chunks().take(which) for name in collect]
    whole = [c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in columns]
    fields = [pa.field(name, column.type) for name, column in zip(collect, whole, strict=True)]
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(whole, fields=fields))


def _reduced(function: np.ufunc, values: np.ndarray, begins: np.ndarray) -> np.ndarray:
    found: np.ndarray = function.reduceat(values, begins) if len(begins) else values
    return found


def _highest(times: np.ndarray, begins: np.ndarray) -> pa.Array:
    """The highest event time of each batch; null if none of its records has one."""
    found = _reduced(np.maximum, times, begins)
    return pa.array(found, mask=found == LOWEST)


def batch_ids(first: Mapping[str, pa.ChunkedArray], by: Mapping[str, pa.Array], *, plain: bool) -> pa.Array:
    """`topic/partition/offset/group`; the group as a JSON object, unless it is `plain`.

    In: first  TOPIC, PARTITION and OFFSET of each batch's first record
        by     its group columns
        plain  the group is the text of its only column
    """
    group = next(iter(by.values())).cast(pa.string()).fill_null("null") if plain else json_objects(by)
    numbers = (first[name].cast(pa.string()) for name in (PARTITION, OFFSET))
    return pc.binary_join_element_wise(first[TOPIC], *numbers, group, "/")
