"""Put the changed rows of a frame into a table of the lake, in one commit (see `headrace.lake.care.merge`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from headrace.lake.care import merge
from headrace.spark.lake_rows import write_rows
from headrace.spark.one_task import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from headrace.lake import TableWriter
    from headrace.lake.care.merge import Changes


def upsert(
    writer: TableWriter, changes: DataFrame, identity: Sequence[str], record: Mapping[str, Any]
) -> int:
    """Update, insert or delete rows (see `headrace.lake.care.merge.upsert`); the version that holds them."""
    return _merged(writer, changes, lambda rows: merge.upsert(writer, rows, identity, record))


def exchange(
    writer: TableWriter, changes: DataFrame, identity: Sequence[str], record: Mapping[str, Any]
) -> int:
    """Delete some identities and insert rows in their place (see `headrace.lake.care.merge.exchange`)."""
    return _merged(writer, changes, lambda rows: merge.exchange(writer, rows, identity, record))


def _merged(writer: TableWriter, changes: DataFrame, work: Callable[[Changes], int]) -> int:
    """Let tasks write the changes to files first, so that no process has to hold all of them."""
    folder = f"{writer.uri}/{merge.FOLDER}/{uuid4()}"
    rows = merge.Changes(folder, write_rows(changes, folder), arrow_schema(changes.schema))
    try:
        return work(rows)
    finally:
        rows.remove()
