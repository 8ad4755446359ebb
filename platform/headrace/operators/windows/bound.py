"""How much is open: the bound of a suppression that shuts down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import quote
from headrace.operators.bounds import refusal
from headrace.operators.windows.merge import windows_of_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from headrace.description import Bound, WindowedAggregate
    from headrace.errors import TerminalError


def too_much_open(
    partials: DataFrame, node: WindowedAggregate, bound: Bound, inputs: StructType, first_ms: int
) -> TerminalError | None:
    """Why the stream has to stop: in some partition more windows are open than allowed, or their rows are longer as JSON.

    In:     partials  of the windows open after a micro-batch; first_ms: the start of the first of them
    """
    text = F.to_json(F.struct(*(F.col(quote(name)) for name in node.columns)))
    windows = windows_of_partitions(partials, node, inputs, first_ms=first_ms).groupBy("__partition")
    counts = windows.agg(
        F.count(F.lit(1)).alias("records"), F.sum(F.octet_length(text)).alias("bytes")
    ).collect()
    return refusal(
        node.name or "",
        bound,
        {str(row["__partition"]): {unit: row[unit] for unit in ("records", "bytes")} for row in counts},
        "open windows",
    )
