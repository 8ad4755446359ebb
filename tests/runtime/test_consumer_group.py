"""Offsets told to a consumer group: only what changed, not too often, and a refusal stops nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog

from headrace.errors import TerminalError
from headrace.spark.kafka import KafkaTopic
from headrace.streams import consumer_group
from headrace.streams.consumer_group import ConsumerGroup

pytestmark = pytest.mark.fast


class Clock:
    """A steady clock that a test moves."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


class Topic:
    """Notes what it is told, or refuses it."""

    name = "readings"

    def __init__(self, group: str = "headrace") -> None:
        self.settings = SimpleNamespace(group=group)
        self.told: list[dict[int, int]] = []
        self.refuses = False

    def commit_offsets(self, group: str, offsets: dict[int, int]) -> None:
        if self.refuses:
            raise TerminalError("the group may not be written")
        self.told.append(offsets)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(consumer_group, "time", made)
    return made


def group_of(topic: Topic) -> ConsumerGroup:
    return ConsumerGroup(cast("KafkaTopic", topic))


def test_only_what_changed_is_told_and_not_too_often(clock: Clock) -> None:
    group = group_of(topic := Topic())
    group.commit({0: 5, 1: 7})
    clock.now = 1.0
    group.commit({0: 6, 1: 7})
    assert topic.told == [{0: 5, 1: 7}]
    clock.now = 6.0
    group.commit({0: 6, 1: 7})
    group.commit({0: 6, 1: 7}, at_once=True)
    group.commit({0: 9, 1: 7}, at_once=True)
    assert topic.told[1:] == [{0: 6}, {0: 9}]


def test_a_refusal_is_said_once_and_tried_again_later(clock: Clock) -> None:
    group = group_of(topic := Topic())
    topic.refuses = True
    with structlog.testing.capture_logs() as said:
        for clock.now in (0.0, 30.0, 61.0):
            group.commit({0: 5})
    assert [(each["log_level"], each["topic"]) for each in cast("list[Any]", said)] == [
        ("warning", "readings")
    ]
    topic.refuses, clock.now = False, 130.0
    group.commit({0: 5})
    assert topic.told == [{0: 5}]


def test_without_a_group_nothing_is_told(clock: Clock) -> None:
    group_of(topic := Topic("")).commit({0: 5})
    assert topic.told == []
