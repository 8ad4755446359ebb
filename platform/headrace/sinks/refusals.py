"""The reports of a sink's tasks: rows that the store refuses, or that the store is away.

Law: a refused row stands once in the table of refused rows, however often it is delivered: its identity, its sequence
and its ordinal tell it from all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import structlog
from pyspark.sql import functions as F

from headrace import lake as lakes
from headrace.errors import TerminalError, TransientError
from headrace.fold.aggregates.kind import whole
from headrace.fold.values.json_text import json_objects
from headrace.lake.care import merge
from headrace.spark.frames import local_frame
from headrace.spark.one_task import made_of
from headrace.spark.rows.merge import upsert

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame

    from headrace.description.sink import Delivery

logger = structlog.get_logger(__name__)

# What tasks report: a row for each refused row, or one that says that the store is away or how many rows are staged.
OUTCOMES = "sequence BIGINT, ordinal INT, reason STRING, away STRING, staged BIGINT"
REFUSED = pa.schema(
    [
        *((name, pa.string()) for name in ("identity", "row", "reason")),
        ("sequence", pa.int64()),
        ("ordinal", pa.int32()),
    ]
)
IDENTITY = ("identity", "sequence", "ordinal")
CHANGES = REFUSED.append(pa.field(merge.DELETED, pa.bool_()))
SEQUENCE, ORDINAL, REASON = "__sequence", "__ordinal", "__reason"
REFUSED_MAX = 10_000  # of one delivery: beyond it, it is not the rows that are wrong

Refusal = tuple[int, int, str]  # sequence, ordinal, reason


class SinkAwayError(TransientError):
    """The store of a sink does not answer; the stream waits and delivers again."""


def refusals_of(outcomes: Iterable[Sequence[Any]], store: str) -> list[Refusal]:
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


def record_refusals(
    rows: DataFrame | pa.Table, delivery: Delivery, refusals: Sequence[Refusal], store: str
) -> None:
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
    writer = lakes.TableWriter(lakes.create(delivery.refused, REFUSED), lakes.APPENDER)
    record, pick = {"writer": f"refused/{delivery.node}"}, Refused(delivery.identity, delivery.columns)
    if isinstance(rows, pa.Table):
        merge.upsert(writer, merge.FewChanges(pick(_with_reasons(rows, refusals))), IDENTITY, record)
    else:
        reasons = local_frame(rows.sparkSession, refusals, "__sequence BIGINT, __ordinal INT, reason STRING")
        found = rows.join(F.broadcast(reasons.withColumnRenamed("reason", REASON)), [SEQUENCE, ORDINAL])
        upsert(writer, made_of(found, pick, found.columns, schema=CHANGES, whole=False), IDENTITY, record)
    logger.warning(
        "a sink refused rows",
        node=delivery.node,
        store=store,
        rows=len(refusals),
        first=refusals[0][2],
        fix=f"headrace refused {delivery.node}",
    )


def _with_reasons(rows: pa.Table, refusals: Sequence[Refusal]) -> pa.Table:
    """The refused ones of some rows, with REASON."""
    reasons = {(sequence, ordinal): reason for sequence, ordinal, reason in refusals}
    places = zip(rows[SEQUENCE].to_pylist(), rows[ORDINAL].to_pylist(), strict=True)
    found = {at: reasons[place] for at, place in enumerate(places) if place in reasons}
    return rows.take(pa.array([*found], pa.int64())).append_column(
        REASON, pa.array([*found.values()], pa.string())
    )


@dataclass(frozen=True)
class Refused:
    """Makes rows of the table of refused rows; in a task, or in this process."""

    identity: tuple[str, ...]
    columns: tuple[str, ...]

    def __call__(self, rows: pa.Table) -> pa.Table:
        """CHANGES. In: rows  as sinks get them, with REASON."""
        own, columns = (
            json_objects({name: whole(rows[name]) for name in names}, exact=True)
            for names in (self.identity, self.columns)
        )
        kept = pa.repeat(pa.scalar(False), rows.num_rows)
        places = (rows[SEQUENCE], rows[ORDINAL])
        return pa.table([own, columns, rows[REASON], *places, kept], schema=CHANGES)
