"""What a driver's tables hold, as plain Python values that can be compared with the oracle's."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

    from headrace.testing import TestDriver

AGGREGATES = ("n", "total", "lowest", "highest", "mean")
Key = tuple[str, int]


EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)
Row = Mapping[str, Any]


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame of Spark."""
    plain: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return plain


def ms(moment: dt.datetime) -> int:
    """Milliseconds since 1970."""
    return (moment - EPOCH) // dt.timedelta(milliseconds=1)


def in_ms(row: Row) -> dict[str, Any]:
    """A row with its timestamps as milliseconds since 1970."""
    return {name: ms(value) if isinstance(value, dt.datetime) else value for name, value in row.items()}


def windows(found: Iterable[Row], key: str = "key") -> dict[Key, dict[str, Any]]:
    """Rows by key and window; a window that occurs twice is an error."""
    table: dict[Key, dict[str, Any]] = {}
    for values in map(in_ms, found):
        at = (values.pop(key), values.pop("window_start"))
        assert at not in table, f"{at} occurs twice"
        values.pop("window_end")
        table[at] = values
    return table


def folded(updates: Iterable[Row], key: str = "key") -> dict[Key, dict[str, Any]]:
    """The last word on each window: the row with the highest `__batch`, nulls last."""
    last: dict[Key, tuple[float, dict[str, Any]]] = {}
    for values in map(in_ms, updates):
        at, batch = (values.pop(key), values.pop("window_start")), values.pop("__batch")
        values.pop("window_end")
        rank = float("inf") if batch is None else batch
        assert at not in last or last[at][0] != rank, f"{at} occurs twice in micro-batch {batch}"
        last[at] = max(last.get(at, (-1.0, values)), (rank, values), key=lambda entry: entry[0])
    return {at: values for at, (_, values) in last.items()}


def late(found: Iterable[Row]) -> Counter[tuple[int, int, int]]:
    """Partition, offset and start of each missed window."""
    return Counter((row["partition"], row["offset"], ms(row["window_start"])) for row in found)


def ledger(found: Iterable[Row]) -> Counter[tuple[int, str]]:
    """How many records of a partition met a fate; fates that nothing met are left out."""
    counted = {(row["partition"], row["fate"]): row["records"] for row in found}
    return Counter({at: records for at, records in counted.items() if records})


def stream_times(driver: TestDriver, topic: str) -> dict[tuple[int, int], int | None]:
    """Stream time by partition and offset."""
    records = (in_ms(row) for row in driver.log(topic) if row["offset"] is not None)
    return {(row["partition"], row["offset"]): row["stream_time"] for row in records}
