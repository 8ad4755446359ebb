"""One description of a topic for all pipelines that run: another one is refused, with what differs."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace as hr
from headrace.description import Topic
from headrace.lake.paths import Lake
from headrace.log.clock import SystemClock
from headrace.writing import topic_descriptions
from headrace.writing.leases.readers import Asked, register
from headrace.writing.topic_descriptions import (
    OtherTopicError,
    description_of,
    note_description,
    others_reading,
    require_one_description,
)

pytestmark = pytest.mark.fast

READINGS = hr.Topic(
    "readings",
    key="sensor STRING",
    value="value INT",
    replay_guard=hr.ReplayGuard(),
    options={"sasl.password": "secret"},
)
CLOCK = SystemClock()


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A lake whose topic is described; nodes whose names begin with `run` are running."""
    made = Lake(f"file:{tmp_path}")
    note_description(made, READINGS)
    monkeypatch.setattr(
        topic_descriptions, "lease_taken_ms", lambda folder, clock: 1 if "/run" in folder else None
    )
    return made


def require(lake: Lake, topic: Topic) -> None:
    require_one_description(lake, topic, {"mine"}, CLOCK)


def test_another_description_is_refused_while_another_pipeline_runs(lake: Lake) -> None:
    changed = hr.Topic("readings", key="sensor STRING", value="value BIGINT", idle_timeout=None)
    for reader in ("mine", "stopped"):
        register(lake, READINGS, reader, Asked())
    require(lake, changed)
    register(lake, READINGS, "running", Asked())
    assert others_reading(lake, "readings", {"mine"}, CLOCK) == ["running"]
    require(lake, READINGS)
    with pytest.raises(OtherTopicError) as refusal:
        require(lake, changed)
    told = str(refusal.value)
    assert "Topic 'readings' is described in another way by the pipeline of running." in told
    assert 'value: "`value` INT" -> "`value` BIGINT"' in told
    assert "idle_timeout_ms: 60000 -> null" in told
    assert 'replay_guard: {"header"' in told


def test_a_format_with_other_options_is_another_description(lake: Lake) -> None:
    commas, dots = (hr.Topic("lines", value="n INT", format=hr.Csv(separator=by)) for by in (",", ";"))
    note_description(lake, commas)
    register(lake, commas, "running", Asked())
    require(lake, commas)
    with pytest.raises(OtherTopicError, match="separator"):
        require(lake, dots)


def test_a_topic_without_a_log_and_settings_of_a_client_are_nothing_to_differ_in(lake: Lake) -> None:
    register(lake, READINGS, "running", Asked())
    other = hr.Topic("others", value="value INT")
    register(lake, other, "running", Asked())
    require(lake, other)
    same = hr.Topic(
        "readings", key="sensor STRING", value="value INT", replay_guard=hr.ReplayGuard(), options={"a": "b"}
    )
    require(lake, same)
    assert "secret" not in str(description_of(READINGS))
