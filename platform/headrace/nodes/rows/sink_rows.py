"""Result rows as sinks get them: each with its place in the log's order.

Law: a row is told from all others by the log commit that caused it (`__sequence`) and its place among the rows of that
commit (`__place`). Both follow from the row's cause and its key, and not from cuts, buckets, files or other rows. So a
backfill that removes a row leaves the places of all others. A place is made of the columns of `Operator.order`; of a
group's key it holds a hash, so that an erased key stands in no place. `__ordinal` is the rank by place among the rows that
the commit has now.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from headrace.description import quote
from headrace.fold.contract import DELETED
from headrace.fold.records import CHAIN, ELEMENT
from headrace.operators.contract import OF_PLACE, ORDER_OF_CHANGES, PLACE, SEQUENCE, TIMESTAMP
from headrace.operators.registry import operator_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from headrace.description import Node

ORDINAL = "__ordinal"
HASH_BYTES = 16  # of SHA-256
LOWEST = -(1 << 63)
THERE, NULL, END = (bytearray([byte]) for byte in (0x00, 0xFF, 0x00))  # so nulls come last


def final_rows(node: Node, results: DataFrame) -> DataFrame:
    """Rows of appended results as sinks get them.

    In:  results  with all rows that were final at the same commit, or none of them
    Out: the node's columns, `__deleted` BOOLEAN, `__timestamp` TIMESTAMP, `__sequence` BIGINT (the commit), `__place`
         BINARY (the place within it) and `__ordinal` INT (the rank by place)
    """
    return _placed(node, results, operator_for(node).order)


def changed_rows(node: Node, changes: DataFrame) -> DataFrame:
    """The same of current results: one row for each key and log commit that changes it.

    In:  changes  of an increment (see `changes.collect.changes_of`)
    """
    return _placed(node, changes, ORDER_OF_CHANGES)


def identity_of(node: Node, rows: DataFrame) -> tuple[str, ...]:
    """The identity of a node's rows in columns of its table: `__place` is given by the columns that it is made of."""
    operator = operator_for(node)
    order = tuple(name for name in operator.order if name in rows.columns)
    return tuple(
        dict.fromkeys(each for name in operator.identity for each in (order if name == PLACE else (name,)))
    )


def with_place(node: Node, results: DataFrame) -> DataFrame:
    """Rows of a node's table with all columns of their identity."""
    operator = operator_for(node)
    if PLACE not in operator.identity or PLACE in results.columns:
        return results
    return results.withColumn(PLACE, place_of(results, operator.order))


def _placed(node: Node, rows: DataFrame, order: Sequence[str]) -> DataFrame:
    rank = F.row_number().over(Window.partitionBy(SEQUENCE).orderBy(PLACE))
    deleted = F.col(DELETED) if DELETED in rows.columns else F.lit(False)
    own = [name for name in operator_for(node).identity if name not in (*node.columns, *OF_PLACE)]
    placed = rows.select(
        *(F.col(quote(name)) for name in node.columns),
        deleted.alias(DELETED),
        F.timestamp_millis(TIMESTAMP).alias(TIMESTAMP),
        SEQUENCE,
        place_of(rows, order).alias(PLACE),
        *own,
        *([_chain(rows, node).alias(CHAIN)] if CHAIN in rows.columns else []),
    )
    return placed.withColumn(ORDINAL, rank - 1)


def _chain(rows: DataFrame, node: Node) -> Column:
    """The source chain of each row (see `hops.closed_chains`)."""
    element = [F.lit(","), F.col(ELEMENT).cast("string")] if ELEMENT in rows.columns else []
    own = F.lit(f'],["{node.required_name}",0,')
    return F.concat(F.col(CHAIN), *element, own, F.col(SEQUENCE).cast("string"), F.lit("]]"))


def place_of(rows: DataFrame, order: Sequence[str]) -> Column:
    """Bytes that compare as the rows do by these columns, nulls last. In: order  columns; some may be missing."""
    names = [name for name in order if name in rows.columns]
    parts = [_sortable(name, rows.schema[name].dataType) for name in names]
    return reduce(F.concat, parts)


def _sortable(name: str, data_type: T.DataType) -> Column:
    value = F.col(quote(name))
    match data_type:
        case T.StringType():  # of Kafka's names, which hold no zero
            found = F.concat(value.cast("binary"), F.lit(END))
        case T.BinaryType():
            found = F.substring(F.unhex(F.sha2(value, 256)), 1, HASH_BYTES)
        case T.TimestampType() | T.TimestampNTZType():
            found = _big_endian(F.unix_micros(value.cast("timestamp")))
        case _:
            found = _big_endian(value.cast("long"))
    return F.when(value.isNull(), F.lit(NULL)).otherwise(F.concat(F.lit(THERE), found))


def _big_endian(number: Column) -> Column:
    """Eight bytes; with the sign turned round they compare as the numbers do."""
    return F.unhex(F.lpad(F.hex(number.bitwiseXOR(F.lit(LOWEST))), 16, "0"))
