"""The rows of a node's tables before a change beside those after it.

Law: of appended results only rows are compared that both had when the slower of the two stood where it stands: what came
later is no difference. Tables of current results are compared as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import quote
from headrace.lifecycle.backfills.compare_rows import LOG, ONLY_IN, TABLE, compare_rows
from headrace.operators.contract import SEQUENCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

SHOWN = 5  # rows of each side


@dataclass(frozen=True)
class Differences:
    """The differences.

    rows_before, rows_after  of the tables, as far as they are compared
    added, removed, changed  rows, by key; a changed row has other values in a column that both tables have
    columns_added, columns_removed  columns that only one of them has, or has with another type
    examples                 some rows, in words
    """

    rows_before: int
    rows_after: int
    added: int
    removed: int
    changed: int
    columns_added: tuple[str, ...] = ()
    columns_removed: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        """A few lines."""
        head = (
            f"{self.rows_before:,} rows became {self.rows_after:,}: "
            f"{self.added:,} added, {self.removed:,} removed, {self.changed:,} changed"
        )
        lines = [head]
        if self.columns_added:
            lines.append(f"new columns: {', '.join(self.columns_added)}")
        if self.columns_removed:
            lines.append(f"columns that are gone: {', '.join(self.columns_removed)}")
        return "\n".join([*lines, *self.examples])


def compare_generations(
    before: DataFrame, after: DataFrame, key: Sequence[str], through_ms: int
) -> Differences:
    """Compare the tables of a node.

    In: before, after  all columns of the result tables
        key            the columns that say what a row is about
        through_ms     the log commit through which both have read
    """
    if SEQUENCE in before.columns and SEQUENCE in after.columns:
        before, after = (side.where(F.col(SEQUENCE) <= through_ms) for side in (before, after))
    old, new = (
        {f.name: f.dataType for f in side.schema if not f.name.startswith("__")} for side in (before, after)
    )
    shared = [name for name in new if name in old and old[name] == new[name]]
    columns = (
        tuple(name for name in new if name not in shared),
        tuple(name for name in old if name not in shared),
    )
    if not shared:
        counts = before.count(), after.count()
        return Differences(*counts, counts[1], counts[0], 0, *columns)
    own = [name for name in key if name in shared]
    by = own if own and len(own) == len(key) else shared
    olds, news = (side.select(*map(quote, shared)) for side in (before, after))
    found = compare_rows(news, olds, F.lit(None).cast("date"))
    counts = found.stored[None], found.recomputed[None]
    if not found.odd:
        return Differences(*counts, 0, 0, 0, *columns)
    differing = found.differing.persist()
    try:
        return Differences(*counts, *_counted(differing, by), *columns, _examples(differing, by))
    finally:
        differing.unpersist()


def _counted(differing: DataFrame, key: Sequence[str]) -> tuple[int, int, int]:
    """Rows added, removed, changed."""
    sides = (F.count_if(F.col(ONLY_IN) == side).alias(name) for side, name in ((LOG, "__n"), (TABLE, "__o")))
    each = differing.groupBy(*(F.col(quote(name)) for name in key)).agg(*sides)
    new, old = F.col("__n"), F.col("__o")
    sums = (new - F.least(new, old), old - F.least(new, old), F.least(new, old))
    row = each.agg(*(F.coalesce(F.sum(value), F.lit(0)) for value in sums)).first()
    assert row is not None
    return int(row[0]), int(row[1]), int(row[2])


def _examples(differing: DataFrame, key: Sequence[str]) -> tuple[str, ...]:
    users = [name for name in differing.columns if name != ONLY_IN]
    shown = (F.col(quote(name)).cast("string").alias(name) for name in users)
    order = [*(F.col(quote(name)) for name in key), F.col(ONLY_IN).desc()]
    rows = differing.orderBy(*order).limit(2 * SHOWN).select(ONLY_IN, *shown).collect()
    words = {LOG: "after", TABLE: "before"}
    return tuple(
        f"{words[row[ONLY_IN]]}: {', '.join(f'{name}={row[name]}' for name in users)}" for row in rows
    )
