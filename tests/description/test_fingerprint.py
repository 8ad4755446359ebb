"""A fingerprint changes with what alters a node's rows, and with nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

import headrace as hr
from headrace.description import WindowedAggregate
from headrace.description.fingerprint import differences

pytestmark = pytest.mark.fast


def node(topic: hr.Topic, where: str = "value >= 0") -> WindowedAggregate:
    grouped = topic.where(where).group_by("sensor_id")
    return grouped.window(hr.tumbling("2 minutes"), grace="1 minute").aggregate(
        n=hr.count(), t=hr.sum("value")
    )


def through(topic: hr.Topic, function: Callable[[Any], Any], columns: str | None = None) -> str:
    grouped = topic.transform(function, columns).group_by("sensor_id")
    return grouped.window(hr.tumbling("2 minutes"), grace="1 minute").aggregate(n=hr.count()).fingerprint()


def test_it_is_a_sha256_in_hex(readings: hr.Topic) -> None:
    assert len(bytes.fromhex(node(readings).fingerprint())) == 32


def test_it_does_not_change_with_name_description_and_owners(readings: hr.Topic) -> None:
    named = node(readings).named("a", description="b", owners=("team:c",))
    assert named.fingerprint() == node(readings).fingerprint()


def test_it_does_not_change_with_what_the_sequencer_writes_into_the_log(readings: hr.Topic) -> None:
    other = replace(
        readings,
        start="latest",
        idle_timeout=None,
        max_future="1 hour",
        timestamp="seen_at",
        options={"a": "b"},
    )
    assert node(other).fingerprint() == node(readings).fingerprint()


def test_it_does_not_change_with_columns_that_are_not_read(readings: hr.Topic) -> None:
    wider = replace(readings, value=readings.value + ", more INT")
    assert node(wider).fingerprint() == node(readings).fingerprint()
    assert node(wider, "more > 0").fingerprint() != node(readings, "small > 0").fingerprint()
    assert wider.table().fingerprint() != readings.table().fingerprint()
    chosen = "sensor_id", "value"
    assert wider.select(*chosen).table().fingerprint() == readings.select(*chosen).table().fingerprint()
    assert through(wider, add_one) != through(readings, add_one)


def test_what_differs_is_named(readings: hr.Topic) -> None:
    base = node(readings)
    other = replace(node(readings, where="value > 0"), grace_ms=0)
    assert differences(as_json(base), as_json(other)) == [
        'branches[0].steps[0].expression: "value >= 0" -> "value > 0"',
        "grace_ms: 60000 -> 0",
    ]
    assert differences(as_json(base), as_json(base)) == []


def as_json(described: WindowedAggregate) -> Any:
    return json.loads(json.dumps(described.rules()))


def test_it_changes_with_everything_that_alters_rows(readings: hr.Topic) -> None:
    base = node(readings)
    others = [
        node(replace(readings, name="other")),
        node(replace(readings, value=readings.value.replace("value DOUBLE", "value FLOAT"))),
        node(readings, where="value > 0"),
        replace(base, by=("value",)),
        replace(base, window=hr.tumbling("1 minute")),
        replace(base, window=hr.hopping("2 minutes", "1 minute")),
        replace(base, grace_ms=0),
        replace(base, aggregates=(("n", hr.count()),)),
        replace(base, aggregates=(("n", hr.count()), ("t", hr.sum("value", scale=2)))),
        replace(base, aggregates=(("t", hr.sum("value")), ("n", hr.count()))),
        base.suppress(hr.until_window_closes()),
    ]
    fingerprints = {base.fingerprint(), *(other.fingerprint() for other in others)}
    assert len(fingerprints) == 1 + len(others)


PROGRAM = """
import headrace as hr
topic = hr.Topic("t", key="a STRING", value="b INT")
node = topic.where("b > 0").group_by().window(hr.tumbling("1 day"), "0 ms").aggregate(n=hr.count())
print(node.fingerprint())
"""


@pytest.mark.slow
def test_it_is_equal_in_another_process() -> None:
    source_root = hr.__file__.removesuffix("/headrace/__init__.py")
    printed = set()
    for seed in "12":
        environment = {"PYTHONPATH": source_root, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", PROGRAM]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        printed.add(run.stdout.strip())
    topic = hr.Topic("t", key="a STRING", value="b INT").where("b > 0")
    here = topic.group_by().window(hr.tumbling("1 day"), "0 ms").aggregate(n=hr.count())
    assert printed == {here.fingerprint()}


def add_one(frame: Any) -> Any:
    return frame + 1


def add_two(frame: Any) -> Any:
    return frame + 2


def adding(step: object) -> Callable[[Any], Any]:
    def add(frame: Any) -> Any:
        return frame + step

    return add


@dataclass(frozen=True)
class Adding:
    step: int

    def __call__(self, frame: Any) -> Any:
        return frame + self.step


def test_a_transform_counts_by_its_source_and_declared_columns(readings: hr.Topic) -> None:
    assert through(readings, add_one) == through(readings, add_one)
    columns = "sensor_id STRING"
    assert (
        len({through(readings, add_one), through(readings, add_two), through(readings, add_one, columns)})
        == 3
    )


@pytest.mark.parametrize(
    "make",
    [
        adding,
        Adding,
        lambda step: partial(adding, step),
        lambda step: partial(adding, step=step),
        lambda step: adding([step, {"a": {step}}, b"x"]),
        lambda step: adding(adding(step)),
        lambda step: lambda frame, by=step: frame,
    ],
)
def test_what_a_transform_carries_counts(
    make: Callable[[int], Callable[[Any], Any]], readings: hr.Topic
) -> None:
    assert through(readings, make(1)) == through(readings, make(1))
    assert through(readings, make(1)) != through(readings, make(2))


def test_a_function_that_refers_to_itself_has_a_fingerprint(readings: hr.Topic) -> None:
    def again(frame: Any) -> Any:
        return again(frame)

    assert through(readings, again) == through(readings, again)


def test_a_function_without_source_counts_by_its_name(readings: hr.Topic) -> None:
    assert through(readings, len) == through(readings, len)
    assert through(readings, len) != through(readings, repr)


def test_addresses_do_not_show(readings: hr.Topic) -> None:
    assert through(readings, adding(object())) == through(readings, adding(object()))
