"""Named streams: each record by itself."""

from __future__ import annotations

from headrace.description import NamedStream
from headrace.fold import records
from headrace.fold.kernel import Kernel
from headrace.operators.contract import Appended, Bindings


class Records(Appended[NamedStream]):
    """One row for each record.

    Written: `where` `select` `with_column` `transform` `branch` `quarantine` `named`
    Law: Steps decide row by row. A refused record is counted, never dropped. No state.
    Source: Kafka Streams, `KStream`.
    Guide: first-pipeline
    """

    def kernel(self, of: Bindings) -> Kernel:
        """See `fold.records`."""
        return records.Records.of(self.node)
