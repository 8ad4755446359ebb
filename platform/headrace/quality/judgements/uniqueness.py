"""`no_duplicate_offset`, `windows_are_final` and `rows_are_unique`: what has an identity stands once.

Law: no two rows of the log with an offset agree in topic, partition and offset; no two rows of the results have one identity
(see `Operator.identity`; the columns stand for a place of which it is made).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import quote
from headrace.fold.contract import KEY
from headrace.nodes.rows.sink_rows import identity_of
from headrace.operators.registry import operator_for
from headrace.quality.claims import Check, Finding, nothing_to_judge, rows_unique
from headrace.quality.words import UNDOES, counted, group_text, joined, moment, repair_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from headrace.description import Node

OFFSET = ("topic", "partition", "offset")
SHOWN = 3
COPIES = "__copies"


def no_duplicate_offset(log: DataFrame, topic: str, records: int) -> Check:
    """The check of one log; `records` is its number of rows with an offset."""
    name = "no_duplicate_offset"
    if not records:
        return nothing_to_judge(name, "The log holds no record yet: nothing can stand twice.")
    rows = log.where(F.col("offset").isNotNull())

    def explain(unique: bool) -> Finding:
        if unique:
            words = (
                f"Each of the {counted(records, 'offset')} in the log of {topic} stands there exactly once."
            )
            return Finding(words, {"records": records, "duplicates": 0})
        with copies(rows, OFFSET) as several:
            found, surplus = totals(several)
            first = several.orderBy(*OFFSET).limit(SHOWN).collect()
        shown = [f"partition {r['partition']} offset {r['offset']} ({r[COPIES]} rows)" for r in first]
        words = more_than_once(found, "offset", f"the log of {topic}", surplus)
        return Finding(
            f"{words}, first {joined(shown)}; the sequencer never writes an offset twice: {repair_of([topic])}, "
            f"which {UNDOES}.",
            {"records": records, "duplicates": surplus, "offsets_duplicated": found},
        )

    return Check(name, rows_unique(rows, OFFSET), explain)


def rows_are_unique(results: DataFrame, node: Node) -> Check:
    """The check of any other result table than that of a windowed aggregate."""
    name, table, identity = "rows_are_unique", node.required_name, identity_of(node, results)
    by, rows = [column for column in identity if column != KEY], results.count()

    def explain(unique: bool) -> Finding:
        if unique:
            words = f"Each of the {counted(rows, 'row')} in {table} is the only one of its {joined(by)}."
            return Finding(words, {"rows": rows, "duplicates": 0})
        with copies(results, identity) as several:
            found, surplus = totals(several)
            first = several.orderBy(*(F.col(quote(column)) for column in by)).limit(SHOWN).collect()
        shown = [f"{group_text(r.asDict(), by)} ({r[COPIES]} rows)" for r in first]
        words = more_than_once(found, "row", table, surplus)
        return Finding(
            f"{words}, first {joined(shown)}; backfill the table to leave one row of each.",
            {"rows": rows - surplus, "duplicates": surplus},
        )

    return Check(name, rows_unique(results, identity) if rows else None, explain)


def windows_are_final(results: DataFrame, node: Node) -> Check:
    """The check of the result table of a windowed aggregate."""
    name, table, identity = "windows_are_final", node.required_name, operator_for(node).identity
    by, rows = identity[: identity.index("window_start")], results.count()
    if not rows:
        words = f"{table} holds no closed window yet: nothing can stand twice."
        return nothing_to_judge(name, words)

    def explain(unique: bool) -> Finding:
        if unique:
            words = f"Each of the {counted(rows, 'window')} in {table} stands there exactly once."
            return Finding(words, {"windows": rows, "duplicates": 0})
        with copies(results, identity) as several:
            found, surplus = totals(several)
            starts = several.withColumn("__start", F.unix_millis("window_start"))
            first = starts.orderBy("__start", *(F.col(quote(n)) for n in by)).limit(SHOWN).collect()
            days = several.select(F.to_date("window_start").alias("day")).distinct().orderBy("day").collect()
        shown = [
            f"{group_text(r.asDict(), by)} from {moment(r['__start'])} ({r[COPIES]} rows)" for r in first
        ]
        return Finding(
            f"{more_than_once(found, 'window', table, surplus)}, first {joined(shown)}; "
            f"backfill {joined([r['day'] for r in days])} to leave one row of each.",
            {"windows": rows - surplus, "duplicates": surplus, "windows_duplicated": found},
        )

    return Check(name, rows_unique(results, identity), explain)


@contextmanager
def copies(rows: DataFrame, identity: Sequence[str]) -> Iterator[DataFrame]:
    """The identities that occur more than once, and how often each; one row per identity."""
    counts = rows.groupBy(*(F.col(quote(name)) for name in identity)).agg(F.count(F.lit(1)).alias(COPIES))
    several = counts.where(F.col(COPIES) > 1).persist()
    try:
        yield several
    finally:
        several.unpersist()


def totals(several: DataFrame) -> tuple[int, int]:
    """How many identities there are, and how many rows are too many."""
    total = several.agg(F.count(F.lit(1)).alias("found"), F.sum(F.col(COPIES) - 1).alias("surplus")).first()
    return (total["found"], total["surplus"] or 0) if total is not None else (0, 0)


def more_than_once(count: int, noun: str, where: str, surplus: int) -> str:
    """`2 offsets of the log of readings stand more than once, 3 rows too many`."""
    stand = "stands" if count == 1 else "stand"
    return f"{counted(count, noun)} of {where} {stand} more than once, {counted(surplus, 'row')} too many"
