"""The operator: which records a processor takes, and its step."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headrace.description import Processed
from headrace.fold.contract import Step
from headrace.fold.processors.process_batches import ProcessBatches
from headrace.fold.processors.process_records import ProcessRecords
from headrace.fold.processors.shape import AsFields, Shape


@dataclass(frozen=True)
class Processors:
    """The rows that a processor forwards (L34).

    ordered  an increment takes all topics through one commit time
    """

    shape: Shape
    ordered = True

    @classmethod
    def of(cls, node: Processed, inputs: pa.Schema, fields: AsFields) -> Processors:
        """The operator of a node. In: the schema of its rows; what makes Arrow's fields of declared columns."""
        return cls(Shape.of(node, inputs, fields))

    @property
    def steps(self) -> tuple[Step, ...]:
        """One."""
        return (ProcessBatches(self.shape) if self.shape.vectorised else ProcessRecords(self.shape),)

    def decide(self, rows: pa.Table) -> pa.Table:
        """Complete FATE and REASON: every record that has a group is kept. Row by row; no row is dropped."""
        return ProcessRecords(self.shape).decided(rows)
