"""Lookups: each record of a stream with the row that a table had for it."""

from __future__ import annotations

from headrace.description import Lookup
from headrace.description.feeds import RECORDS, VERSIONS
from headrace.description.join import LEFT
from headrace.description.lookup import EVENT
from headrace.fold.kernel import Kernel
from headrace.operators.claims import UNANSWERED
from headrace.operators.contract import INGESTED_AT, POSITION, TIMESTAMP, Appended, Bindings, Unmatched, Waits
from headrace.operators.lookups.fold import LookupInLog, LookupInTime


class Lookups(Appended[Lookup]):
    """One row for each record. As of the log the table is reference; as of event time both sides drive.

    Written: `lookup` `join_prior`
    Law:
      as of the log (L21)  a record finds the row that the table had at the record's place in the log, for good. Until
          a table of topics is loaded for the first time, records wait
      as of event time (L22)  a record leaves once, when stream time is beyond its time and `grace`, with the row of
          its time
      `join_prior` (L22)  the row is the latest record of another stream at or before the record's time
    The table never holds windows open.
    Source: Kafka Streams, joins of a `KStream` with a `KTable`; `ASOF` joins. The log makes both definite.
    Guide: tables
    """

    @property
    def driving(self) -> tuple[str, ...]:
        """As of the log the stream alone: no version makes a row leave, and no record waits for a version's time."""
        read = self.node.topics if self.node.as_of == EVENT else self.node.stream.topics
        return tuple(dict.fromkeys(topic.name for topic in read))

    @property
    def order(self) -> tuple[str, ...]:
        """As of event time by that, then by commit; if records wait for a complete table by commit; else by position."""
        if self.node.as_of == EVENT:
            return (TIMESTAMP, INGESTED_AT, *POSITION)
        return (INGESTED_AT, *POSITION) if self.node.complete_first else POSITION

    @property
    def waits(self) -> Waits:
        """As of event time until that is past; with `complete_first` until the table is complete."""
        return Waits(self.node.longest_wait_ms, self.node.wall_waits, self.node.waits_for)

    cause = POSITION  # the record

    @property
    def can_be_late(self) -> bool:
        """If versions are forgotten, which a late record would find."""
        return self.node.history_ms is not None

    @property
    def lateness(self) -> tuple[str, int | None]:
        """The history that is kept of the table."""
        return "history", self.node.history_ms

    @property
    def unmatched(self) -> Unmatched | None:
        """The records that find no row of the table.

        In an inner lookup they are no rows, and the ledger tells how many; not where the table reads their topic, too.
        """
        node, left = self.node, self.node.how == LEFT
        if (left and not node.right.values) or (not left and {*node.stream.topics} & {*node.right.topics}):
            return None
        return Unmatched(
            UNANSWERED,
            node.right.values,
            frozenset() if left else frozenset(topic.name for topic in node.stream.topics),
            ("a record that found no row", "records that found no row"),
            ("record", "records"),
            "why the table of {name} lacks them, or comes after them",
        )

    def kernel(self, of: Bindings) -> Kernel:
        """As of event time or as of the log (see `operators.lookups.fold`)."""
        lookup = LookupInTime if self.node.as_of == EVENT else LookupInLog
        return lookup.of(self.node, of.inputs[RECORDS], of.inputs[VERSIONS])
