"""A sink that the laws read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.sinks import Delivery

BEGIN_MS = 1_700_000_000_000
Value = dict[str, Any]


class Recorder:
    """A sink that keeps what it is given: for each identity the last row by sequence and place."""

    def __init__(self) -> None:
        self.name = "recorder"
        self.rows: dict[tuple[object, ...], tuple[tuple[int, bytes], Value | None]] = {}
        self.seen: set[tuple[object, ...]] = set()

    def clear(self) -> None:
        """Forget everything."""
        self.rows.clear()
        self.seen.clear()

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        self.take([row.asDict() for row in rows.collect()], delivery)

    def take(self, found: list[Value], delivery: Delivery) -> None:
        """Keep the rows of a delivery."""
        by_place = {(row["__sequence"], bytes(row["__place"])): row for row in found}
        assert len(by_place) == len(found), "two rows at one place"
        for place, row in sorted(by_place.items()):
            key = tuple(row[name] for name in delivery.identity)
            value = {n: row[n] for n in delivery.columns if n not in delivery.identity}
            assert not row["__deleted"] or set(value.values()) == {None}
            if key in self.rows and place < self.rows[key][0]:
                assert (key, place) in self.seen, "an older row came later"
                continue
            self.seen.add((key, place))
            self.rows[key] = (place, None if row["__deleted"] else value)

    def table(self) -> dict[object, Value]:
        """The rows that were not deleted since, by a key of one column."""
        return {key[0]: value for key, (_, value) in self.rows.items() if value is not None}
