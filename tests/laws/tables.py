"""What a driver's tables hold, as plain Python values that can be compared with the oracle's."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, Row

    from headrace.testing import TestDriver

AGGREGATES = ("n", "total", "lowest", "highest", "mean")
Key = tuple[str, int]


def rows(frame: DataFrame) -> list[Row]:
    """Collect, with timestamps as ms since 1970 in place of the machine's local time."""
    times = {field.name for field in frame.schema if field.dataType.typeName() == "timestamp"}
    return frame.select(
        *(
            F.unix_millis(F.col(f"`{name}`")).alias(name) if name in times else F.col(f"`{name}`")
            for name in frame.columns
        )
    ).collect()


def windows(found: Iterable[Row], key: str = "key") -> dict[Key, dict[str, Any]]:
    """Rows by key and window; a window that occurs twice is an error."""
    table: dict[Key, dict[str, Any]] = {}
    for row in found:
        values = row.asDict()
        at = (values.pop(key), values.pop("window_start"))
        assert at not in table, f"{at} occurs twice"
        values.pop("window_end")
        table[at] = values
    return table


def folded(updates: Iterable[Row], key: str = "key") -> dict[Key, dict[str, Any]]:
    """The last word on each window: the row with the highest `__batch`, nulls last."""
    last: dict[Key, tuple[float, dict[str, Any]]] = {}
    for row in updates:
        values = row.asDict()
        at, batch = (values.pop(key), values.pop("window_start")), values.pop("__batch")
        values.pop("window_end")
        rank = float("inf") if batch is None else batch
        assert at not in last or last[at][0] != rank, f"{at} occurs twice in micro-batch {batch}"
        last[at] = max(last.get(at, (-1.0, values)), (rank, values), key=lambda entry: entry[0])
    return {at: values for at, (_, values) in last.items()}


def late(found: Iterable[Row]) -> Counter[tuple[int, int, int]]:
    """Partition, offset and start of each missed window."""
    return Counter((row["partition"], row["offset"], row["window_start"]) for row in found)


def ledger(found: Iterable[Row]) -> Counter[tuple[int, str]]:
    """How many records of a partition met a fate; fates that nothing met are left out."""
    counted = {(row["partition"], row["fate"]): row["records"] for row in found}
    return Counter({at: records for at, records in counted.items() if records})


def stream_times(driver: TestDriver, topic: str) -> dict[tuple[int, int], int | None]:
    """Stream time by partition and offset."""
    log = driver.log(topic).where("offset IS NOT NULL").select("partition", "offset", "stream_time")
    return {(row["partition"], row["offset"]): row["stream_time"] for row in rows(log)}
