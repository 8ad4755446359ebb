"""The rows that a log leads to beside the rows that a table holds, day by day.

Law: a day is equal if both sides have the same checksum (`spark.rows.checksums`). On other days all rows are compared, and
duplicates count. So an equal day takes one pass over each side, and moves no row. One job of Spark reads both sides.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.description import quote
from headrace.spark.frames import in_one_task
from headrace.spark.rows.checksums import Checksum, checksums
from headrace.spark.rows.comparable import comparable_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

LOG, TABLE = "log", "table"
SHOWN = 5  # how many differing rows a verdict names, if each is on both sides
ONLY_IN = "__only_in"  # the side that has a row; no table of a node has a column of this name
Day = dt.date | None  # None: the whole table


@dataclass(frozen=True)
class Comparison:
    """Two sides, compared.

    recomputed, stored  rows of each day that has any
    odd                 the days that differ
    log, table, day     the rows of both sides, comparable, and the day of a row
    """

    recomputed: Counter[Day]
    stored: Counter[Day]
    odd: frozenset[Day]
    log: DataFrame
    table: DataFrame
    day: Column

    @property
    def days(self) -> frozenset[Day]:
        """The days on which a side has rows."""
        return frozenset({*self.recomputed, *self.stored})

    @cached_property
    def differing(self) -> DataFrame:
        """The rows that only one side has; ONLY_IN is `log` or `table`. Spark plans it only if it is asked for."""
        return differing_rows(*(side.where(_is_among(self.odd, self.day)) for side in (self.log, self.table)))


def compare_rows(recomputed: DataFrame, stored: DataFrame, day: Column) -> Comparison:
    """Compare the columns of `stored`. In: day  of a row of either side, DATE."""
    log, table = (comparable_rows(rows, stored.columns) for rows in (recomputed, stored))
    both = in_one_task(
        log.withColumn(ONLY_IN, F.lit(LOG)).unionByName(table.withColumn(ONLY_IN, F.lit(TABLE)))
    )
    found = checksums(both, stored.columns, F.struct(F.col(ONLY_IN).alias("side"), day.alias("day")))
    of_log, of_table = (
        {part["day"]: each for part, each in found.items() if part["side"] == side} for side in (LOG, TABLE)
    )
    odd = frozenset(d for d in {*of_log, *of_table} if of_log.get(d) != of_table.get(d))
    return Comparison(_rows(of_log), _rows(of_table), odd, log, table, day)


def differing_rows(log: DataFrame, table: DataFrame) -> DataFrame:
    """The rows that only one side has, with ONLY_IN. In: log, table  comparable rows with the same columns."""
    only_log = log.exceptAll(table).withColumn(ONLY_IN, F.lit(LOG))
    return only_log.unionByName(table.exceptAll(log).withColumn(ONLY_IN, F.lit(TABLE)))


def examples_of(differing: DataFrame, day: Column, identity: Iterable[str]) -> Mapping[Day, Sequence[str]]:
    """For each day a few differing rows in words."""
    words: dict[Day, list[str]] = {}
    for row in example_rows(differing, day, identity).collect():
        values = ", ".join(f"{name}={row[name]}" for name in _of_users(differing))
        words.setdefault(row["__day"], []).append(f"{row[ONLY_IN]}: {values}")
    return words


def example_rows(differing: DataFrame, day: Column, identity: Iterable[str]) -> DataFrame:
    """A few differing rows of each day, as Spark writes them: times in UTC, wherever this process runs."""
    order = [F.col(quote(name)) for name in (*identity, ONLY_IN)]
    within = F.row_number().over(Window.partitionBy(day).orderBy(*order))
    some = differing.withColumn("__number", within).where(F.col("__number") <= SHOWN * 2).orderBy(*order)
    shown = (F.col(quote(name)).cast("string").alias(name) for name in _of_users(differing))
    return some.select(day.alias("__day"), ONLY_IN, *shown)


def _of_users(rows: DataFrame) -> list[str]:
    return [name for name in rows.columns if not name.startswith("__")]


def _rows(checksums: Mapping[Day, Checksum]) -> Counter[Day]:
    return Counter({day: each.rows for day, each in checksums.items()})


def _is_among(days: frozenset[Day], day: Column) -> Column:
    dated = [each for each in days if each is not None]
    found = day.isin(dated) if dated else F.lit(False)
    return F.coalesce(found, F.lit(False)) | day.isNull() if None in days else found
