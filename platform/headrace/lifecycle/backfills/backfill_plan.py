"""The plan of a backfill, and its findings."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from headrace.description.wording import listed

STAGES = ("recompute", "compare", "swap")


@dataclass(frozen=True)
class DayVerdict:
    """Whether a day's recomputation equals what the stream had written.

    day                None: the whole table, of current results
    rows_differing     rows of one side that the other lacks, or has with other values
    first_differences  some of them, in words
    swapped            whether the differing rows were replaced
    """

    day: dt.date | None
    equal: bool
    rows_recomputed: int
    rows_stored: int
    rows_differing: int
    first_differences: tuple[str, ...]
    swapped: bool

    @property
    def what(self) -> str:
        """The day, or that it is the whole table."""
        return self.day.isoformat() if self.day else "the whole table"


@dataclass(frozen=True)
class BackfillPlan:
    """The work that a backfill is about to do. Times in ms since 1970; `closed_ms` None: no window is closed yet.

    stored_rows  what the table holds for these days
    version      of the description, by which the rows are recomputed
    readers      the nodes of the lake that follow from this one
    """

    node: str
    days: tuple[dt.date | None, ...]
    upto_ms: dict[str, int]
    closed_ms: int | None
    log_rows: int
    log_files: int
    stored_rows: int
    version: str
    readers: tuple[str, ...] = ()

    def explain(self) -> str:
        """The plan in Markdown."""
        frontier = max(self.upto_ms.values(), default=0)
        dated = [day for day in self.days if day]
        days = "1 day" if len(dated) == 1 else f"{len(dated)} days"
        what = f"{days}, {dated[0]} to {dated[-1]}" if dated else "no day has rows yet"
        lines = [
            f"**Backfill of `{self.node}`**: {'the whole table' if self.days == (None,) else what}",
            f"- log through `ingested_at` {_time(frontier)}, lowest stream time {_time(self.closed_ms)}",
            f"- to read: {self.log_rows:,} log rows in {self.log_files:,} files",
            f"- to compare with: {self.stored_rows:,} rows of the table; description {self.version}",
            *(
                [f"- {listed(self.readers)} read it, and keep what they were told of rows that differ"]
                if self.readers
                else []
            ),
            *(f"{number}. {stage}" for number, stage in enumerate(STAGES, 1)),
        ]
        return "\n".join(lines)


def _time(ms: int | None) -> str:
    return (
        "none"
        if ms is None
        else dt.datetime.fromtimestamp(ms / 1000, dt.UTC).isoformat(timespec="milliseconds")
    )
