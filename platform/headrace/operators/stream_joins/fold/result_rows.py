"""The result rows of a join of streams: of pairs, and of records that leave alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from headrace.fold.contract import CLOCK, INGESTED, OFFSET, PARTITION, TOPIC
from headrace.fold.lookups.sides import SIDE
from headrace.fold.values.columns import int64, moments
from headrace.operators.stream_joins.fold.both_sides import BothSides
from headrace.operators.stream_joins.fold.find_pairs import Candidates, Pairs

RELEASED_AT, TIMESTAMP, SEQUENCE = "__released_at", "__timestamp", "__sequence"
LATER = (TOPIC, PARTITION, OFFSET)  # of a row: the record that completed it
PARTNER = ("__partner_topic", "__partner_partition", "__partner_offset")  # the earlier record of a pair
PARTNER_CAUSE = "__partner_cause"  # and its CAUSE


def rows_of_pairs(records: pa.Table, pairs: Pairs, of: Candidates, sides: BothSides) -> pa.Table:
    """The rows of pairs: final at the commit of the later record, with the higher clock of both.

    In:  records  as the state has them; `pairs` and `of` are about these
    Out: `on`, `left` and `right` of the sides; LATER and PARTNER; SIDE of LATER, if a topic is on both sides; CAUSE and
         PARTNER_CAUSE, if a node writes a topic; RELEASED_AT and SEQUENCE (the commit at which the row is final);
         TIMESTAMP (the higher event time); CLOCK. One row per pair
    """
    columns = _taken(records, (*sides.on, *sides.left), pairs.left)
    columns |= _taken(records, sides.right, pairs.right)
    columns |= _taken(records, (*LATER, *sides.causes), pairs.later)
    earlier = _taken(records, (*LATER, *sides.causes), pairs.earlier)
    columns |= {name: earlier[own] for name, own in _partner_columns(sides)}
    columns |= _side(records, pairs.later, sides)
    event_ms, clock_ms = (np.maximum(ms[pairs.left], ms[pairs.right]) for ms in (of.event_ms, of.stream_ms))
    return _final(columns, event_ms, clock_ms, int64(records[INGESTED])[pairs.later])


def rows_alone(
    records: pa.Table, alone: np.ndarray, of: Candidates, at_ms: np.ndarray, sides: BothSides
) -> pa.Table:
    """The rows of records that leave alone; their clock is the time at which they close.

    In:  alone  their numbers; `at_ms`: the commit at which each leaves
    Out: as `rows_of_pairs`; the columns of the other side and of the partner are null. One row per record
    """
    columns = _taken(records, (*sides.on, *sides.left, *sides.right, *LATER, *sides.causes), alone)
    for name, own in _partner_columns(sides):
        columns[name] = pa.chunked_array([pa.nulls(len(alone), records.schema.field(own).type)])
    columns |= _side(records, alone, sides)
    return _final(columns, of.event_ms[alone], of.closes_ms[alone], at_ms)


def _partner_columns(sides: BothSides) -> list[tuple[str, str]]:
    """The columns of a pair's earlier record: in the results, and of the record."""
    return [*zip(PARTNER, LATER, strict=True), *((PARTNER_CAUSE, name) for name in sides.causes)]


def _side(records: pa.Table, which: np.ndarray, sides: BothSides) -> dict[str, pa.ChunkedArray]:
    """The side of the records that complete rows: only where one topic is on both sides."""
    return _taken(records, [SIDE], which) if sides.shared else {}


def _final(
    columns: Mapping[str, pa.ChunkedArray], event_ms: np.ndarray, clock_ms: np.ndarray, at_ms: np.ndarray
) -> pa.Table:
    """Rows with their times. In: `at_ms`  the commit at which each is final."""
    times = {RELEASED_AT: moments(at_ms), TIMESTAMP: pa.array(event_ms), CLOCK: pa.array(clock_ms)}
    return pa.table({**columns, **times, SEQUENCE: pa.array(at_ms)})


def _taken(rows: pa.Table, names: Sequence[str], which: np.ndarray) -> dict[str, pa.ChunkedArray]:
    """Some columns of some rows."""
    taken = rows.select([*names]).take(pa.array(which, pa.int64()))
    return dict(zip(taken.column_names, taken.columns, strict=True))
