"""Deadlines of wall-clock time: a batch that a log commit opens is due when its wait is over, though nothing comes any more.

The sequencer knows no groups, but each deadline is a commit with records plus a node's wait. So it ticks when one of
these has passed and no later commit says so yet, and not otherwise: a topic that is busy or silent for long costs nothing.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterable


class Deadlines:
    """The commits of a log from which somebody may still wait. Times in ms since 1970.

    Law: `passed` is true exactly if commit + wait lies after the frontier and not after now, for a commit with records
    and a wait. What is closed at a frontier therefore does not depend on how often anybody asks.
    """

    def __init__(self, waits_ms: Collection[int], commits_ms: Iterable[int] = ()) -> None:
        """In: commits_ms  rising commit times of records: those from which somebody may still wait, at least."""
        self._waits_ms = tuple(sorted({wait for wait in waits_ms if wait > 0}))
        self._commits_ms = array("q", commits_ms)

    @property
    def longest_ms(self) -> int:
        """The longest wait; 0: nobody waits."""
        return max(self._waits_ms, default=0)

    def committed(self, at_ms: int) -> None:
        """Records were committed; commits from which nobody waits any more are forgotten."""
        if not self._waits_ms:
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
        commits = self._commits_ms
        for wait_ms in self._waits_ms:
            first = bisect_right(commits, frontier_ms - wait_ms)
            if first < len(commits) and commits[first] <= now_ms - wait_ms:
                return True
        return False
