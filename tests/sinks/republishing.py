"""Two pipelines in a row: the first publishes its results with a Kafka sink, the second reads them with a guard."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import headrace as hr
from tests.broker.pipeline import counts_of

if TYPE_CHECKING:
    from headrace.description import Node
    from headrace.sinks import Sink


def counts(topic: str, to: Sink) -> Node:
    """Final counts and sums per sensor and two minutes."""
    return counts_of(topic).to(to)


def totals(topic: str, to: Sink) -> Node:
    """Counts and sums per sensor as of now."""
    readings = counts_of(topic).topics[0].where("value >= 0")
    running = readings.group_by("sensor_id").aggregate(n=hr.count(), total=hr.sum("value"))
    return running.named("reading_totals").to(to)


FIRST = {"counts": counts, "totals": totals}


def sums_of(results: str) -> Node:
    """Second pipeline: windows added up per sensor."""
    window = "sensor_id STRING, window_start TIMESTAMP"
    topic = hr.Topic(results, key=window, value=f"{window}, window_end TIMESTAMP, n BIGINT, total DOUBLE")
    guarded = replace(topic, replay_guard=hr.ReplayGuard(), idle_timeout=None)
    sums = guarded.group_by("sensor_id").aggregate(windows=hr.count(), n=hr.sum("n"), total=hr.sum("total"))
    return sums.named("sums")


def latest_of(results: str) -> Node:
    """Second pipeline: the latest total per sensor."""
    topic = hr.Topic(results, key="sensor_id STRING", value="sensor_id STRING, n BIGINT, total DOUBLE")
    guarded = replace(topic, replay_guard=hr.ReplayGuard(), idle_timeout=None)
    latest = guarded.group_by("sensor_id").aggregate(
        updates=hr.count(), n=hr.last("n"), total=hr.last("total")
    )
    return latest.named("latest")
