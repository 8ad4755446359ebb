"""The order of nodes that read nodes, and what lies below a topic."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.description import output_name
from headrace.description.clocks import WallWait
from headrace.nodes.descriptions.topics import (
    longest_wait_ms,
    nodes_below,
    ordered_logs,
    topics_of,
    upstream_first,
    wall_waits,
)
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


def test_what_is_read_in_one_order_with_others_promises_with_all_that_it_follows_from() -> None:
    once = hr.node("known", schema="sensor STRING, n BIGINT").distinct("n", within="1 hour").named("once")
    found = once.lookup(SENSORS.table(), on="sensor", complete_first=False).named("found")
    assert ordered_logs(NODES) == {"readings", "sensors"}
    assert ordered_logs([once, found]) == {"known@", output_name(once), "sensors"}
    assert ordered_logs([COUNTS, QUIET]) == set()
    assert ordered_logs([COUNTS, QUIET], beyond=["quiet"]) == {
        "readings",
        output_name(COUNTS),
        output_name(QUIET),
    }


def test_a_topic_is_moved_on_as_long_as_the_last_node_of_a_chain_waits() -> None:
    minute = 60_000
    assert longest_wait_ms(READINGS, [COUNTS]) == 3 * minute
    assert longest_wait_ms(READINGS, NODES) == (3 + 60) * minute
    assert longest_wait_ms(SENSORS, NODES) == 0


def test_a_table_that_is_looked_up_as_of_the_log_ticks_for_nobody() -> None:
    windows = ENRICHED.as_stream().group_by("site").window(hr.tumbling("1 hour"), grace="0 minutes")
    per_site = windows.aggregate(n=hr.count()).named("per_site")
    batches = (
        ENRICHED.as_stream().group_by("site").batch(collect=["value"], max_wait="1 minute").named("batches")
    )
    nodes = [*NODES, per_site, batches]
    assert longest_wait_ms(SENSORS, nodes) == 0
    assert wall_waits(SENSORS, nodes) == ()
    assert longest_wait_ms(READINGS, nodes) == (3 + 60) * 60_000
    assert wall_waits(READINGS, nodes) == (WallWait(60_000),)


def test_both_sides_of_a_lookup_as_of_event_time_tick_for_those_behind_it() -> None:
    looked_up = (
        COUNTS.as_stream()
        .lookup(SENSORS.table(), on="sensor", as_of="event", complete_first=False)
        .named("looked_up")
    )
    windows = looked_up.as_stream().group_by("site").window(hr.tumbling("1 hour"), grace="0 minutes")
    nodes = [COUNTS, looked_up, windows.aggregate(n=hr.count()).named("per_site")]
    assert longest_wait_ms(SENSORS, nodes) == 60 * 60_000 + 1
