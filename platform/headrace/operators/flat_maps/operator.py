"""Flat maps: each element of a record's array as a row."""

from __future__ import annotations

from headrace.description import FlatMapped
from headrace.fold.kernel import Kernel
from headrace.fold.records import ELEMENT
from headrace.operators.contract import POSITION, Appended, Bindings
from headrace.operators.flat_maps import fold


class FlatMaps(Appended[FlatMapped]):
    """One row for each element of each record.

    Written: `flat_map`
    Law: A record is taken whole or not at all. Its rows are in the order of its array's elements, and the ledger
    counts the record once.
    Source: Kafka Streams, `KStream.flatMapValues`.
    Guide: chains
    """

    order = (*POSITION, ELEMENT)  # by the record, then by the place of the element

    def kernel(self, of: Bindings) -> Kernel:
        """See `operators.flat_maps.fold`."""
        return fold.FlatMaps.of(self.node, of.input)
