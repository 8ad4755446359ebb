"""The fold of sessions on many disordered logs at once: each key is a log of its own, in a partition of its own.

One job folds them all, in chunks so short that sessions merge across them.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.operators import folds
from headrace.operators.partials import kept_partials
from headrace.operators.sessions import fold
from headrace.operators.sessions.runs import runs_of
from headrace.spark.frames import local_frame
from tests.oracle.log_oracle import Arrival, Log
from tests.oracle.sessions_oracle import sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LOGS, RECORDS = 150, 100
DECIDED = (
    "key STRING, value BIGINT, __ingested_ms BIGINT, __topic STRING, __partition INT, __offset BIGINT, "
    "__event_ms BIGINT, __stream_ms BIGINT, __size_bytes BIGINT, __fate STRING, __reason STRING"
)


def disordered(partition: int) -> Log:
    """Mostly in order, often a little back, sometimes far."""
    chance, log, now = random.Random(partition), Log(), 100
    for offset in range(RECORDS):
        now += chance.choice([0, 0, 1, 3, 5, 8])
        back = chance.choice([0, 0, 0, 1, 3, 7, 15, 30, chance.randrange(70)])
        arrival = Arrival(partition, f"k{partition}", max(0, now - back), offset)
        log.before.append(log.stream.get(partition))
        log.stream[partition] = max(arrival.ts, log.stream.get(partition, 0))
        log.rows.append((arrival, offset, log.stream[partition]))
    return log


@pytest.mark.parametrize(("gap", "grace"), [(4, 60), (3, 0)])
def test_sessions_of_disordered_logs_are_those_of_the_oracle(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, gap: int, grace: int
) -> None:
    monkeypatch.setattr(folds, "CHUNK_MIN", 5)
    topic = hr.Topic("disordered", key="key STRING", value="value BIGINT")
    grouped = topic.group_by().window(hr.session(gap), grace=grace)
    node = grouped.aggregate(n=hr.count(), total=hr.sum("value")).named("folded")
    logs = [disordered(partition) for partition in range(LOGS)]
    rows = [
        (a.key, a.value, 1, topic.name, a.partition, offset, a.ts, stream, 1, "kept", None)
        for log in logs
        for a, offset, stream in log.rows
    ]
    decided = local_frame(spark, rows, DECIDED)
    items = fold.assigned(kept_partials(runs_of(decided, node, node.aggregates, {})), node)
    merged = fold.merge_sessions(items, node, node.aggregates, decided.schema).collect()
    found = [
        (row["key"], row["__start_ms"], row["__end_ms"], row["__n_n"], int(row["__total_sum"]))
        for row in merged
        if row["__session"] is not None
    ]
    expected = [sessions(log, gap, grace) for log in logs]
    assert sorted(found) == sorted(
        (key, s.start, s.end, len(s.arrivals), sum(int(a.value or 0) for a in s.arrivals))
        for each in expected
        for (key, _), s in [*each.final, *each.open]
    )
    late = sum(row["__records"] for row in merged if row["__session"] is None)
    assert late == sum(each.late.total() for each in expected)
    assert late
