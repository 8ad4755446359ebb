"""Learns a guard's state from rows of the log. A guard of another mode than before reads the log once.

Law: the state is what it would be after the same rows, sequenced with the guard, unless an exact guard has forgotten
positions meanwhile. The order of rows does not matter. Rows that were sequenced without a guard teach nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from headrace.log.record_task import in_chunks
from headrace.sequence.log_columns import RECORD
from headrace.sequence.replays.chains import Chains
from headrace.sequence.replays.contents import Contents
from headrace.sequence.replays.exact import ExactGuard
from headrace.sequence.replays.guards import Guard
from headrace.sequence.replays.monotone import MonotoneGuard
from headrace.spark.one_task import reports_of
from headrace.spark.workers import in_worker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = ("root_topic", "root_partition", "root_offset", "ordinals", "path")


def learn(guard: Guard, rows: DataFrame) -> Guard:
    """The guard after these rows.

    In: rows  of the log, of any kind; those of one commit, or all since the resets of their roots
    """
    chained = rows.where((F.col("kind") == RECORD) & F.col("path").isNotNull()).select(*COLUMNS)
    match guard:
        case MonotoneGuard():
            found = guard
            for document in reports_of(chained, LearnTask(MonotoneGuard()), COLUMNS):
                found = found.joined(MonotoneGuard.from_json(document))
            return found
        case ExactGuard(gaps_max=gaps_max):
            seen = guard.unbounded()
            for document in reports_of(chained, LearnTask(ExactGuard().unbounded()), COLUMNS):
                seen = seen.joined(ExactGuard.from_json(document, seen.gaps_max))
            return seen.bounded(gaps_max)


@dataclass(frozen=True)
class LearnTask:
    """Learns from some rows. In: guard  an empty one."""

    guard: Guard

    @in_worker
    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """For `mapInArrow`: COLUMNS in, the guard's state out (JSON)."""
        guard = self.guard
        for rows in in_chunks(batches):
            if rows.num_rows:
                _, guard = guard.judge(
                    _chains(rows.combine_chunks()), np.ones(rows.num_rows, bool), Contents()
                )
        yield pa.RecordBatch.from_pydict({"report": [json.dumps(guard.to_json())]})


def _chains(rows: pa.Table) -> Chains:
    """The chains as the log holds them."""
    topic, partition, offset, ordinals, path = (rows[name].chunk(0) for name in COLUMNS)
    return Chains(
        topic.dictionary_encode(),
        partition.to_numpy(),
        offset.to_numpy(),
        ordinals.value_lengths().to_numpy().astype(np.int64),
        ordinals.flatten().to_numpy(),
        path.dictionary_encode(),
        np.zeros(rows.num_rows, bool),
    )
