"""The order of nodes that read nodes, and what lies below a topic."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.nodes.topics import longest_wait_ms, nodes_below, topics_beside, topics_of, upstream_first
from tests.scenarios.chained import COUNTS, ENRICHED, QUIET, READINGS, SENSORS, SITES

pytestmark = pytest.mark.fast

HOURS = (
    COUNTS.as_stream()
    .group_by("sensor")
    .window(hr.tumbling("1 hour"), grace="0 minutes")
    .aggregate(n=hr.sum("n"))
    .suppress(hr.until_window_closes())
    .named("hours")
)
NODES = [QUIET, SITES, HOURS, COUNTS, ENRICHED]


def test_a_node_that_is_read_comes_first_and_keeps_its_sinks() -> None:
    sending = COUNTS.to(hr.KafkaSink("counts"))
    assert upstream_first([QUIET, sending]) == [sending, QUIET]


def test_below_a_topic_lies_what_reads_it_through_others_too() -> None:
    assert [node.name for node in nodes_below(READINGS, NODES)] == [
        "counts",
        "quiet",
        "enriched",
        "sites",
        "hours",
    ]
    assert [node.name for node in nodes_below(SENSORS, NODES)] == ["enriched", "sites"]
    assert sorted(topics_of(NODES)) == ["readings", "sensors"]


def test_a_topic_is_moved_on_as_long_as_the_last_node_of_a_chain_waits() -> None:
    minute = 60_000
    assert longest_wait_ms(READINGS, [COUNTS]) == 3 * minute
    assert longest_wait_ms(READINGS, NODES) == (3 + 60) * minute
    assert longest_wait_ms(SENSORS, NODES) == 0


def test_records_of_other_topics_wait_for_a_topic_also_through_nodes_that_do_not_wait() -> None:
    """A table that rarely changes would hold up the windows of looked-up records for ever."""
    assert topics_beside(SENSORS, NODES) == frozenset(), "nobody waits"
    windows = ENRICHED.as_stream().group_by("site").window(hr.tumbling("1 hour"), grace="0 minutes")
    per_site = windows.aggregate(n=hr.count()).named("per_site")
    nodes = [*NODES, per_site]
    assert topics_beside(SENSORS, nodes) == {"readings"}
    assert topics_beside(READINGS, nodes) == {"sensors"}


def test_the_topics_beside_are_those_of_kafka() -> None:
    """Event times are known of these alone, not of the logs that nodes give."""
    pairs = (
        QUIET.as_stream()
        .select("sensor", "n")
        .join(SENSORS.select("sensor AS sensor", "site"), on="sensor", within="1 minute", grace="0 minutes")
        .named("pairs")
    )
    assert topics_beside(SENSORS, [*NODES, pairs]) == {"readings"}
