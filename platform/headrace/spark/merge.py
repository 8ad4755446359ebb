"""Put changed rows into a Delta table by identity, in one commit; and what to do when another commit overtakes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from delta.exceptions import ConcurrentAppendException, ConcurrentDeleteReadException
from delta.tables import DeltaTable
from pyspark.sql import functions as F
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from headrace.description import quote
from headrace.spark import tables
from headrace.spark.merge_files import merge_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from headrace.spark.newest import Followed

TRIES_MAX = 10
# Delta refuses a commit that rewrites files when another one has added or replaced rows that it read.
OVERTAKEN = (ConcurrentAppendException, ConcurrentDeleteReadException)
overtaken_tries = Retrying(
    retry=retry_if_exception_type(OVERTAKEN),
    stop=stop_after_attempt(TRIES_MAX),
    wait=wait_random_exponential(multiplier=0.1, max=10),
    reraise=True,
)


def upsert(
    spark: SparkSession,
    path: str,
    changes: DataFrame,
    identity: Sequence[str],
    record: Mapping[str, Any],
    followed: Followed | None = None,
) -> None:
    """Update, insert or delete rows.

    In:     changes   the table's columns and `__deleted`; one row for each identity
            record    of the commit; it is written although nothing changes
            followed  the table, if its identity is never null, nobody else rewrites it meanwhile, and one task has room
                      for all changes
    """
    if followed is not None and merge_files(followed, changes, identity, record):
        return
    same = " AND ".join(f"row.{quote(name)} <=> change.{quote(name)}" for name in identity)
    values: dict[str, str | Column] = {
        quote(n): F.col(f"change.{quote(n)}") for n in changes.columns if n != "__deleted"
    }
    with tables.commit_record(spark, record):
        (
            DeltaTable.forPath(spark, path)
            .alias("row")
            .merge(changes.alias("change"), same)
            .whenMatchedDelete(condition="change.__deleted")
            .whenMatchedUpdate(set=values)
            .whenNotMatchedInsert(condition="NOT change.__deleted", values=values)
            .execute()
        )
