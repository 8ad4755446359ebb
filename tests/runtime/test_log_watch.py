"""Commits and promises of logs that another process writes are noticed."""

from __future__ import annotations

from functools import partial

import pytest

import headrace as hr
from headrace.streams.loops.log_watch import LogWatch

pytestmark = pytest.mark.fast

LEFT, RIGHT = (hr.Topic(name, key="k STRING", value="v BIGINT") for name in ("left", "right"))


def test_a_log_has_moved_when_its_version_is_another_than_at_the_last_look() -> None:
    versions = {"left": 4, "right": 7}
    watch = LogWatch(
        lambda topic: versions[topic.name], lambda topic: pytest.fail("nobody asks for promises")
    )
    moved = partial(watch.moved, promises=False)
    assert moved([LEFT, RIGHT]), "nobody has looked before"
    assert not moved([LEFT, RIGHT])
    versions["right"] = 8
    assert not moved([LEFT])
    assert moved([RIGHT])
    assert not moved([LEFT, RIGHT])
    versions["left"] = 0  # another table stands there
    assert moved([LEFT])


def test_a_promise_moves_a_log_for_those_who_ask_for_promises() -> None:
    promises = {"left": 10}
    watch = LogWatch(lambda topic: 4, lambda topic: promises[topic.name])
    assert watch.moved([LEFT], promises=True)
    assert not watch.moved([LEFT], promises=True)
    promises["left"] = 11
    assert watch.moved([LEFT], promises=True)
    assert not watch.moved([LEFT], promises=True)


def test_without_logs_nothing_moves() -> None:
    assert not LogWatch(lambda topic: 0, lambda topic: 0).moved([], promises=True)
