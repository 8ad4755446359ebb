"""Where a row stands in the log's order, as columns of numbers: commit time, topic, partition, offset.

A topic is its number among the topics of a node, which are sorted: so numbers compare as names do.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql import types as T

from headrace.spark.one_task import NotCertainError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column as Expr

PLACE_TYPES = {
    "__ingested_ms": T.LongType(),
    "__source": T.ByteType(),
    "__partition": T.IntegerType(),
    "__offset": T.LongType(),
}
PLACE = tuple(PLACE_TYPES)


def sorted_topics(topics: Sequence[str]) -> tuple[str, ...]:
    """Topics as they are numbered. Spark compares texts by their bytes."""
    return tuple(sorted(topics, key=str.encode))


def source(topics: Sequence[str], among: Sequence[str]) -> Expr:
    """`__source` of rows of some topics, for Spark."""
    numbers = [(name, F.lit(number).cast("byte")) for number, name in enumerate(among) if name in topics]
    cases = ((F.col("__topic") == name, number) for name, number in numbers[1:])
    return reduce(lambda rest, case: F.when(*case).otherwise(rest), cases, numbers[0][1]).alias("__source")


def topic_names(numbers: pa.ChunkedArray, topics: Sequence[str]) -> pa.ChunkedArray:
    """The names of topics that are given by number."""
    return pa.chunked_array([pa.array(topics, pa.string())]).take(numbers)


def as_position(rows: pa.Table, topics: Sequence[str]) -> pa.StructArray:
    """The columns of places as `rows.position` makes them."""
    named = {
        "__ingested_ms": rows["__ingested_ms"].cast(pa.int64()),
        "__topic": topic_names(rows["__source"], topics),
        "__partition": rows["__partition"].cast(pa.int32()),
        "__offset": rows["__offset"].cast(pa.int64()),
    }
    return pa.StructArray.from_arrays([column.combine_chunks() for column in named.values()], names=[*named])


def places(at: pa.StructArray, topics: Sequence[str]) -> dict[str, pa.Array]:
    """The columns of places of positions.

    Raises: NotCertainError when one lies in another topic
    """
    fields = {name: at.field(name) for name in ("__ingested_ms", "__partition", "__offset")}
    number = pc.index_in(at.field("__topic"), pa.array(topics, pa.string()))
    if number.null_count:
        raise NotCertainError("a position in another topic")
    columns = fields | {"__source": number.cast(pa.int8())}
    return {name: columns[name] for name in PLACE}


def not_before(left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> np.ndarray:
    """Whether places are equal or later, by the first number that differs."""
    found = np.ones(len(left[0]), bool)
    for mine, other in zip(reversed(left), reversed(right), strict=True):
        found = (mine > other) | ((mine == other) & found)
    return found


def numbers_of(rows: pa.Table | Mapping[str, pa.Array], names: Sequence[str]) -> list[np.ndarray]:
    """Columns of numbers, 0 where one is null."""
    columns = (rows[name] for name in names)
    return [(column.fill_null(0) if column.null_count else column).to_numpy() for column in columns]
