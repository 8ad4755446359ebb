"""Deadlines of wall-clock time: a tick for each that passes, and none besides."""

from __future__ import annotations

import random

import pytest

from headrace.log.deadlines import Deadlines

pytestmark = pytest.mark.fast


def test_nobody_waits_so_nothing_passes() -> None:
    deadlines = Deadlines(())
    deadlines.committed(1_000)
    assert not deadlines.passed(1_000, 10**9)


def test_a_deadline_passes_once_and_a_commit_at_it_does_as_well_as_a_tick() -> None:
    deadlines = Deadlines([500])
    deadlines.committed(1_000)
    assert not deadlines.passed(1_000, 1_499)
    assert deadlines.passed(1_000, 1_500)
    assert not deadlines.passed(1_500, 10**9), "the log says so already"


def test_a_log_opened_again_knows_its_waiting_commits() -> None:
    deadlines = Deadlines([500, 100], [900, 1_000])
    assert not deadlines.passed(1_050, 1_099)
    assert deadlines.passed(1_050, 1_100), "1000 + 100"
    assert deadlines.passed(1_100, 1_400), "900 + 500"
    assert deadlines.passed(1_400, 1_500), "1000 + 500"


def test_deadlines_are_those_of_the_definition_and_what_is_over_is_forgotten() -> None:
    rng = random.Random(7)
    waits, commits = [50, 200], []
    deadlines, at = Deadlines(waits), 0
    for _ in range(2_000):
        at += rng.choice([1, 10, 49, 50, 51, 200, 500])
        deadlines.committed(at)
        commits.append(at)
        for now in (at, at + 49, at + 50, at + 123, at + 200, at + 999):
            wanted = any(at < commit + wait <= now for commit in commits[-300:] for wait in waits)
            assert deadlines.passed(at, now) == wanted
    assert len(deadlines._commits_ms) < 1_000
