"""The values from which lives are drawn, and themes: parts of them that meet in some lives of a swarm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.laws.kernel.pipelines import ENDS, GOING_ON, ON_A_LAKE
from tests.lives.story import SINKS, TOPICS

NODES_MAX = 6
BY_WALL_CLOCK = "windows of the wall clock"  # of the swarm alone
ALL = tuple(kind for kind in (*GOING_ON, *ON_A_LAKE, *ENDS) if kind != BY_WALL_CLOCK)
THEMES: Sequence[Sequence[str]] = (
    ALL,
    ALL,
    ALL,
    ("batches", "merged batches", "processor of a table", "processor with timers", "merged branches", "time limit"),
    ("sessions", "sessions by another key", "named stream", "windows", "lookup", "distinct"),
    ("join of tables", "calm table", "grouped table", "changes", "refined table", "lookup", "table by another key"),
    ("time limit", "calm table", "changes", "changes of a table", "join of streams", "batches"),
    ("batches", "batches of a whole stream", "calm table", "merged batches", "lookup", "processor of a table"),
)  # fmt: skip
THEMES_OF_ALL = 7  # the last one is of the swarm alone: waits of the wall clock, one after the other
ACTS_AFTER = 8  # steps: before, there is nothing to which anything could be done
ROUNDS = (7, 13)  # of a life, at least and at most
JOINS_MAX = 3  # of streams: a join of joins of joins multiplies rows, until a delivery needs Spark
NODES_OF_ACTS_MAX = 4  # of a life of the second tier, in which Spark works for each act
NODE_STEPS = ("after sinks", "after outputs", "after state", "before outputs")
LOG_STEPS = ("before log commit", "after log commit")
ERASABLE = "erase-me-7f3a"  # no other text holds it, so that it can be sought in files
KEYS = ("a", "b", "ü", None, "a", "b", ERASABLE)
PARTITIONS = (0, 0, 0, 1, 1, 2)
RECORDS = ("record",) * 11
WHAT = (*RECORDS, "tombstone", "tombstone", "malformed", "rolled back", "again", "again")
HALF_SECONDS = sorted(range(-40, 25), key=abs)
NEAR = (9, 17, 33, 65)  # so many of them are near by
SECOND, HOUR = 1_000, 3_600_000
WAITS = (1, 2 * SECOND, 6 * SECOND, 61 * SECOND, 10 * 60 * SECOND, 0)
# For longer than a process trusts what it has read, and what it has committed.
PAUSES = (0, 2 * SECOND, 130 * SECOND)
# A producer's clock goes on, stands still, jumps ahead or jumps back.
GOES_ON = (*[9 * SECOND] * 6, 0, 0, 61 * SECOND, HOUR, 26 * HOUR, -30 * SECOND)
# Timers call these every three seconds, for each group: a day would be 31,000 calls and as many rows, and five minutes show
# the same.
OFTEN_CALLED, FAR_FOR_TIMERS = {"processor with timers", "processor of a table"}, 5 * 60 * SECOND
TROUBLES = ("crash", "overtaken", "store", "sink", "crash")
DECISIONS = ("grow", "rest", "maintain", "restart", "drain", "limit", "grow", "lose", "upkeep")
ACTS = (
    "retain",
    "erase",
    "rename",
    "change",
    "change",
    "back",
    "recompute",
    "redeliver",
    "redrive",
    "mend",
    "pack",
)
ACT_THEMES: Sequence[Sequence[str]] = (  # acts that meet more often
    ACTS,
    ("retain", "retain", "rename", "recompute"),
    ("change", "back", "rename", "redeliver"),
    ("erase", "mend", "mend", "redrive", "rename"),
    ("change", "erase", "mend", "back", "retain", "pack"),
)
# Many records at near-by times: what a group has open at a time lies side by side.
TOUCHING: dict[str, Any] = {
    "kinds": (
        "sessions",
        "sessions by another key",
        "sessions",
        "lookup",
        "windows",
        "distinct",
        "join of streams",
    ),
    "topics": ("t", "t", "u"),
    "partitions": (0, 1, 2),
    "keys": KEYS,
    "halves": HALF_SECONDS[:17],
    "goes_on": (0, SECOND, 2 * SECOND, 3 * SECOND, 4 * SECOND, -2 * SECOND),
    "records_max": 12,
}
# Nodes that wait for the wall clock, each for the one before it; the last one reads a topic beside it.
CLOCKS: dict[str, Any] = {
    "kinds": ("batches", BY_WALL_CLOCK, "merged batches"),
    "follows": (True,),
    "topics": TOPICS,
    "waits": (2 * SECOND, 6 * SECOND, 2 * SECOND - 1),
    "in_turn": True,
}
BESIDE = CLOCKS | {"kinds": ("batches", "merged batches")}
# Processes that are paused at their steps, and go on when others have taken over.
PAUSED: dict[str, Any] = {
    "steps": ("cut", "trouble"),
    "troubles": ("overtaken", "overtaken", "crash"),
    "sinks": SINKS[1:],
}
# People set limits again and again, and the clock is not always looked at.
LIMITS = CLOCKS | {
    "kinds": ("time limit of the wall clock", "calm table", "time limit of the wall clock"),
    "in_turn": False,
    "follows": (False, True),
    "steps": ("cut", "cut", "decision"),
    "decisions": ("limit", "limit", "limit", "restart"),
}
OF_A_SWARM: Sequence[dict[str, Any]] = (TOUCHING, TOUCHING, CLOCKS, BESIDE, LIMITS, PAUSED, {}, {}, {})
# For the second tier: what people do to logs meets the nodes to which it matters.
CUT_TABLES: dict[str, Any] = {
    "kinds": ("totals", "join of tables", "grouped table", "table by another key", "refined table"),
    "acts": ("retain", "retain", "recompute", "rename"),
}
CUT_WAITS: dict[str, Any] = {
    "kinds": ("batches", BY_WALL_CLOCK, "merged batches"),
    "acts": ("retain", "retain", "recompute"),
    "waits": (2 * SECOND, 6 * SECOND, 61 * SECOND),
}
CUT_CHAINS: dict[str, Any] = {
    "kinds": ("windows", "batches", "distinct", "sessions"),
    "follows": (True,),
    "acts": ("retain", "retain", "rename"),
    "troubles": ("crash",),
}
LOST: dict[str, Any] = {
    "kinds": ("windows", "totals", "batches", "distinct"),
    "follows": (True,),
    "acts": ("mend", "mend", "erase", "retain"),
}
OF_ACTS: Sequence[dict[str, Any]] = (CUT_TABLES, CUT_WAITS, CUT_CHAINS, LOST)
