"""The figures of a running query: the same on the asset's page and at the Prometheus endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from headrace.lifecycle import live_limits as limits
from headrace.streams import mirroring, topic_reader
from headrace.streams.status import buffered
from headrace.writing import state_figures
from headrace.writing.delivery import sink_quotas

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.streams.status.stream_status import StreamStatus

Number = int | float
V = TypeVar("V")

# Of the fates, those that are shown, by the name that they are shown under.
FATES: Mapping[str, str] = {
    "late": "late",
    "duplicate": "duplicates",
    "replay": "replays",
    "dead_letter": "dead_letters",
    "filtered": "filtered",
    "tombstone": "tombstones",
}
MEANINGS: Mapping[str, str] = {
    "rows_per_second": "Records handled per second, over the last half minute.",
    "input_rows_per_second": "Records that came into the topic per second, over the last half minute.",
    "rows_total": "Records handled since the run began.",
    "lag_records": "Records that wait: in Kafka for a log, in its logs for a node.",
    "lag_seconds": "How far behind in commit time.",
    "batch_seconds": "How long the last trigger with records took.",
    "trigger_seconds": "The shortest time between two micro-batches.",
    "state_bytes": "Size of the state tables.",
    "state_bytes_read": "Bytes of the state's files that the last micro-batch read; 0: it remembered all.",
    "cost_per_million_records": "Of a log: what a million records cost at the rate of the last half minute.",
    "failures": "Failures in a row of a query that restarts.",
    "stream_time_seconds": "The lowest stream time of the non-empty partitions, in seconds since 1970.",
    "stream_time_behind_seconds": "How far stream time is behind the wall clock.",
    **{
        name: f"Records of fate {fate} since the beginning (of a log: since the run began)."
        for fate, name in FATES.items()
    },
    **state_figures.MEANINGS,
    **topic_reader.MEANINGS,
    **buffered.MEANINGS,
    **limits.MEANINGS,
    **sink_quotas.MEANINGS,
    **mirroring.MEANINGS,
}


def numbers(status: StreamStatus, wall: float, price_per_hour: float | None = None) -> dict[str, Number]:
    """Give the figures of a query, by the names of `MEANINGS`; unknown ones are left out.

    In: wall            seconds since 1970
        price_per_hour  of the machines of the run, in any currency; None: costs are not known
    """
    behind = None if status.batches == 0 else status.lag_seconds  # before its first commit nothing is behind
    stream_time = None if status.stream_time_ms is None else status.stream_time_ms / 1000
    known: dict[str, Number | None] = {
        "rows_per_second": round(status.rows_per_second, 1),
        "input_rows_per_second": _rounded(status.input_rows_per_second),
        "rows_total": status.rows_total,
        "lag_records": status.lag_records,
        "lag_seconds": _rounded(behind),
        "batch_seconds": _rounded(status.batch_seconds, 2),
        "trigger_seconds": status.trigger_seconds,
        "state_bytes": status.state_bytes,
        "state_bytes_read": status.state_bytes_read,
        **{name: status.fates.get(fate) for fate, name in FATES.items()},
        **status.reads,
        **status.readers,
        **status.buffer,
        **status.limits,
        **status.quotas,
        **status.mirror,
        "cost_per_million_records": _cost(status, price_per_hour),
        "failures": status.failures or None,
        "stream_time_seconds": stream_time,
        "stream_time_behind_seconds": None if stream_time is None else round(wall - stream_time, 1),
    }
    return {name: value for name, value in known.items() if value is not None}


def _cost(status: StreamStatus, price_per_hour: float | None) -> float | None:
    """One run reads a log for all its nodes, so its price is the log's."""
    if price_per_hour is None or status.kind != "log" or not status.rows_per_second:
        return None
    return round(price_per_hour / (status.rows_per_second * 3600) * 1_000_000, 6)


def _rounded(value: float | None, digits: int = 1) -> float | None:
    return None if value is None else round(float(value), digits)
