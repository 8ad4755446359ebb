"""Numbers that differ from micro-batch to micro-batch, kept out of the code that Spark generates.

Spark writes numbers into the Java that it generates for a query. With another number that is another class: compiled by
Janino and, once it is hot, by the JVM, in every micro-batch anew; more than half of a small one's time. Arrays and maps are
handed to the code by reference, and it stays the same. They are written as SQL: one call into the JVM instead of ten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr


def varying(value: int | None) -> Expr:
    """A number, as BIGINT.

    It is the only item of an array, at a place that the optimizer cannot work out and so does not replace. It is no
    literal: nothing skips files by it.
    """
    return F.expr(f"get(array({_bigint(value)}), spark_partition_id() & 0)")


def _bigint(value: int | None) -> str:
    return "CAST(NULL AS BIGINT)" if value is None else f"{value}L"
