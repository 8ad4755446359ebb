"""Named streams: the rows of a stream as a table of their own, without any state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.description.fingerprint import rules_of
from headrace.description.grouping import require_known_columns
from headrace.description.node_output import written_by
from headrace.description.record_rows import RecordRows
from headrace.description.stream import Stream
from headrace.description.unnamed import is_unnamed
from headrace.description.wording import listed


@dataclass(frozen=True)
class NamedStream(RecordRows):
    """The records of a stream after its row-wise steps: appended to a table, and sent to sinks, once.

    In:  rows  the stream. Nodes made of it are made of this stream: a name changes no result
    Out: the columns of the stream, one row per record that its steps let pass. Tombstones, replays and dead letters are
         counted, and are no rows
    Law: a function of the logs alone; there is no state, and nothing waits.
    Source: Kafka Streams, KStream.to.
    """

    rows: Stream

    def __post_init__(self) -> None:
        require_known_columns(self.rows, "named")
        super().__post_init__()

    @property
    def stream(self) -> Stream:
        """The stream that it is made of."""
        return self.rows

    @property
    def as_stream_of(self) -> Stream:
        """The stream."""
        return self.rows

    def as_stream(self) -> Stream:
        """The stream itself: a name changes nothing of what is made of it."""
        return self.rows

    work = ()

    goes_by_clocks = True

    @property
    def in_words(self) -> str:
        """One sentence for people."""
        writer = written_by(self.topics[0]) if len(self.topics) == 1 else None
        if writer is not None and is_unnamed(writer.required_name):
            return f"{writer.in_words.removesuffix('.')}: those rows that the steps after it let pass."
        return f"One row per record of {listed([topic.in_words for topic in self.topics])} that its steps let pass."

    def rules(self) -> dict[str, Any]:
        """The stream and its steps; its rows have source chains."""
        assert self.rows.columns is not None
        return {"stream": rules_of(self.rows, self.rows.columns), "chained": True}
