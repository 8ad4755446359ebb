"""The four jobs that Headrace and its peers' applications do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import headrace as hr
from benchmarks import oracle

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from headrace.description import Node

PREFIX, WARM_UP_PREFIX = (
    "ks-",
    "ks-warm-",
)  # of the names of topics: those that are measured, and those that warm up


@dataclass(frozen=True)
class Job:
    """One of the four.

    name     that of the peers' workload, in upper case
    log      in `peers.logs`; `topics` by name
    variant  of the Kafka Streams application: durable state
    records  that are measured
    key      Kafka Streams' key, of our columns
    wanted   from whole topics, in the order of `topics`: what the results must be, `key` and the columns of Kafka Streams'
             values; None where that depends on the wall clock
    """

    name: str
    title: str
    log: str
    topics: tuple[str, ...]
    variant: str
    node: Node
    records: int = 3_000_000
    key: str = ""
    wanted: Callable[..., DataFrame] | None = None


def jobs(prefix: str = PREFIX) -> tuple[Job, ...]:
    """The jobs, on topics whose names begin so."""

    def topic(name: str, key: str, value: str, **options: Any) -> hr.Topic:
        return hr.Topic(f"{prefix}{name}", key=key, value=value, idle_timeout=None, **options)

    visits = topic("visits", "customerId STRING", "customerId STRING, visitorId STRING, action STRING")
    readings = topic("readings", "sensorId STRING", "sensorId STRING, value BIGINT")
    positions = topic("positions", "id STRING", "client STRING, ticker STRING, amount BIGINT")
    tickers = topic("tickers", "ticker STRING", "exchange STRING, name STRING, founded INT")
    tightenings = topic(
        "tightenings",
        "key STRING",
        "customer STRING, screw STRING, count BIGINT",
        replay_guard=hr.ReplayGuard(),
    )
    batches = (
        visits.group_by("customerId")
        .batch(max_records=100, max_wait="10 seconds", collect=["visitorId", "action"])
        .named("batches")
    )
    windows = (
        readings.group_by("sensorId")
        .window(hr.tumbling("2 minutes"), grace="2 minutes")
        .aggregate(count=hr.count(), sum=hr.sum("value"))
        .suppress(hr.until_window_closes())
        .named("windows")
    )
    enriched = positions.table().join(tickers.table(), on="ticker", how="left").named("enriched")
    totals = tightenings.group_by("screw").aggregate(sum=hr.sum("count")).named("totals")
    return (
        Job("W1", "batched sink", "visits", (visits.name,), "mem-log", batches),
        Job(
            "W2",
            "suppressed windows",
            "readings",
            (readings.name,),
            "rocks",
            windows,
            key="concat_ws('@', sensorId, unix_millis(window_start))",
            wanted=oracle.windows_of,
        ),
        Job(
            "W3",
            "foreign-key join",
            "positions",
            (positions.name, tickers.name),
            "rocks",
            enriched,
            key="id",
            wanted=oracle.joined_of,
        ),
        Job(
            "W4",
            "replay-proof totals",
            "tightenings",
            (tightenings.name,),
            "rocks",
            totals,
            records=5_000_000,
            key="screw",
            wanted=oracle.totals_of,
        ),
    )
