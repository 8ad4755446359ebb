"""The chain of a log's commits, followed from one to the next: where commits are gone, and where rows of one are.

Law: the next offsets before a commit are the next offsets after the commit before it; commits are numbered without a gap;
a commit has as many rows with an offset as its row says. A log commit that is lost, or rows that are, break one of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.errors import TerminalError
from headrace.log.commit_row import CommitRow, is_commit_row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Chain:
    """The commits of a log that have a commit row.

    commits   how many there are, and `numbered` how many there should be from the first through the last
    records   how many rows with an offset they hold, and `counted` how many their rows say
    gaps      the first places where commits are gone; `broken`: how many such places there are
    short     the first commits that hold another number of records than their row says: time, held, counted
    """

    commits: int
    numbered: int
    records: int
    counted: int
    broken: int
    gaps: Sequence[Gap]
    short: Sequence[tuple[int, int, int]]


@dataclass(frozen=True)
class Gap:
    """Commits that are gone between two that are there."""

    before: CommitRow
    later: CommitRow

    @property
    def after_ms(self) -> int:
        """The commit time of the commit before."""
        return self.before.after.ingested_at_ms

    @property
    def commits(self) -> int:
        """How many commits are gone."""
        return self.later.after.batch - self.before.after.batch - 1

    @property
    def offsets(self) -> Mapping[int, tuple[int, int]]:
        """For each partition the first and the last offset that is gone."""
        ends = self.before.next
        return {
            partition: (ends.get(partition, 0), begin - 1)
            for partition, begin in self.later.previous.items()
            if begin != ends.get(partition, 0)
        }

    @property
    def stretches(self) -> list[str]:
        """The same in words."""
        return [
            f"partition {p} offset{'s' if last > first else ''} {first}{f' to {last}' if last > first else ''}"
            for p, (first, last) in sorted(self.offsets.items())
        ]


def require_whole_chain(log: DataFrame, topic: str) -> None:
    """Refuse what would make a loss permanent: rows that are cut off, or blanked, behind a commit that may yet come back.

    Raises: TerminalError when commits are gone
    """
    for gap in read_chain(log, at_most=1).gaps:
        raise TerminalError(
            f"Topic '{topic}': its log has lost {gap.commits:,} commit{'s' if gap.commits > 1 else ''}.",
            detail="; ".join(gap.stretches) or "No record was in them.",
            hint=f"Run headrace repair {topic} first: it puts back what files or Kafka still have. Nothing was changed.",
        )


def read_chain(log: DataFrame, *, at_most: int) -> Chain:
    """Follow the commits of a log. The first has nothing before it: the log was cut there, or begins there.

    In: at_most  gaps and commits with other records that are read
    """
    told = log.where(is_commit_row()).select(
        F.unix_millis("ingested_at").alias("at_ms"),
        "control",
        F.get_json_object("control", "$.after.batch").cast("long").alias("batch"),
        F.get_json_object("control", "$.next").alias("next"),
        F.get_json_object("control", "$.previous").alias("previous"),
        F.get_json_object("control", "$.records").cast("long").alias("records"),
    )
    rows = log.where(F.col("offset").isNotNull()).groupBy(F.unix_millis("ingested_at").alias("at_ms"))
    held = rows.agg(F.countDistinct("partition", "offset").alias("held"))
    commits = told.join(held, "at_ms", "left").fillna(0, ["held"])
    before = F.lag(F.struct("batch", "next", "control")).over(Window.orderBy("batch")).alias("before")
    linked = commits.select("*", before)
    broken = (F.col("batch") != F.col("before.batch") + 1) | (F.col("previous") != F.col("before.next"))
    short = F.col("held") != F.col("records")
    sums = linked.agg(
        F.count("*").alias("commits"),
        (F.max("batch") - F.min("batch") + 1).alias("numbered"),
        F.sum("held").alias("records"),
        F.sum("records").alias("counted"),
        F.count_if(broken).alias("broken"),
        F.count_if(short).alias("short"),
    ).first()
    assert sums is not None
    # Nearly every log is whole: it is read once, and nothing of it is kept meanwhile.
    found = (linked.where(where).orderBy("batch").limit(at_most) for where in (broken, short))
    gaps, wrong = (
        rows.collect() if sums[name] else [] for name, rows in zip(("broken", "short"), found, strict=True)
    )
    return Chain(
        sums["commits"],
        sums["numbered"] or 0,
        sums["records"] or 0,
        sums["counted"] or 0,
        sums["broken"],
        [Gap(*map(CommitRow.from_json, (row["before"]["control"], row["control"]))) for row in gaps],
        [(row["at_ms"], row["held"], row["records"]) for row in wrong],
    )
