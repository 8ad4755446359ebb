"""The reports of a sink's tasks: rows that the store refuses, or that the store is away.

Law: a refused row stands once in the table of refused rows, however often it is delivered: its identity, its sequence
and its ordinal tell it from all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from pyspark.sql import functions as F
from pyspark.sql import types as T

from headrace import lake as lakes
from headrace.errors import TerminalError, TransientError
from headrace.spark.frames import local_frame
from headrace.spark.one_task import arrow_schema
from headrace.spark.rows.json_rows import as_json
from headrace.spark.rows.merge import upsert

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

    from headrace.description.sink import Delivery

logger = structlog.get_logger(__name__)

# What tasks report: a row for each refused row, or one that says that the store is away or how many rows are staged.
OUTCOMES = "sequence BIGINT, ordinal INT, reason STRING, away STRING, staged BIGINT"
REFUSED = "identity STRING, row STRING, reason STRING, sequence BIGINT, ordinal INT"
REFUSED_MAX = 10_000  # of one delivery: beyond it, it is not the rows that are wrong

Refusal = tuple[int, int, str]  # sequence, ordinal, reason


class SinkAwayError(TransientError):
    """The store of a sink does not answer; the stream waits and delivers again."""


def refusals_of(outcomes: Iterable[T.Row], store: str) -> list[Refusal]:
    """The refusals that the tasks report.

    Raises: SinkAwayError when the store was away for one of them.
    """
    found: list[Refusal] = []
    for sequence, ordinal, reason, away, _ in outcomes:
        if away is not None:
            raise SinkAwayError(
                f"{store} was lost in the middle of a delivery.",
                detail=away,
                hint="The stream waits and delivers again by itself; start what is down.",
            )
        if reason is not None:
            found.append((sequence, ordinal, reason))
    return found


def record_refusals(rows: DataFrame, delivery: Delivery, refusals: list[Refusal], store: str) -> None:
    """Put the rows that the store refused into the table of refused rows, each with the reason.

    Raises: TerminalError when the store refuses more than `REFUSED_MAX` rows of one delivery.
    """
    if not refusals:
        return
    if len(refusals) > REFUSED_MAX:
        raise TerminalError(
            f"{store} refuses more than {REFUSED_MAX:,} rows of one delivery.",
            detail=f"The first: {refusals[0][2]}",
            hint="Correct the store (a constraint, a column's type), then start the stream again; nothing is lost.",
        )
    spark = rows.sparkSession
    reasons = local_frame(spark, refusals, "__sequence BIGINT, __ordinal INT, reason STRING")
    refused = rows.join(F.broadcast(reasons), ["__sequence", "__ordinal"]).select(
        as_json(delivery.identity).alias("identity"),
        as_json(delivery.columns).alias("row"),
        "reason",
        F.col("__sequence").alias("sequence"),
        F.col("__ordinal").alias("ordinal"),
        F.lit(False).alias("__deleted"),
    )
    schema = T.StructType.fromDDL(REFUSED)
    assert isinstance(schema, T.StructType)
    table = lakes.create(delivery.refused, arrow_schema(schema))
    writer, record = lakes.TableWriter(table, lakes.APPENDER), {"writer": f"refused/{delivery.node}"}
    upsert(writer, refused, ("identity", "sequence", "ordinal"), record)
    logger.warning(
        "a sink refused rows",
        node=delivery.node,
        store=store,
        rows=len(refusals),
        first=refusals[0][2],
        fix=f"headrace refused {delivery.node}",
    )
