"""`no_log_commit_missing`: the commits of a log form a chain, and each holds the records that its commit row counted.

Law: the next offsets before a commit are the next offsets after the commit before it; commits are numbered without a gap;
a commit has as many rows with an offset as its row says. A log commit that is lost, or rows that are, break one of these.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.log.commit_row import is_commit_row
from headrace.quality.claims import Check, Finding, pairs_equal
from headrace.quality.words import counted, joined, moment
from headrace.spark.frames import local_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

NAME = "no_log_commit_missing"
COLUMNS = "link STRING, wanted BIGINT, found BIGINT"
SHOWN = 3


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
    """Commits that are gone between two that are there.

    offsets  for each partition the first and the last offset that is gone
    commits  how many commits are gone
    """

    after_ms: int
    commits: int
    offsets: Mapping[int, tuple[int, int]]

    def __str__(self) -> str:
        """In words."""
        parts = [
            f"partition {p} offset{'s' if last > first else ''} {first}{f' to {last}' if last > first else ''}"
            for p, (first, last) in sorted(self.offsets.items())
        ]
        what = joined(parts, at_most=SHOWN) if parts else "no record"
        return f"{counted(self.commits, 'commit')} after {moment(self.after_ms)} ({what})"


def no_log_commit_missing(spark: SparkSession, log: DataFrame, topic: str) -> Check:
    """The check of one log."""
    chain = read_chain(log)
    if not chain.commits:
        words = f"The log of {topic} has no commit with a commit row yet: nothing can be missing."
        return Check(NAME, None, lambda _: Finding(words))

    def explain(whole: bool) -> Finding:
        numbers = {
            "commits": chain.commits,
            "gaps": chain.broken,
            "commits_with_other_records": len(chain.short),
        }
        if whole:
            words = f"The {counted(chain.commits, 'commit')} of the log of {topic} follow one another without a gap"
            return Finding(f"{words}, each with all of its records.", numbers)
        found = [str(gap) for gap in chain.gaps]
        found += [
            f"the commit of {moment(at_ms)} holds {held:,} of its {counted(told, 'record')}"
            for at_ms, held, told in chain.short
        ]
        words = f"The log of {topic} has lost what it held: {joined(found, at_most=SHOWN)}"
        return Finding(
            f"{words}; stop its stream and look in the table's history for a commit that Headrace did not write. "
            "Restore the version before it, or, where Kafka still has the records, delete the log and its nodes' tables and "
            "start the stream again.",
            numbers,
        )

    return Check(NAME, pairs_equal(_pairs(spark, chain), "wanted", "found"), explain)


def read_chain(log: DataFrame) -> Chain:
    """Follow the commits of a log. The first has nothing before it: the log was cut there, or begins there."""
    told = log.where(is_commit_row()).select(
        F.unix_millis("ingested_at").alias("at_ms"),
        F.get_json_object("control", "$.after.batch").cast("long").alias("batch"),
        F.get_json_object("control", "$.next").alias("next"),
        F.get_json_object("control", "$.previous").alias("previous"),
        F.get_json_object("control", "$.records").cast("long").alias("records"),
    )
    rows = log.where(F.col("offset").isNotNull()).groupBy(F.unix_millis("ingested_at").alias("at_ms"))
    held = rows.agg(F.countDistinct("partition", "offset").alias("held"))
    commits = told.join(held, "at_ms", "left").fillna(0, ["held"])
    before = F.lag(F.struct("at_ms", "batch", "next")).over(Window.orderBy("batch")).alias("before")
    linked = commits.select("*", before).persist()
    broken = (F.col("batch") != F.col("before.batch") + 1) | (F.col("previous") != F.col("before.next"))
    sums = linked.agg(
        F.count("*").alias("commits"),
        (F.max("batch") - F.min("batch") + 1).alias("numbered"),
        F.sum("held").alias("records"),
        F.sum("records").alias("counted"),
        F.count_if(broken).alias("broken"),
    ).first()
    gaps = linked.where(broken).orderBy("batch").limit(SHOWN).collect()
    short = linked.where("held != records").orderBy("batch").limit(SHOWN).collect()
    linked.unpersist()
    assert sums is not None
    return Chain(
        sums["commits"],
        sums["numbered"] or 0,
        sums["records"] or 0,
        sums["counted"] or 0,
        sums["broken"],
        [_gap(row) for row in gaps],
        [(row["at_ms"], row["held"], row["records"]) for row in short],
    )


def _gap(row: Row) -> Gap:
    before, begins = row["before"], json.loads(row["previous"])
    ends = json.loads(before["next"])
    offsets = {
        int(partition): (ends.get(partition, 0), begin - 1)
        for partition, begin in begins.items()
        if begin != ends.get(partition, 0)
    }
    return Gap(before["at_ms"], row["batch"] - before["batch"] - 1, offsets)


def _pairs(spark: SparkSession, chain: Chain) -> DataFrame:
    """Numbers that have to be equal."""
    rows = [
        ("commits: numbered = found", chain.numbered, chain.commits),
        ("records: counted at the commits = found", chain.counted, chain.records),
        ("commits that follow the one before", chain.commits, chain.commits - chain.broken),
    ]
    return local_frame(spark, rows, COLUMNS)
