"""Examples on a page: records and rows, each with the command that says why."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from headrace.description import quote
from headrace.description.durations import format_duration
from headrace.explain.asking import why, why_not
from headrace.operators.registry import operator_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.quality.books import Books

SHOWN = 5
NESTED = ("array", "map", "struct")
POSITION = ("topic", "partition", "offset")


def late_examples(late: DataFrame) -> list[dict[str, Any]]:
    """The latest of the late records. In: late  as `late_view`."""
    most = late.groupBy(*POSITION).agg(F.max("late_by_ms").alias("late_by_ms"))
    rows = most.orderBy(F.col("late_by_ms").desc(), *POSITION).limit(SHOWN).collect()
    return [
        {
            "what": f"late by {format_duration(row['late_by_ms'])}",
            "command": why_not(*(row[n] for n in POSITION)),
        }
        for row in rows
    ]


def unmatched_examples(books: Books) -> list[dict[str, Any]]:
    """Rows of a node that found no partner; those that have no row at all are not among them."""
    unmatched, node = operator_for(books.node).unmatched, books.node
    if unmatched is None or unmatched.asking or not unmatched.columns or not node.key:
        return []
    alone = reduce(and_, (F.col(quote(name)).isNull() for name in unmatched.columns), F.lit(True))
    # Rows that are final and have no window may share a key: then the other columns tell them apart.
    is_one = node.has_windows or node.day_column is None
    nested = {field.name for field in books.results.schema if field.dataType.typeName() in NESTED}
    names = [
        *node.key,
        *(() if is_one else (n for n in node.columns if n not in node.key and n not in nested)),
    ]
    known = reduce(and_, (F.col(quote(name)).isNotNull() for name in node.key))  # a command names no null
    texts = [F.col(quote(name)).cast("string").alias(name) for name in names]
    rows = (
        books.results.where(alone & known)
        .select(*texts)
        .orderBy(*(quote(name) for name in names))
        .limit(SHOWN)
    )
    return [
        {
            "what": "without a partner",
            "command": why(
                node.required_name, {n: text for n, text in row.asDict().items() if text is not None}
            ),
        }
        for row in rows.collect()
    ]
