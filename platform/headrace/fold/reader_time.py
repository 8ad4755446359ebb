"""A reader's own time: the lowest stream time of a node, from its driving topics alone.

Law (L3): let a(n) be the time of commit n, and S the stream time of a topic after it. L(n) is the highest of
- L(n - 1);
- the lowest S, once each driving topic has one;
- once each driving topic is idle or has one: the lowest S of those that are not idle, or the highest S if all are, but at
  most a(n). Here idle topics do not count, so a clock that is ahead moves the others no further than the wall clock.
So L does not fall, and a topic that is neither idle nor dated holds it.
"""

from __future__ import annotations

from collections.abc import Sequence

# The lowest stream time of a topic's partitions, if it has one; True: it is idle.
TopicTime = tuple[int | None, bool]


def lowest_after(before_ms: int | None, at_ms: int, topics: Sequence[TopicTime]) -> int | None:
    """L after a commit of a driving topic; None: there is none yet.

    In: before_ms  L before it
        at_ms      its commit time
        topics     the driving topics after it
    """
    dated = [ms for ms, _ in topics if ms is not None]
    reached = [] if before_ms is None else [before_ms]
    if dated and len(dated) == len(topics):
        reached.append(min(dated))
    if dated and all(idle or ms is not None for ms, idle in topics):
        busy = [ms for ms, idle in topics if ms is not None and not idle]
        reached.append(min(at_ms, min(busy) if busy else max(dated)))
    return max(reached, default=None)
