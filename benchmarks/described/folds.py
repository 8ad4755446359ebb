"""What must come out where the order of records decides: plain Python over whole topics, record by record."""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from benchmarks.described.description import Rows

Row = tuple[Any, ...]


def _in_order(connection: duckdb.DuckDBPyConnection, records: str) -> Iterator[list[Row]]:
    """The records of each partition: key, event time, value."""
    partitions = connection.sql(f"SELECT DISTINCT partition FROM ({records}) ORDER BY 1").fetchall()
    for (partition,) in partitions:
        of_one = f'SELECT * FROM ({records}) WHERE partition = {partition} ORDER BY "offset"'
        yield connection.sql(f"SELECT sensor_id, ms, value FROM ({of_one})").fetchall()


def sessions(records: str, gap_ms: int, grace_ms: int) -> Rows:
    """Sessions that are closed: a record joins those of its key within the gap that are open when it comes."""

    def rows(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        found: list[Row] = []
        for partition in _in_order(connection, records):
            found += _sessions(partition, gap_ms, grace_ms)
        return _relation(connection, ["sensor_id", "start", "end", "n", "total"], found)

    return rows


def _sessions(records: list[Row], gap_ms: int, grace_ms: int) -> Iterator[Row]:
    wait, stream = gap_ms + grace_ms, 0
    open_of: dict[str, list[Row]] = defaultdict(list)
    for key, ms, value in records:
        before, stream = stream, max(stream, ms)
        known = open_of[key]
        yield from ((key, *one) for one in known if one[1] + wait <= before)
        known[:] = [one for one in known if one[1] + wait > before]
        near = [one for one in known if one[0] - gap_ms <= ms <= one[1] + gap_ms]
        start, end = min([ms, *(one[0] for one in near)]), max([ms, *(one[1] for one in near)])
        if end + wait > stream:
            known[:] = [one for one in known if one not in near]
            counts = (1 + sum(one[2] for one in near), value + sum(one[3] for one in near))
            known.append((start, end, *counts))
    for key, known in open_of.items():
        yield from ((key, *one) for one in known if one[1] + wait <= stream)


def waits(records: str, limit_ms: int) -> Rows:
    """Running totals, each when the wait that its first update opened is over."""

    def rows(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        found: list[Row] = []
        for partition in _in_order(connection, records):
            found += _waits(partition, limit_ms)
        return _relation(connection, ["sensor_id", "n", "total"], found)

    return rows


def _waits(records: list[Row], limit_ms: int) -> Iterator[Row]:
    """An update has the highest event time of its key so far; it comes first, then what is due leaves."""
    totals: dict[str, tuple[int, int, int]] = {}
    waiting: list[tuple[int, str]] = []
    wait_of: set[str] = set()
    stream = 0
    for key, ms, value in records:
        n, total, highest = totals.get(key, (0, 0, ms))
        totals[key] = n + 1, total + value, max(highest, ms)
        stream = max(stream, totals[key][2])
        if key not in wait_of:
            wait_of.add(key)
            heapq.heappush(waiting, (totals[key][2], key))
        while waiting and waiting[0][0] <= stream - limit_ms:
            _, left = heapq.heappop(waiting)
            wait_of.remove(left)
            yield left, *totals[left][:2]


def _relation(
    connection: duckdb.DuckDBPyConnection, names: list[str], rows: list[Row]
) -> duckdb.DuckDBPyRelation:
    columns = zip(*rows, strict=True) if rows else [[] for _ in names]
    arrays = [
        pa.array(column, pa.string() if name == "sensor_id" else pa.int64())
        for name, column in zip(names, columns, strict=True)
    ]
    return connection.from_arrow(pa.table(arrays, names=names))
