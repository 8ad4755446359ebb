"""Merged branches of one topic: each record is there once for each branch that lets it pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.description.fingerprint import rules_of
from headrace.description.grouping import common_key, require_known_columns
from headrace.description.record_rows import RecordRows
from headrace.description.stream import Stream
from headrace.description.wording import listed

LEFT, RIGHT = "left", "right"


@dataclass(frozen=True)
class Merged(RecordRows):
    """The records of two streams that have a topic in common.

    In:  left, right  streams with the same columns
    Out: their columns; of a record that passes on both sides two rows, that of the left side first
    Law: a function of the logs alone; there is no state, and nothing waits. The ledger counts a record once: it is used if a
         side takes it.
    Source: Kafka Streams, KStream.merge of two branches of one stream.
    """

    left: Stream
    right: Stream

    def __post_init__(self) -> None:
        require_known_columns(self.left, "merge")
        require_known_columns(self.right, "merge")
        super().__post_init__()

    @property
    def stream(self) -> Stream:
        """The left one: both have its columns."""
        return self.left

    @property
    def sides(self) -> Mapping[str, Stream]:
        """Both streams."""
        return {LEFT: self.left, RIGHT: self.right}

    goes_by_clocks = True

    @property
    def key(self) -> tuple[str, ...]:
        """The key, if both sides have the same."""
        key = common_key(self.left)
        return key if key == common_key(self.right) else ()

    @property
    def in_words(self) -> str:
        """One sentence for people."""
        return f"One row per record of {listed([topic.in_words for topic in self.topics])} and side that lets it pass."

    def rules(self) -> dict[str, Any]:
        """Both streams; its rows have source chains."""
        columns = self.left.columns or ()
        sides = {name: rules_of(side, columns) for name, side in self.sides.items()}
        return {"merged": sides, "columns": columns, "chained": True}
