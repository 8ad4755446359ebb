"""Limits that people set, and then nothing comes: the logs tick until each wait is over, and promise nothing beyond.

```
  wall clock   0 s            +1 ms             +2 s         +60 s, no record: a tick
  limit        60 s           2 s
  a            opens a wait                                  leaves: it began under 60 s
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from tests.rows import columns

if TYPE_CHECKING:
    from headrace.description import Node
    from headrace.description.suppressed import Suppressed
    from headrace.testing import TestDriver
    from tests.conftest import Drive

pytestmark = pytest.mark.fast

T, U, V = (
    hr.Topic(name, key="key STRING", value=f"of_{name} INT", idle_timeout="20 seconds") for name in "tuv"
)
BRIEFLY = hr.until_time_limit("4 seconds", clock="wall")


def merged(limited: Suppressed, other: hr.Topic) -> Node:
    """A reader of a node and of a topic: it reads no further than both are settled."""
    either = limited.select("key").merge(other.stream.select("key"))
    return either.group_by("key").batch(max_records=1, collect=["key"]).named("merged")


def pipe(driver: TestDriver, topic: str, key: str) -> None:
    driver.pipe(topic, key=key, value={f"of_{topic}": 1}, timestamp_ms=driver.now_ms)


def silence(driver: TestDriver, seconds: int) -> None:
    for _ in range(0, seconds, 5):
        driver.advance_wall_clock("5 seconds")
        driver.cut()


def keys(driver: TestDriver, name: str) -> list[str]:
    driver.check(name)
    return sorted(key for (key,) in columns(driver.rows(name), "key"))


def test_a_wait_by_the_wall_clock_keeps_its_limit_though_others_were_set_since(drive: Drive) -> None:
    """The log ended with the last limit. The row stood still, and the reader had read beyond the end of its wait."""
    limited = T.table().suppress(BRIEFLY).named("limited")
    driver = drive(limited, merged(limited, U))
    pipe(driver, "u", "other")
    driver.set_limits("limited", time_limit="60 seconds")
    pipe(driver, "t", "a")
    driver.cut()
    driver.set_limits("limited", time_limit="2 seconds")
    silence(driver, 65)
    pipe(driver, "u", "later")
    driver.cut()
    assert keys(driver, "limited") == ["a"]
    assert keys(driver, "merged") == ["a", "later", "other"]


def test_ticks_go_on_until_readers_have_waited_behind_the_longest_limit(drive: Drive) -> None:
    """Stream time behind the node stays a minute behind, as the first limit has it. Ticks ended with the last one."""
    limited = T.table().suppress(hr.until_time_limit("4 seconds")).named("limited")
    windows = limited.group_by("key").window(hr.tumbling("10 seconds"), grace="0 seconds")
    driver = drive(
        limited, windows.aggregate(n=hr.count()).suppress(hr.until_window_closes()).named("counted")
    )
    driver.set_limits("limited", time_limit="60 seconds")
    pipe(driver, "t", "a")
    driver.cut()
    driver.set_limits("limited", time_limit="2 seconds")
    silence(driver, 120)
    assert keys(driver, "counted") == keys(driver, "limited") == ["a"]


@pytest.mark.parametrize("clock", ["stream", "wall"])
def test_each_log_below_a_node_ticks_for_a_limit_that_was_set(drive: Drive, clock: str) -> None:
    """The second log ended with the described limit. By the wall clock a reader had read beyond the end of the wait, too."""
    joined = T.table().join(U.table(), on="key", how="outer")
    limited = joined.suppress(hr.until_time_limit("4 seconds", clock=clock)).named("limited")
    driver = drive(limited, merged(limited, V))
    for topic in "tuv":
        pipe(driver, topic, "first")
    driver.cut()
    driver.set_limits("limited", time_limit="60 seconds")
    silence(driver, 150)
    pipe(driver, "u", "a")
    driver.cut()
    silence(
        driver, 60 if clock == "wall" else 120
    )  # by stream time the limit begins once the topics are idle
    pipe(driver, "v", "later")
    driver.cut()
    assert keys(driver, "limited") == ["a", "first"]
    assert keys(driver, "merged") == ["a", "first", "first", "later"]
