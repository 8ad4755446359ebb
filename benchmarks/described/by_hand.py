"""Counting by processors: record by record, as a function, and by tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from benchmarks.described.description import Description
from benchmarks.described.on_windows import readings

# A key lies in one partition.
NUMBERED = (
    'SELECT key AS sensor_id, row_number() OVER (PARTITION BY key ORDER BY "offset") AS n FROM readings'
)
OUTPUT, STORE = "sensor_id STRING, n BIGINT", hr.value_store("count", "n BIGINT")


class Count(hr.Processor):
    """Numbers the records of a sensor."""

    def init(self, context: hr.Context) -> None:
        """Keep the store."""
        self.context, self.count = context, context.store("count")

    def process(self, record: hr.Record) -> None:
        """Count one."""
        n = (self.count.get() or 0) + 1
        self.count.put(n)
        self.context.forward(sensor_id=record["sensor_id"], n=n)


class CountTables(hr.BatchProcessor):
    """The same by tables."""

    def init(self, context: hr.BatchContext) -> None:
        """Keep the store."""
        self.count = context.store("count")

    def process_batch(self, records: pa.Table) -> pa.Table:
        """Count those of many sensors."""
        group = records["__group"].to_numpy()
        held = self.count.entries()
        before = np.zeros(group[-1] + 1, np.int64)
        before[held["__group"].to_numpy()] = held["n"].to_numpy()
        n = before[group] + np.arange(len(group)) - np.searchsorted(group, group) + 1
        last = np.append(group[1:] != group[:-1], True)
        self.count.put(pa.table({"__group": group[last], "n": n[last]}))
        return pa.table({"sensor_id": records["sensor_id"], "n": n})


def count(
    key: Mapping[str, Any], records: Iterator[hr.Record], state: hr.KeyValueStore
) -> Iterator[dict[str, Any]]:
    """The same by a function."""
    n, sensor = state.get() or 0, key["sensor_id"]
    for _ in records:
        n += 1
        yield {"sensor_id": sensor, "n": n}
    state.put(n)


_by_sensor = readings.group_by("sensor_id")
BY_HAND = (
    Description(
        "counting processor",
        _by_sensor.process(Count, output=OUTPUT, stores=[STORE]).named("counted"),
        NUMBERED,
    ),
    Description(
        "counting function",
        _by_sensor.process(hr.processor(count, state="n BIGINT"), output=OUTPUT).named("counted_by_function"),
        NUMBERED,
    ),
    Description(
        "counting by tables",
        _by_sensor.process(CountTables, output=OUTPUT, stores=[STORE]).named("counted_by_tables"),
        NUMBERED,
    ),
    Description(
        "count as an aggregate",
        _by_sensor.aggregate(n=hr.count()).named("count"),
        "SELECT key AS sensor_id, count(*) AS n FROM readings GROUP BY key",
        "SELECT sensor_id, n FROM found",
    ),
)
