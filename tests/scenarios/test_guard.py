"""Timelines of a guarded topic: minutes from left to right, what each record is, and what the counts come to.

A node counts in windows of two minutes; `orders` is the root, its offsets stand beside the records.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import headrace as hr
from headrace.testing import TestDriver

pytestmark = pytest.mark.fast
MINUTE_MS = 60_000
SCREWS = hr.Topic(
    "screws", key="screw STRING", value="n INT", replay_guard=hr.ReplayGuard(), idle_timeout=None
)
COUNTS = (
    SCREWS.group_by()
    .window(hr.tumbling("2 minutes"), grace="0 minutes")
    .aggregate(n=hr.count(), total=hr.sum("n"))
    .suppress(hr.until_window_closes())
    .named("screw_counts")
)


class Line(TestDriver):
    """A driver that sends screws along a chain."""

    __test__ = False

    def send(self, minute: float, *chain: Sequence[Any], n: int = 1, value: bytes | None = None) -> None:
        headers = {"source-chain": json.dumps(chain)} if chain else {}
        sent = value or json.dumps({"n": n})
        self.pipe("screws", key="s", value=sent, timestamp_ms=int(minute * MINUTE_MS), headers=headers)

    def windows(self) -> dict[int, tuple[int, int]]:
        """Start minute: count and total; the backfill must say the same."""
        found, again = (
            {row["window_start"].minute: (row["n"], row["total"]) for row in rows}
            for rows in (self.rows("screw_counts"), self.backfill("screw_counts"))
        )
        assert found == again
        return found


@pytest.fixture(scope="module")
def started() -> Iterator[Line]:
    line = Line([COUNTS])
    yield line
    line.close()


@pytest.fixture
def line(started: Line) -> Line:
    started.reset()
    return started


def test_what_is_sent_again_counts_once_and_moves_no_time(line: Line) -> None:
    """
    minute     10       11       10       30!      11.5     14
    offset      0        1        0        1        2        3
                               replay   replay    counts
    The replay at 30 was dated when it was sent again: if it moved stream time, the record of 11.5 would be late.
    """
    line.send(10, ["orders", 0, 0])
    line.send(11, ["orders", 0, 1])
    line.cut()
    line.send(10, ["orders", 0, 0])
    line.send(30, ["orders", 0, 1])
    line.send(11.5, ["orders", 0, 2])
    line.send(14, ["orders", 0, 3])
    line.cut()
    assert line.windows() == {10: (3, 3)}
    assert line.fates("screw_counts") == {"used": 3, "open": 1, "replay": 2}
    (again,) = line.why_not("screws", 0, 2).nodes
    assert (again.fate, again.reason) == ("replay", "its source orders 0/0 was taken before")


def test_a_root_created_anew_is_refused_until_a_person_resets_the_guard(line: Line) -> None:
    line.send(10, ["orders", 0, 700])
    line.send(12, ["orders", 0, 0])
    line.cut()
    assert line.fates("screw_counts") == {"open": 1, "replay": 1}
    assert line.reset_guard("screws", "orders") == [0]
    line.send(12, ["orders", 0, 0])
    line.send(12, ["orders", 0, 0])
    line.send(14, ["orders", 0, 1])
    line.cut()
    assert line.windows() == {10: (1, 1), 12: (1, 1)}
    assert line.fates("screw_counts") == {"used": 2, "open": 1, "replay": 2}
