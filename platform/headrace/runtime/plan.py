"""What a backfill says before it works, and what it found."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

STAGES = ("read the log", "recompute", "compare", "swap")


@dataclass(frozen=True)
class DayVerdict:
    """Whether a day's recomputation equals what the stream had written.

    rows_differing     rows of one side that the other lacks, or has with other values
    first_differences  some of them, in words
    swapped            whether the differing rows were replaced
    """

    day: dt.date
    equal: bool
    rows_recomputed: int
    rows_stored: int
    rows_differing: int
    first_differences: tuple[str, ...]
    swapped: bool


@dataclass(frozen=True)
class BackfillPlan:
    """What a backfill is about to do. Times in ms since 1970; `closed_ms` None: no window is closed yet."""

    node: str
    days: tuple[dt.date, ...]
    upto_ms: dict[str, int]
    closed_ms: int | None
    log_rows: int
    log_files: int

    def explain(self) -> str:
        """The plan in Markdown."""
        frontier = max(self.upto_ms.values(), default=0)
        lines = [
            f"**Backfill of `{self.node}`**: {len(self.days)} day(s), {self.days[0]} to {self.days[-1]}"
            if self.days
            else f"**Backfill of `{self.node}`**: no day has closed windows yet",
            f"- log through `ingested_at` {_time(frontier)}, windows closed through stream time {_time(self.closed_ms)}",
            f"- to read: {self.log_rows:,} log rows in {self.log_files:,} files",
            *(f"{number}. {stage}" for number, stage in enumerate(STAGES, 1)),
        ]
        return "\n".join(lines)


def _time(ms: int | None) -> str:
    return (
        "none"
        if ms is None
        else dt.datetime.fromtimestamp(ms / 1000, dt.UTC).isoformat(timespec="milliseconds")
    )
