"""The rows that a log leads to beside the rows that a table holds, day by day.

Law: a day is equal if both sides have the same checksum (`spark.rows.checksums`). On other days all rows are compared, and
duplicates count. So an equal day takes one pass over each side, and moves no row.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.description import quote
from headrace.spark.rows.checksums import Checksum, checksums
from headrace.spark.rows.comparable import comparable_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

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
    differing           the rows that only one side has, as `comparable_rows`; ONLY_IN is `log` or `table`
    """

    recomputed: Counter[Day]
    stored: Counter[Day]
    odd: frozenset[Day]
    differing: DataFrame

    @property
    def days(self) -> frozenset[Day]:
        """The days on which a side has rows."""
        return frozenset({*self.recomputed, *self.stored})


def compare_rows(
    recomputed: DataFrame, stored: DataFrame, day: Column, on_recomputed: Callable[[], None] = lambda: None
) -> Comparison:
    """Compare the columns of `stored`.

    In: day            of a row of either side, DATE
        on_recomputed  called once all rows of the log's side are known
    """
    log, table = (comparable_rows(rows, stored.columns) for rows in (recomputed, stored))
    columns = stored.columns
    of_log = checksums(log, columns, day)
    on_recomputed()
    of_table = checksums(table, columns, day)
    odd = frozenset(d for d in {*of_log, *of_table} if of_log.get(d) != of_table.get(d))
    differing = differing_rows(*(side.where(_is_among(odd, day)) for side in (log, table)))
    return Comparison(_rows(of_log), _rows(of_table), odd, differing)


def differing_rows(log: DataFrame, table: DataFrame) -> DataFrame:
    """See `Comparison.differing`. In: log, table  comparable rows with the same columns."""
    only_log = log.exceptAll(table).withColumn(ONLY_IN, F.lit(LOG))
    return only_log.unionByName(table.exceptAll(log).withColumn(ONLY_IN, F.lit(TABLE)))


def examples_of(differing: DataFrame, day: Column, identity: Iterable[str]) -> Mapping[Day, Sequence[str]]:
    """For each day a few differing rows in words, as Spark writes them: times in UTC, wherever this process runs."""
    users = [name for name in differing.columns if not name.startswith("__")]
    order = [F.col(quote(name)) for name in (*identity, ONLY_IN)]
    within = F.row_number().over(Window.partitionBy(day).orderBy(*order))
    some = differing.withColumn("__number", within).where(F.col("__number") <= SHOWN * 2).orderBy(*order)
    shown = (F.col(quote(name)).cast("string").alias(name) for name in users)
    words: dict[Day, list[str]] = {}
    for row in some.select(day.alias("__day"), ONLY_IN, *shown).collect():
        values = ", ".join(f"{name}={row[name]}" for name in users)
        words.setdefault(row["__day"], []).append(f"{row[ONLY_IN]}: {values}")
    return words


def _rows(checksums: Mapping[Day, Checksum]) -> Counter[Day]:
    return Counter({day: each.rows for day, each in checksums.items()})


def _is_among(days: frozenset[Day], day: Column) -> Column:
    dated = [each for each in days if each is not None]
    found = day.isin(dated) if dated else F.lit(False)
    return F.coalesce(found, F.lit(False)) | day.isNull() if None in days else found
