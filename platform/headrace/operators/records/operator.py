"""Named streams: each record by itself."""

from __future__ import annotations

from headrace.description import NamedStream
from headrace.fold import records
from headrace.fold.kernel import Kernel
from headrace.operators.contract import Appended, Bindings


class Records(Appended[NamedStream]):
    """One row for each record."""

    def kernel(self, of: Bindings) -> Kernel:
        """See `fold.records`."""
        return records.Records.of(self.node)
