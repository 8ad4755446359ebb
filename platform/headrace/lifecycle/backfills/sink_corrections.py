"""Corrections of a node's sinks by a backfill: wrong rows that sinks were given are corrected, or counted.

Law: for each identity that differed, a sink holds after a correction the row of the node's table after the swap, or a row
that the stream has delivered since. No other identity is sent. Nor is an identity that has changed since the base of current
results, because the stream has delivered a later row of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.description.sink import CorrectableSink
from headrace.writing.delivery.redeliver import delivery_of
from headrace.writing.delivery.right_rows import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.description import Node
    from headrace.lake.paths import Lake


@dataclass(frozen=True)
class SinkVerdict:
    """The fate of a sink's rows that were not right.

    replaced   identities of which it should hold another row; removed: of which it should hold none
    corrected  False: its store cannot be corrected, and keeps what it was given
    """

    sink: str
    replaced: int
    removed: int
    corrected: bool

    @property
    def in_words(self) -> str:
        """The work that was done, and the next step."""
        changed = "1 row" if self.replaced == 1 else f"{self.replaced:,} rows"
        which = f"{changed} that changed and {self.removed:,} that should not be there"
        if self.corrected:
            return f"sink `{self.sink}` was corrected: {which}. Rows of these that it holds as newer stay."
        return (
            f"sink `{self.sink}` cannot be corrected: it keeps what it was given of {which}. "
            "Tell its readers, or give it a new topic and run `headrace redeliver`."
        )


def correct_sinks(lake: Lake, node: Node, right: DataFrame, through_ms: int) -> tuple[SinkVerdict, ...]:
    """Give each sink that can be corrected the right rows; what became of each.

    In:     right       one row for each identity (see `writing.delivery.right_rows`)
            through_ms  the last log commit that `right` takes into account
    Raises: TransientError when a store is away: then nothing may be swapped yet, so that the backfill can be run again.
    """
    with counted(right) as (rows, replaced, removed):
        found = []
        for sink in node.sinks:
            can = isinstance(sink, CorrectableSink)
            if isinstance(sink, CorrectableSink):
                sink.correct(rows, delivery_of(lake, node, sink), through_ms)
            found.append(SinkVerdict(sink.name, replaced, removed, corrected=can))
        return tuple(found)
