"""The operator: which records it takes, and its steps."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headrace.description import Batches
from headrace.fold.contract import Clock, Step
from headrace.fold.fates import decide_inputs
from headrace.fold.kernel import OfOneFeed, OpenState
from headrace.operators.batches.fold.cut_increment import CutIncrement
from headrace.operators.batches.fold.gather_events import WAITING, GatherEvents
from headrace.operators.batches.fold.limits import Limits
from headrace.operators.batches.fold.open_batches import open_records


@dataclass(frozen=True)
class BatchedSink(OfOneFeed):
    """Batches of each group's records by number, size and wall-clock time (L14).

    plain    the group is declared as a single text, and is part of a batch's name as it is
    """

    by: tuple[str, ...]
    collect: tuple[str, ...]
    topics: tuple[str, ...]
    limits: Limits
    inputs: pa.Schema
    plain: bool

    @classmethod
    def of(cls, node: Batches, inputs: pa.Schema) -> BatchedSink:
        """The operator of a node. In: the schema of decided rows."""
        declared = node.stream.shape.type_of(node.by[0])
        return cls(
            node.by,
            node.collect,
            tuple(topic.name for topic in node.topics),
            Limits(node.max_records, node.max_wait_ms, node.max_bytes, node.every_ms),
            inputs,
            len(node.by) == 1 and declared is not None and declared.type == "STRING",
        )

    @property
    def steps(self) -> tuple[Step, ...]:
        """Cut the increment, then gather what closes; both by group."""
        gather = GatherEvents(self.by, self.collect, self.topics, self.limits, self.inputs, self.plain)
        return CutIncrement(self.by, gather.columns, self.topics, self.limits), gather

    def decide(self, rows: pa.Table) -> pa.Table:
        """Complete FATE and REASON: every record is kept. Row by row; no row is dropped."""
        return decide_inputs(rows)

    @property
    def open_state(self) -> OpenState:
        """The records in open batches."""
        return OpenState(WAITING, self.open_records)

    def open_records(self, waiting: pa.Table, clock: Clock) -> pa.Table:
        """The kept records that are in open batches. In: merged rows of `waiting`. Out: see `open_batches`."""
        return open_records(waiting, clock, self.topics, self.limits)
