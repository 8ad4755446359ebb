"""The protocol of sinks; a user's own sink is a class with a `name` and a `deliver` like these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Delivery:
    """The rows of one delivery: whose they are, and what tells them apart.

    node      the node's name
    key       the columns that say what a row is about: the message key; several rows may have one, and it may be empty
    identity  the columns that tell one row from all others; a later row of the same identity replaces an earlier one.
              Rows that are only appended have `__sequence` and `__place`. Names that begin with `__` are not among
              `columns`, and `rows` has them
    columns   the columns to deliver; others begin with `__`
    refused   URI of the Delta table for rows that the sink's store refuses (the sink creates it when it needs it)
    whole     True: the rows and deletions bring the store to the node's rows, whatever it holds
    again     True: a person asks for rows that were delivered; what a sink has noted as sent counts for nothing
    """

    node: str
    key: tuple[str, ...]
    identity: tuple[str, ...]
    columns: tuple[str, ...]
    refused: str
    whole: bool = False
    again: bool = False


@runtime_checkable
class Sink(Protocol):
    """A store that takes rows again without harm.

    It may have a method `check(node)`, called when a node is described, that raises DescriptionError for a node whose
    rows it cannot take. It may have an `exclusive_store`: two nodes of a pipeline whose sinks have equal ones are refused.
    It may have a `quota`, an `hr.Quota`: the node's next micro-batch begins when there is room.
    """

    @property
    def name(self) -> str:
        """Tells the sinks of a node apart; stable over restarts."""
        ...

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        """Put rows into the store; return when they are there for good.

        In:     rows  `delivery.columns` and, of `delivery.identity`, those that begin with `__`; besides these
                `__deleted` BOOLEAN   the identity is gone, and other columns are null; never true of rows that are only
                                      appended
                `__timestamp` TIMESTAMP  event time
                `__sequence` BIGINT   the log commit that caused the row
                `__place` BINARY      its place among the rows of that commit, compared byte by byte
                `__ordinal` INT       its rank by place
                `__chain` STRING      of a named stream or a flat map the source chain of the row (see `hr.KafkaSink`)
        Law:    among rows of one identity the one with the higher sequence is newer, and in one sequence the one with the
                higher place. A table gives one row for each identity and log commit, so a delivery may hold several rows
                of an identity, in any order; a throttled table gives the newest of each identity
        Raises: TransientError when the store is away: the stream waits, and delivers the same rows again.
        """
        ...


@runtime_checkable
class TableSink(Sink, Protocol):
    """A sink that takes few rows as a table of Arrow, in the process of the stream: no job of Spark starts for them."""

    def deliver_table(self, rows: pa.Table, delivery: Delivery) -> None:
        """Put rows into the store, as `deliver` does; they come in the order of `__sequence` and `__place`.

        Many rows go to `deliver`.
        """
        ...


@runtime_checkable
class ReadableSink(Sink, Protocol):
    """A sink whose store can say what it holds: it can be checked, and given only what it lacks."""

    def identities(self, spark: SparkSession, delivery: Delivery) -> DataFrame:
        """The rows of a node that the store holds.

        Out: the columns `delivery.identity`; one row for each row held, so that one held twice shows. Rows that the store
             has refused count as held if they stand in `delivery.refused`.
        """
        ...


@runtime_checkable
class CorrectableSink(Sink, Protocol):
    """A sink whose store can be put right when a backfill finds that rows delivered before were wrong."""

    def correct(self, rows: DataFrame, delivery: Delivery, through: int) -> None:
        """Make the store hold of each identity what its row says; return when it does for good.

        In:     rows     as for `deliver`, one row for each identity: the row that the store should hold; `__deleted` if it
                         should hold none. `__ordinal` only tells rows of one sequence apart
                through  a sequence. A row in the store with a higher `__sequence` is newer and stays. Everything else of
                         these identities gives way, also if it looks newer than the row; other identities stay as they are
        Raises: TransientError when the store is away. The same correction again changes nothing.
        """
        ...
