"""What a replay guard learns from rows of the log: of a log that had none, or another one, it learns all of history once.

Law: a guard's state is what it would be after the same rows, sequenced with it. Neither kind of guard asks for their order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from headrace.log.columns import RECORD
from headrace.sequence.replays.chains import Chains
from headrace.sequence.replays.exact import ExactGuard
from headrace.sequence.replays.guards import Guard
from headrace.sequence.replays.monotone import MonotoneGuard
from headrace.spark import workers
from headrace.spark.one_task import reports_of

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
    """What one task learns. In: guard  that knows nothing."""

    guard: Guard

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """For `mapInArrow`: COLUMNS in, the guard's state out (JSON)."""
        workers.settle()
        guard = self.guard
        for batch in batches:
            if batch.num_rows:
                _, guard = guard.judge(_chains(batch), np.ones(batch.num_rows, bool))
        yield pa.RecordBatch.from_pydict({"report": [json.dumps(guard.to_json())]})


def _chains(batch: pa.RecordBatch) -> Chains:
    """The chains as the log holds them."""
    ordinals = batch.column("ordinals")
    return Chains(
        batch.column("root_topic").dictionary_encode(),
        batch.column("root_partition").to_numpy(),
        batch.column("root_offset").to_numpy(),
        ordinals.value_lengths().to_numpy().astype(np.int64),
        ordinals.flatten().to_numpy(),
        batch.column("path").dictionary_encode(),
        np.zeros(batch.num_rows, bool),
    )
