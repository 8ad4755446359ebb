"""Vectorised processors, and plain functions, for the laws of the kernel; and some that break their law."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import headrace as hr

COUNT, SUMS = (
    hr.value_store("count", "n BIGINT"),
    hr.key_value_store("sums", "k BIGINT", "n BIGINT, mean DOUBLE"),
)
Rows = Iterator[dict[str, Any]]


def running(group: np.ndarray) -> np.ndarray:
    """The number of each row within its group, from 1. In: groups, rising."""
    return np.arange(len(group)) - np.searchsorted(group, group) + 1


class CountTables(hr.BatchProcessor):
    """How many records a group has had."""

    def init(self, context: hr.BatchContext) -> None:
        self.count = context.store("count")

    def process_batch(self, records: pa.Table) -> pa.Table:
        group = records["__group"].to_numpy()
        held = self.count.entries()
        before = np.zeros(group[-1] + 1, np.int64)
        before[held["__group"].to_numpy()] = held["n"].to_numpy()
        n = before[group] + running(group)
        last = np.append(group[1:] != group[:-1], True)
        self.count.put(pa.table({"__group": group[last], "n": n[last]}))
        return pa.table({"key": records.column(0), "n": n, "value": records["value"]})


class SumsOfTables(hr.BatchProcessor):
    """Keeps sums by a key of its own; gives rows for some records, and forgets a key for others."""

    def init(self, context: hr.BatchContext) -> None:
        self.sums = context.store("sums")

    def process_batch(self, records: pa.Table) -> pa.Table:
        known = {(row["__group"], row["k"]): row["n"] for row in self.sums.entries().to_pylist()}
        rows: list[dict[str, Any]] = []
        for number, row in enumerate(records.to_pylist()):
            group, value = row["__group"], row["value"] or 0
            key = value % 3
            if value % 5 == 0:
                known.pop((group, key), None)
                self.sums.delete(pa.table({"__group": [group], "k": [key]}))
                continue
            known[group, key] = n = known.get((group, key), 0) + value % 7
            self.sums.put(pa.table({"__group": [group], "k": [key], "n": [n], "mean": [n / 7]}))
            rows += [{"n": n, "value": each, "__record": number} for each in range(value % 3)]
        types = pa.schema([("n", pa.int64()), ("value", pa.int64()), ("__record", pa.int64())])
        return pa.Table.from_pylist(rows, types)


class RaisesForTables(CountTables):
    """The same, and raises if there is a record that cannot be."""

    def process_batch(self, records: pa.Table) -> pa.Table:
        found = super().process_batch(records)
        if pc.any(pc.equal(pc.bit_wise_and(records["value"].fill_null(1), 3), 0)).as_py():
            raise ValueError("a multiple of 4")
        return found


class AcrossGroups(hr.BatchProcessor):
    """Breaks the law: it counts the records of the groups that happen to be in its batch."""

    def process_batch(self, records: pa.Table) -> pa.Table:
        n = np.arange(records.num_rows) + 1
        return pa.table({"key": records["key"], "n": n, "value": records["value"]})


class Forgets(hr.BatchProcessor):
    """Breaks the law: it begins again with each batch."""

    def process_batch(self, records: pa.Table) -> pa.Table:
        n = running(records["__group"].to_numpy())
        return pa.table({"key": records["key"], "n": n, "value": records["value"]})


def count_by_function(key: Mapping[str, Any], records: Iterator[hr.Record], state: hr.KeyValueStore) -> Rows:
    """How many records a group has had; every other one gives a row."""
    n = state.get() or 0
    for record in records:
        n += 1
        if n % 2:
            yield {"key": key.get("key"), "n": n, "value": record["value"]}
    state.put(n)


def raise_for_some(key: Mapping[str, Any], records: Iterator[hr.Record], state: hr.KeyValueStore) -> Rows:
    """The same, and raises for a record that cannot be."""
    for record in records:
        state.put((state.get() or 0) + 1)
        yield {"key": key.get("key"), "n": state.get(), "value": record["value"]}
        if (record["value"] or 1) % 4 == 0:
            raise ValueError("a multiple of 4")


def count_runs(key: Mapping[str, Any], records: Iterator[hr.Record], state: hr.KeyValueStore) -> Rows:
    """Breaks the law: it begins again with each run."""
    for n, record in enumerate(records, 1):
        yield {"key": key["key"], "n": n, "value": record["value"]}


def tell_at_the_end(key: Mapping[str, Any], records: Iterator[hr.Record], state: hr.KeyValueStore) -> Rows:
    """Breaks the law: a row for the last record of a run."""
    n = len([*records])
    yield {"key": key["key"], "n": n, "value": None}


def take_one(key: Mapping[str, Any], records: Iterator[hr.Record], state: hr.KeyValueStore) -> Rows:
    """Breaks the law: it takes the first record of a run alone."""
    yield {"key": key["key"], "n": 1, "value": next(records)["value"]}
