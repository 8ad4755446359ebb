"""Sinks: where what a node emits goes beside its Delta table.

Law: a sink is idempotent by identity. The runtime delivers before it commits the micro-batch, and delivers the same rows
again when it could not commit; so after any crash every row has arrived, and a second arrival changes nothing.
"""

from headrace.description.sink import CorrectableSink, Delivery, ReadableSink, Sink
from headrace.sinks.each import DeliveredRow, each
from headrace.sinks.kafka import KafkaSink
from headrace.sinks.postgres import PostgresSink

__all__ = [
    "CorrectableSink", "DeliveredRow", "Delivery", "KafkaSink", "PostgresSink", "ReadableSink", "Sink", "each",
]  # fmt: skip
