"""By which clock an operator waits: stream time, or the wall clock as the log has recorded it."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError

STREAM, WALL = "stream", "wall"
CLOCKS = (STREAM, WALL)


@dataclass(frozen=True)
class WallWait:
    """How long something waits for the wall clock after the log commit of a record.

    ms          at most
    advance_ms  0: just so long. Else until each end of a window of `ms` that has the commit time in it, one starting every
                `advance_ms`
    node        the suppressed node whose time limit it is, which a person may change; None: nobody can
    after       so many nodes before it wait, too, or the node itself for something else: it also waits after the commits
                that end these waits
    """

    ms: int
    advance_ms: int = 0
    node: str | None = None
    after: int = 0

    def end_ms(self, commit_ms: int) -> int:
        """When nothing of a commit waits any more: of windows the end of the last one that holds it."""
        return commit_ms + self.ms - (commit_ms % self.advance_ms if self.advance_ms else 0)


def check_clock(clock: object, what: str) -> None:
    """Raise DescriptionError when this is no clock."""
    if clock not in CLOCKS:
        raise DescriptionError(
            f"{what}: clock {a_value(clock)} does not exist; there are {listed(CLOCKS)}.",
            hint="'stream' goes by event times, 'wall' by the time at which the log recorded each record.",
        )
