"""Which version of a table's row counts: at the end, or before some place of the logs.

In all functions `codes` are the numbers of groups (keys), and versions are numbered as rows are.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.fold.contract import DELETED, EVENT, HASH, KEY
from headrace.fold.group_order import order_by_group
from headrace.fold.keys import group
from headrace.fold.positions import order_of, position_columns
from headrace.fold.segments import begins
from headrace.fold.values.columns import int64


def in_table_order(
    codes: np.ndarray, place: np.ndarray, event_ms: np.ndarray, *, by_timestamp: bool
) -> np.ndarray:
    """The permutation that sorts versions by key, then by the order of the table: the last one of a key counts."""
    if by_timestamp:
        by_time = np.lexsort((place, event_ms))
        place = np.empty(len(by_time), np.int64)
        place[by_time] = np.arange(len(by_time))
    return order_by_group(codes, place)


def last_of_groups(codes: np.ndarray) -> np.ndarray:
    """Marks of the last row of each group. In: codes  of rows sorted by group."""
    last = np.ones(len(codes), bool)
    last[:-1] = codes[1:] != codes[:-1]
    return last


def highest_so_far(sequence: np.ndarray, in_order: np.ndarray, rows: int) -> np.ndarray:
    """At each place the rank of the highest version, of its key or of one before; -1: there is none yet.

    In:  sequence  rows by key, then as they follow one another; some may be no versions
         in_order  the versions by key and the table's order
         rows      how many rows there are
    Law: versions of a later key rank higher than all of an earlier one. So the running maximum needs no segments, and is
         of the key itself wherever a version of the key stands at the place or before.
    """
    rank = np.full(rows, -1)
    rank[in_order] = np.arange(len(in_order))
    found: np.ndarray = np.maximum.accumulate(rank[sequence])
    return found


def newest_of(versions: pa.Table, *, by_timestamp: bool) -> np.ndarray:
    """The numbers of the versions that count, one of each KEY."""
    codes, place = group(versions[KEY]).codes, order_of(position_columns(versions))
    in_order = in_table_order(codes, place, versions[EVENT].to_numpy(), by_timestamp=by_timestamp)
    newest: np.ndarray = in_order[last_of_groups(codes[in_order])]
    return newest


def latest_rows(rows: pa.Table, *, by_timestamp: bool) -> pa.Table:
    """The latest row of each KEY.

    In: rows  with HASH. Most rows of a large table share it with none: they are the latest without a look at their places
    """
    rows = rows.combine_chunks()
    latest = ~_shares_its_value(int64(rows[HASH]))
    others = np.flatnonzero(~latest)
    latest[others[newest_of(rows.take(pa.array(others)), by_timestamp=by_timestamp)]] = True
    return rows.filter(pa.array(latest))


def _shares_its_value(values: np.ndarray) -> np.ndarray:
    """Which values are there more than once."""
    order = np.argsort(values, kind="stable")
    first = begins(values[order])
    found = np.empty(len(values), bool)
    found[order] = ~(first & np.append(first[1:], True))
    return found


def deletes_to_forget(rows: pa.Table, *, by_timestamp: bool) -> pa.Array:
    """Marks of deletes, which a state need not keep; but by timestamp none, for an older record can come later."""
    never = pa.array(np.zeros(rows.num_rows, bool))
    return never if by_timestamp else rows[DELETED].combine_chunks()
