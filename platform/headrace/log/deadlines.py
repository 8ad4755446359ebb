"""Deadlines of wall-clock time: a batch that a log commit opens is due when its wait is over, though nothing comes any more.

The sequencer knows no groups, but each deadline is a commit with records plus a node's wait, or the end of a window that
holds the commit. So it ticks when one of these has passed and no later commit says so yet, and not otherwise: a topic that
is busy or silent for long costs nothing.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from headrace.description.clocks import WallWait
from headrace.sequence.set_limits import SetLimit


class Deadlines:
    """The commits of a log from which somebody may still wait. Times in ms since 1970.

    Law: `passed` is true exactly if a deadline of a commit lies after the frontier and not after now. A plain wait has one
         deadline, commit + wait; one of windows has the ends of all windows that hold the commit time. So the set of
         closed waits at a frontier does not depend on how often anybody asks.

    A node that reads another one begins to wait with the commit that ends the other's wait. So a commit with records counts
    for all waits. One without records may move stream time, or tell of a drain or a limit, and counts for waits behind one
    node or more. One that tells of the time alone ends waits of the wall clock alone: if the fewest nodes behind which it
    passes a deadline are n, it counts for waits behind more than n. So ticks end: stream time stops, and then each counts
    for waits further behind.
    """

    def __init__(
        self,
        waits: Collection[WallWait | int],
        commits_ms: Iterable[int] = (),
        others_ms: Iterable[int] = (),
        times_ms: Iterable[int] = (),
    ) -> None:
        """Nobody has asked yet.

        In: waits       a number: ms of a plain wait
            commits_ms  commit times of records, as far back as `known_ms` says, at least
            others_ms   those of commits without records
            times_ms    those of commits that tell of the time alone
        """
        given = {each for each in map(as_wait, waits) if each.ms > 0}
        self._behind = {
            after: _Deadlines({(each.ms, each.advance_ms) for each in given if each.after == after})
            for after in sorted({each.after for each in given})
        }
        self._last_ms = 0
        records_ms, alone_ms = {*commits_ms}, {*times_ms}
        every_ms = sorted(records_ms.union(others_ms, alone_ms))
        for at_ms in every_ms:
            # It ended waits from before the commit before it. Unless all these are given it counts for more, not for less.
            told = self._last_ms >= every_ms[-1] - self.longest_ms
            self.committed(at_ms, has_records=at_ms in records_ms, time_alone=told and at_ms in alone_ms)

    @property
    def longest_ms(self) -> int:
        """How long somebody may wait after a commit with records; 0: nobody waits."""
        return sum(each.longest_ms for each in self._behind.values())

    @property
    def known_ms(self) -> int:
        """How far before a log's last commit its commits have to be known: a wait, and the one whose end begins it."""
        return 2 * self.longest_ms

    def committed(self, at_ms: int, has_records: bool = True, time_alone: bool = False) -> None:
        """The log has another commit; those from which nobody waits any more are forgotten.

        In: time_alone  it tells of nothing but the time
        """
        behind, last_ms, self._last_ms = self._behind, self._last_ms, at_ms
        if not has_records:
            passed = (after for after, of in behind.items() if of.passed(last_ms, at_ms))
            ended = next(passed, None) if time_alone else 0
            behind = {after: of for after, of in behind.items() if ended is not None and after > ended}
        for of in behind.values():
            of.committed(at_ms)

    def passed(self, frontier_ms: int, now_ms: int) -> bool:
        """Whether a deadline has passed that no log commit has reached.

        In: frontier_ms  the last commit of the log
        """
        return any(each.passed(frontier_ms, now_ms) for each in self._behind.values())

    def next_ms(self, frontier_ms: int) -> int | None:
        """The first deadline that no log commit has reached; None: there is none."""
        found = (each.next_ms(frontier_ms) for each in self._behind.values())
        return min((ms for ms in found if ms is not None), default=None)


class _Deadlines:
    """Those of some waits."""

    def __init__(self, waits: Collection[tuple[int, int]]) -> None:
        """No commit yet. In: waits  in ms: how long, and how far the next window is (see `WallWait`)."""
        self._waits = tuple(sorted(waits))
        self._commits_ms = array("q")

    @property
    def longest_ms(self) -> int:
        """The longest wait; 0: nobody waits."""
        return max((ms for ms, _ in self._waits), default=0)

    def committed(self, at_ms: int) -> None:
        """A commit counts."""
        if not self._waits:
            return
        kept = self._commits_ms
        over = bisect_right(kept, at_ms - self.longest_ms)
        if over > len(kept) // 2:
            kept = kept[over:]  # another array: a reader in another thread keeps its own
        kept.append(at_ms)
        self._commits_ms = kept

    def passed(self, frontier_ms: int, now_ms: int) -> bool:
        """Whether a deadline has passed that no log commit has reached.

        In: frontier_ms  the last commit of the log
        """
        next_ms = self.next_ms(frontier_ms)
        return next_ms is not None and next_ms <= now_ms

    def next_ms(self, frontier_ms: int) -> int | None:
        """The first deadline that no log commit has reached; None: there is none."""
        commits, found = self._commits_ms, list[int]()
        for ms, advance_ms in self._waits:
            first = bisect_right(commits, frontier_ms - ms)
            if first == len(commits):
                continue
            found += (
                _window_ends(commits[first:], ms, advance_ms, frontier_ms)
                if advance_ms
                else [commits[first] + ms]
            )
        return min(found, default=None)


def _window_ends(commits: array[int], size_ms: int, advance_ms: int, frontier_ms: int) -> list[int]:
    """The first end after the frontier of a window that holds one of these commits."""
    at_ms = np.frombuffer(commits, np.int64)
    after_ms = np.maximum(at_ms, frontier_ms)
    next_end = after_ms + advance_ms - (after_ms - size_ms) % advance_ms
    ends = next_end[next_end <= at_ms + size_ms]
    return [int(ends.min())] if len(ends) else []


def as_wait(wait: WallWait | int) -> WallWait:
    """A wait; a number is ms of a plain one."""
    return WallWait(wait) if isinstance(wait, int) else wait


def waits_now(
    waits: Iterable[WallWait | int], limits_ms: Mapping[str, Sequence[SetLimit]]
) -> list[WallWait | int]:
    """The waits of a topic's nodes, and those of time limits that people have set in place of described ones.

    In: limits_ms  by node. All count: what waits since before a change waits as long as it did then
    """
    found = [*waits]
    for wait in [*found]:
        if isinstance(wait, WallWait) and wait.node is not None:
            found += (WallWait(each.ms, after=wait.after) for each in limits_ms.get(wait.node, ()))
    return found
