"""Distinct records: the first record of each id passes, its copies do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.description.durations import exact_ms, format_duration
from headrace.description.fingerprint import rules_of
from headrace.description.grouping import grouping_columns, require_known_columns
from headrace.description.record_rows import RecordRows
from headrace.description.stream import Stream
from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError


@dataclass(frozen=True)
class Distinct(RecordRows):
    """The records of a stream without copies: of the records of an id, the first in the log's order passes.

    In:  rows       the stream
         by         the columns of an id; null is an id like others
         within_ms  a record is a duplicate if a record that passed has its id, and their event times differ by less
         grace_ms   a record that is so far behind stream time, or further, is late: its first copy may be forgotten
    Out: the columns of the stream, one row per record that passes
    Law: L41. Two rows of one id lie at least `within_ms` apart in event time. Nothing waits.
    Source: Kafka Streams, KIP-655 (`distinct`), and the event-deduplication example of its authors.
    """

    rows: Stream
    by: tuple[str, ...]
    within_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        columns = require_known_columns(self.rows, "distinct")
        object.__setattr__(self, "by", grouping_columns(self.rows, self.by, "distinct"))
        assert {*self.by} <= {*columns}
        for name, length in (("within", self.within_ms), ("grace", self.grace_ms)):
            if exact_ms(length, name) == 0:
                raise DescriptionError(
                    f"distinct: {name} {a_value(length)} is no time: no copy would be known.",
                    hint="Say how long an id is remembered: .distinct('id', within='1 day').",
                )
        super().__post_init__()

    @property
    def stream(self) -> Stream:
        """The stream that it reads."""
        return self.rows

    @property
    def in_words(self) -> str:
        """One sentence for people."""
        topics = listed([topic.in_words for topic in self.topics])
        apart = format_duration(self.within_ms)
        late = "" if self.grace_ms == self.within_ms else f"; late after {format_duration(self.grace_ms)}"
        return f"One row per record of {topics} whose {listed(self.by)} is new within {apart}{late}."

    def rules(self) -> dict[str, Any]:
        """The stream, the id and both times; its rows have source chains."""
        assert self.rows.columns is not None
        return {
            "distinct": rules_of(self.rows, self.rows.columns),
            "columns": self.rows.columns,
            "by": self.by,
            "within_ms": self.within_ms,
            "grace_ms": self.grace_ms,
            "chained": True,
        }
