"""Numbers that differ from micro-batch to micro-batch, kept out of the code that Spark generates.

Spark writes numbers into the Java that it generates for a query. With another number that is another class: compiled by
Janino and, once it is hot, by the JVM, in every micro-batch anew; more than half of a small one's time. Arrays and maps are
handed to the code by reference, and it stays the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column as Expr


def varying(value: int | None) -> Expr:
    """A number, as BIGINT.

    It is the only item of an array, at a place that the optimizer cannot work out and so does not replace. It is no
    literal: nothing skips files by it.
    """
    nowhere_else = F.spark_partition_id().bitwiseAND(F.lit(0))
    return F.get(F.array(F.lit(value).cast("long")), nowhere_else)


def varying_by(column: str, values: Mapping[int, int] | Mapping[str, int]) -> Expr:
    """The number of each partition of a topic, as BIGINT; null for one that has none.

    In: column  holds the partition's number
    """
    if not values:
        return F.lit(None).cast("long")
    pairs = [F.lit(item) for partition, value in values.items() for item in (int(partition), value)]
    return F.create_map(*pairs)[F.col(column)].cast("long")
