"""A sink that is switched off prints the rows of any columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headrace.description.printed_sink import PrintedSink
from headrace.sinks import Delivery

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_columns_whose_names_are_no_identifiers_are_printed(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql("SELECT 1 AS `price.net`, 'a' AS `a b`, 2 AS `with``tick`, FALSE AS __deleted")
    columns = ("price.net", "a b", "with`tick")
    sink = PrintedSink("kafka-t", f"{tmp_path}/sinks")
    sink.deliver(rows, Delivery("n", (), ("a b",), columns, f"file:{tmp_path}/refused"))
    printed = (tmp_path / "sinks").read_text()
    assert printed == 'kafka-t <- n: {"price.net":1,"a b":"a","with`tick":2,"__deleted":false}\n'


@pytest.mark.fast
def test_a_row_that_python_does_not_have_stops_no_other_one(tmp_path: Path) -> None:
    """Before, `to_pylist` raised OverflowError."""
    at = pa.array([253_402_300_800_000_000, None], pa.int64()).cast(pa.timestamp("us", "UTC"))
    rows = pa.table({"at": at, "__deleted": [False, False]})
    PrintedSink("t", f"{tmp_path}/sinks").deliver_table(
        rows, Delivery("n", (), ("at",), ("at",), "file:refused")
    )
    first, second = (tmp_path / "sinks").read_text().splitlines()
    assert first.startswith("t <- n: a row with a value that Python does not have: ")
    assert second == 't <- n: {"__deleted":false}'
