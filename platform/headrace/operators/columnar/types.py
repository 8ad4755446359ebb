"""Which rows and types Arrow is trusted with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as T

from headrace.description import Transform
from headrace.operators.aggregates import SMALL_INTEGERS

if TYPE_CHECKING:
    from headrace.description import Stream

# Both compare these alike, and tell them apart alike. Of floats Spark has opinions: -0.0, and what is no number.
COMPARED = (T.StringType, *SMALL_INTEGERS, T.LongType, T.BooleanType, T.DateType)
# Columns that are only carried along. Lists and structs take Arrow's Java library several times as long to write.
CARRIED = (
    T.StringType,
    T.BinaryType,
    T.BooleanType,
    T.NumericType,
    T.DateType,
    T.TimestampType,
)


def is_transformed(stream: Stream) -> bool:
    """Whether a step is a function of somebody's, which may be anything, also slow."""
    return any(isinstance(step, Transform) for branch in stream.branches for step in branch.steps)
