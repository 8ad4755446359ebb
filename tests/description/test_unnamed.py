"""Steps of a chain without a name: nodes that people do not see."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import headrace as hr
from headrace.description import with_unnamed
from headrace.lake import small_files
from headrace.lake.paths import Lake
from headrace.lifecycle.forsaken_steps import forsaken_steps, remove_step
from headrace.log.clock import ManualClock
from headrace.nodes.descriptions.topics import is_hosted, topics_of, upstream_first
from tests.description.refusal import refused

pytestmark = pytest.mark.fast

READINGS = hr.Topic("readings", key="sensor STRING", value="value INT", idle_timeout=None)
COUNTS = (
    READINGS.group_by("sensor")
    .window(hr.tumbling("2 minutes"), grace="1 minute")
    .aggregate(n=hr.count())
    .suppress(hr.until_window_closes())
)
ALERTS = COUNTS.where("n < 4").named("alerts")
BUSY = COUNTS.where("n > 9").group_by("sensor").aggregate(windows=hr.count()).named("busy")


def names(*nodes: object) -> list[str]:
    return [node.required_name for node in upstream_first(nodes)]  # type: ignore[arg-type]


def test_equal_steps_are_one_node_before_all_that_read_it() -> None:
    (step, *others) = names(ALERTS, BUSY)
    assert others == ["alerts", "busy"]
    assert step.startswith("unnamed_")
    assert [*topics_of([BUSY, ALERTS])] == ["readings"]
    assert with_unnamed(upstream_first([ALERTS, BUSY])) == upstream_first([ALERTS, BUSY])


def test_a_step_may_read_a_step() -> None:
    chain = COUNTS.where("n < 4").group_by("sensor").batch(max_records=2, collect=["n"]).where("records = 2")
    first, second, last = names(chain.named("pairs"))
    assert {first[:8], second[:8], last} == {"unnamed_", "pairs"}
    assert first != second


def test_a_step_runs_where_what_reads_it_runs() -> None:
    nodes = upstream_first([ALERTS, READINGS.named("all_readings")])
    (step,) = (node for node in nodes if node.required_name.startswith("unnamed_"))
    assert is_hosted(step, nodes, ["log/readings", "stream/alerts_stream"])
    assert not is_hosted(step, nodes, ["log/readings", "stream/all_readings_stream"])
    assert is_hosted(step, nodes, None)


def test_a_name_makes_the_step_a_node_like_others() -> None:
    named = COUNTS.named("counts")
    assert names(named, named.where("n < 4").named("alerts")) == ["counts", "alerts"]
    with pytest.raises(hr.DescriptionError, match="reads node 'counts', which is not among the nodes"):
        topics_of([named.where("n < 4").named("alerts")])
    again = named.as_stream().group_by("sensor").window(hr.tumbling("1 hour"), grace="1 minute")
    behind_a_step = (
        again.aggregate(n=hr.count()).suppress(hr.until_window_closes()).where("n > 1").named("hours")
    )
    with pytest.raises(
        hr.DescriptionError, match=r"Node 'hours' reads node 'counts'.*\n.* there are: hours\.$"
    ):
        topics_of([behind_a_step])


def test_a_step_that_delivers_needs_a_name() -> None:
    with refused("A step of this chain has no name, and delivers to kafka-counts", ".named("):
        COUNTS.to(hr.KafkaSink("counts")).where("n < 4")
    with refused("'unnamed_counts' is kept for steps without a name"):
        COUNTS.named("unnamed_counts")


def test_windows_that_are_revised_are_no_stream() -> None:
    with refused("Windows that are not suppressed are revised", "suppress(hr.until_window_closes())"):
        READINGS.group_by("sensor").window(hr.tumbling("2 minutes"), grace=0).aggregate(n=hr.count()).where(
            "n < 4"
        )


def test_a_step_whose_types_nobody_knows_says_where_to_tell_them() -> None:
    with refused("A step is read by another one, and only Spark knows the type of 'tag'", "AS ARRAY<…>"):
        READINGS.flat_map("zip_with(array(value), array(1), (a, b) -> a) AS tag").group_by("tag")


def test_a_step_is_not_drawn_as_a_table() -> None:
    assert str(hr.describe(ALERTS)).splitlines() == [
        "alerts",
        "└─ where n < 4",
        "   └─ suppress until the window closes",
        "      └─ by sensor and tumbling window of 2 minutes, grace 1 minute: n = count()",
        "         └─ topic readings (key sensor; value), never idle",
    ]


def test_a_step_goes_once_no_node_of_the_lake_was_written_by_what_reads_it(tmp_path: Path) -> None:
    lake, clock = Lake(f"file:{tmp_path}"), ManualClock(1_000)
    (step, _) = names(ALERTS)
    for node in upstream_first([ALERTS]):
        name = node.required_name
        (tmp_path / "tables" / name).mkdir(parents=True)
        small_files.write_json(lake.description(name), {"rules": json.loads(json.dumps(node.rules()))})
    (tmp_path / "node_logs" / step).mkdir(parents=True)
    assert [*forsaken_steps(lake, [], 1_000, clock)] == []  # its reader may be another pipeline's
    small_files.write_json(lake.description("alerts"), {"rules": READINGS.named("alerts").rules()})
    assert [*forsaken_steps(lake, [step], 1_000, clock)] == []  # the reader is rebuilt
    assert [*forsaken_steps(lake, [], -1, clock)] == []  # the files are kept for now
    assert [*forsaken_steps(lake, ["alerts"], 1_000, clock)] == [step]
    remove_step(lake, step)
    assert [path.name for path in (tmp_path / "tables").iterdir()] == ["alerts"]
    assert not [*(tmp_path / "node_logs").iterdir()]
