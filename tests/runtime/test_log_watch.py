"""Commits of logs that another process writes are noticed by their versions."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.streams.loops.log_watch import LogWatch

pytestmark = pytest.mark.fast

LEFT, RIGHT = (hr.Topic(name, key="k STRING", value="v BIGINT") for name in ("left", "right"))


def test_a_log_has_moved_when_its_version_is_another_than_at_the_last_look() -> None:
    versions = {"left": 4, "right": 7}
    watch = LogWatch(lambda topic: versions[topic.name])
    assert watch.moved([LEFT, RIGHT]), "nobody has looked before"
    assert not watch.moved([LEFT, RIGHT])
    versions["right"] = 8
    assert not watch.moved([LEFT])
    assert watch.moved([RIGHT])
    assert not watch.moved([LEFT, RIGHT])
    versions["left"] = 0  # another table stands there
    assert watch.moved([LEFT])


def test_without_logs_nothing_moves() -> None:
    assert not LogWatch(lambda topic: 0).moved([])
