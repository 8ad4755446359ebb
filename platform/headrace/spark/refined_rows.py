"""Row-wise steps after a table, which SQL computes between two steps of a fold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import Select, Where, WithColumn, parse_expression, quote
from headrace.fold.changes.deltas import PORT
from headrace.fold.changes.station import MADE, PASSES, Refinement
from headrace.spark.refusals import in_words, refusals_explained
from headrace.spark.row_steps import expression_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from headrace.description.refined import RowStep

_CARRIED, _PASSES = "__carried", "__passes"


def refined(refinement: Refinement, rows: DataFrame) -> DataFrame:
    """Add what steps make of the rows of one relation.

    In:  rows  of this relation, and of others, in which its columns are null
    Law: row by row. Nothing is computed of rows of other relations, nor of rows that an earlier `where` refuses.
    """
    own = F.lit(True) if refinement.port is None else F.col(PORT) == refinement.port
    source = (F.col(quote(carried)).alias(name) for name, carried in refinement.source.items())
    whole = F.struct(*(F.col(quote(name)) for name in rows.columns))
    frame = rows.select(whole.alias(_CARRIED), own.alias(_PASSES), *source)
    for step in refinement.steps:
        with refusals_explained(in_words(step)):
            frame = _applied(frame, step, refinement.key)
    carried = (F.col(_CARRIED).getField(name).alias(name) for name in rows.columns)
    made = (F.col(quote(name)).alias(f"{refinement.part}:{MADE}{name}") for name in refinement.made)
    passes = F.col(_PASSES).alias(f"{refinement.part}:{PASSES}")
    has_where = any(isinstance(step, Where) for step in refinement.steps)
    return frame.select(*carried, *made, *((passes,) if has_where else ()))


def _applied(frame: DataFrame, step: RowStep, key: Sequence[str]) -> DataFrame:
    match step:
        case Where(expression):
            return frame.withColumn(_PASSES, F.coalesce(_if_passes(expression), F.lit(False)))
        case WithColumn(name, expression):
            return frame.withColumn(name, _if_passes(expression))
        case Select(expressions):
            parsed = [parse_expression(sql, "select") for sql in expressions]
            names = {name.lower() for name in key}
            made = (
                _if_passes(each.sql).alias(each.name) for each in parsed if each.name.lower() not in names
            )
            return frame.select(_CARRIED, _PASSES, *(F.col(quote(name)) for name in key), *made)


def _if_passes(expression: str) -> Column:
    return F.when(F.col(_PASSES), expression_of(expression))
