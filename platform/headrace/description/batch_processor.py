"""Vectorised processors: a user's own operator over tables of records.

The classes here say what such a processor may do. The kernel and the oracle each have their own of `BatchContext` and
`BatchStore`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from headrace.description.processor import Frozen

if TYPE_CHECKING:
    import pyarrow as pa

# Columns of the tables that user code gets and gives, beside its own.
GROUP = "__group"  # BIGINT: the number of a row's group within the batch, from 0
RECORD = "__record"  # BIGINT: the number of the record that a row is given for, from 0
PLACE = ("__topic", "__partition", "__offset", "__event_ms", "__stream_ms", "__ingested_ms")


class BatchStore(ABC):
    """A store's entries of the groups of the current batch, as tables."""

    @abstractmethod
    def entries(self) -> pa.Table:
        """All entries: `__group`, then the columns of key and value, in no order; what was put already is among them."""

    @abstractmethod
    def put(self, entries: pa.Table) -> None:
        """Set values. In: the columns of `entries`; of two rows of one key the later counts.

        A null, where a value has one column, deletes.
        """

    @abstractmethod
    def delete(self, keys: pa.Table) -> None:
        """Remove entries. In: `__group` and the columns of the key; nothing happens if an entry is not there."""


class BatchContext(ABC):
    """A vectorised processor gets this in `init`."""

    @abstractmethod
    def store(self, name: str) -> BatchStore:
        """One of the stores that the node was described with."""


class BatchProcessor(Frozen, ABC):
    """A user's own operator over tables of records: those of many groups, each with the records that follow its last ones.

    It has no timers and no `close`. Attributes are as those of a `Processor`.

    Law: the rows of a record, and the entries of its group, follow from the records of the group through it. They may depend
    neither on other groups nor on where a batch begins or ends: these change with buckets and micro-batches. The engine
    cannot see whether that is so. The oracle gives every record in a batch of its own, so `verify_keys`, `headrace verify
    --oracle` and `TestDriver.verify` find it.
    """

    def init(self, context: BatchContext) -> None:
        """Keep the context and stores as attributes."""

    @abstractmethod
    def process_batch(self, records: pa.Table) -> pa.Table | None:
        """Take a batch of records.

        In:  records  group after group, in each by the log's order: the columns of the stream; `__group`; `__topic`,
                      `__partition`, `__offset`; and the times `__event_ms`, `__stream_ms` and `__ingested_ms`
        Out: the columns of the output. Row n is given for record n, or for the one that `__record` names: the number of a
             row of `records`. None: no rows
        """
