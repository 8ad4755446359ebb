"""One pipeline with every operator and every sink, over two topics. No Spark and no broker: a stream process imports it.

Names of topics, and of a sink's topic and tables, begin with the life's own prefix, so that many lives share one broker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import headrace as hr

if TYPE_CHECKING:
    from headrace.description import Node
    from headrace.sinks import Sink

PARTITIONS = {"readings": 2, "stations": 1}
AHEAD = "1 day"
AGGREGATES: dict[str, Any] = {"n": hr.count(), "total": hr.sum("value"), "newest": hr.last("value")}
Wrap = Callable[["Sink"], "Sink"]


def topics(prefix: str, idle_timeout: str | None = "5 seconds") -> tuple[hr.Topic, hr.Topic]:
    """The readings, behind a replay guard, and the stations that they refer to."""
    readings = hr.Topic(
        f"{prefix}-readings",
        key="sensor STRING",
        value="station STRING, value DOUBLE",
        replay_guard=hr.ReplayGuard(),
        idle_timeout=idle_timeout,
    )
    stations = hr.Topic(f"{prefix}-stations", key="station STRING", value="city STRING, height INT")
    return readings, stations


def results_topic(prefix: str) -> str:
    """The topic to which the Kafka sinks write."""
    return f"{prefix}-results"


def table(prefix: str, node: str) -> str:
    """The table of PostgreSQL to which a node's sink writes."""
    return f"{prefix}_{node}"


def pipeline(
    prefix: str, bootstrap: str, wrap: Wrap = lambda sink: sink, *, revised: bool = False
) -> dict[str, Node]:
    """The nodes by name.

    In: wrap     around each sink: a stream process may have it die before or after a delivery
        revised  with other time limits, for which tables of the same names are rebuilt
    """
    readings, stations = topics(prefix)
    places, latest, grouped = stations.table(), readings.table(), readings.where("value <> 3").group_by()
    to_kafka = wrap(hr.KafkaSink(results_topic(prefix), options={"bootstrap.servers": bootstrap}))

    def to_postgres(node: str) -> Sink:
        return wrap(hr.PostgresSink(table(prefix, node)))

    windows = grouped.window(hr.tumbling("10 seconds"), grace="2 seconds").aggregate(**AGGREGATES)
    stationed = readings.group_by("station")
    wait = "6 seconds" if revised else "4 seconds"
    limit = hr.until_time_limit(
        "50 seconds" if revised else "60 seconds", max_records=3, when_full="emit_early"
    )
    high = ("left.value AS value", "coalesce(height, 0) > 2 AS high")
    nodes: list[Node] = [
        windows.suppress(hr.until_window_closes()).to(to_kafka).to(to_postgres("final")).named("final"),
        stationed.window(hr.hopping("10 seconds", "4 seconds"), grace="1 second")
        .aggregate(**AGGREGATES)
        .named("hopping"),
        grouped.window(hr.sliding("4 seconds"), grace="1 second").aggregate(n=hr.count()).named("sliding"),
        grouped.window(hr.session("2 seconds"), grace=0).aggregate(**AGGREGATES).named("sessions"),
        stationed.aggregate(**AGGREGATES).to(to_postgres("totals")).named("totals"),
        readings.with_column("entry", "str_to_map(if(value = 4, 'a:1,a:2', 'a:1'))['a']")
        .group_by("station")
        .aggregate(**AGGREGATES)
        .named("partly"),  # the step raises for some records
        stationed.batch(max_records=3, max_wait="8 seconds", collect=["value"])
        .to(to_postgres("batches"))
        .named("batches"),
        grouped.aggregate(**AGGREGATES).suppress(hr.until_time_limit(wait)).named("limited"),
        latest.suppress(limit).named("early"),
        latest.where("value > 2").named("latest"),
        latest.join(places, on="station", how="left").named("joined"),
        latest.join(places, on="station", select=high).named("selected"),
        latest.join(places, on="station").group_by("city").aggregate(n=hr.count()).named("cities"),
        stationed.aggregate(**AGGREGATES).join(places, on="station", how="left").named("of_stations"),
        readings.lookup(places, on="station", complete_first=False).named("found"),
        readings.lookup(
            places, on="station", as_of="event", history="20 seconds", complete_first=False
        ).named("valid"),
    ]
    return {node.required_name: replace(node) for node in nodes}


NAMES = tuple(pipeline("none", "none"))
