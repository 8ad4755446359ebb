"""The knowledge of a sequencer that opens a log: read from the last commit, so that it agrees with the durable log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from headrace import lake
from headrace.errors import TerminalError
from headrace.fold.values.columns import MOMENT
from headrace.lake.files.sorted_rows import all_rows
from headrace.log.commit_row import TIME_ALONE, CommitRow, is_commit_row
from headrace.log.decisions.learn_guard import learn
from headrace.log.decisions.resets import resets_in, since_last_reset
from headrace.log.history.cut_commits import cut_commits_ms
from headrace.sequence.log_columns import DEAD_LETTER, RECORD
from headrace.sequence.log_state import LogState
from headrace.sequence.replays.guards import new_guard, restored_guard
from headrace.spark.lake_rows import read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from headrace.description import Topic
    from headrace.log.decisions.guard import GuardStore
    from headrace.sequence.replays.guards import Guard

_OF_COMMITS = pa.schema([("ingested_at", MOMENT), ("kind", pa.string()), ("control", pa.string())])
_KINDS = pa.array([RECORD, DEAD_LETTER])


def recover(
    spark: SparkSession, path: str, topic: Topic, writer: str, store: GuardStore
) -> tuple[LogState, Guard | None]:
    """The state after the last commit, as its record has it."""
    try:
        commit = lake.last_commit(lake.open_table(path), writer)
    except TerminalError:
        return _from_rows(spark, path), _recover_guard(spark, path, topic, store, {})
    if commit is None:
        return LogState(), new_guard(topic.replay_guard)
    state = LogState.from_json(commit.record["after"])
    return state, _recover_guard(spark, path, topic, store, commit.record)


def commits_during(path: str, state: LogState, known_ms: int) -> tuple[list[int], list[int], list[int]]:
    """The commits during so many ms before a log's last commit, also those whose rows were cut off.

    Out: the commit times of those with records, of those that tell of the time alone as the last, and of others; rising
    """
    if not known_ms or not state.batch:
        return [], [], []
    after_ms = state.ingested_at_ms - known_ms
    first_us = (after_ms + 1) * 1_000
    last_us = state.ingested_at_ms * 1_000 + 999
    files = lake.open_table(path).snapshot().within("ingested_at", first_us, last_us)
    records, others, times = cut_commits_ms(path, after_ms)
    every = records | others | times
    for rows in all_rows([f"{path}/{name}" for name in files], _OF_COMMITS):
        at_us = rows["ingested_at"].cast(pa.int64())
        within = pc.and_(pc.greater_equal(at_us, first_us), pc.less_equal(at_us, last_us))
        of_records = pc.and_(pc.is_in(rows["kind"], _KINDS), within)
        of_time = pc.and_(pc.ends_with(rows["control"], TIME_ALONE).fill_null(False), within)
        for found, chosen in ((records, of_records), (times, of_time), (every, within)):
            found |= {us // 1_000 for us in pc.unique(at_us.filter(chosen)).to_pylist()}
    return sorted(records), sorted(every - records - times), sorted(times - records)


def _from_rows(spark: SparkSession, path: str) -> LogState:
    """The state by the log's own rows, where the commits that repeat it were cleaned.

    Raises: TerminalError when the log holds no such row
    """
    newest = read(spark, path).where(is_commit_row()).orderBy(F.desc("ingested_at")).select("control").first()
    if newest is None:
        raise TerminalError(
            f"The log at {path} has lost the history that names its last commit, and holds no commit row.",
            hint="Restore the table's _delta_log from a backup, or delete the log, so that it is read from Kafka again.",
        )
    return CommitRow.from_json(newest["control"]).after


def _recover_guard(
    spark: SparkSession,
    path: str,
    topic: Topic,
    store: GuardStore,
    record: Mapping[str, Any],
) -> Guard | None:
    """The guard after the last commit; one new to the log, or of another mode, learns from the whole log once."""
    described, kept = topic.replay_guard, store.read(record)
    new = new_guard(described)
    if new is None:
        return None
    guard = restored_guard(described, kept)
    if guard is None:
        log = read(spark, path)
        return learn(new, log.where(since_last_reset(resets_in(log))))
    return guard
