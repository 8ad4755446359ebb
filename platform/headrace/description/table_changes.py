"""The changes of a table as a stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeGuard

from headrace.description.emitting import Emitting
from headrace.description.relation import Relation, apart, is_table, require_side
from headrace.description.schema import ResultColumn
from headrace.description.table import Table, is_latest
from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.description.feeds import Feed
    from headrace.description.node import Node
    from headrace.description.stream import Stream
    from headrace.description.windowed import WindowedAggregate

KEY_DELETED = "key_deleted"


@dataclass(frozen=True)
class TableChanges(Emitting):
    """The changes of a table: one row for each key and log commit that changes the key's row, appended and never revised.

    Out: the columns of the table, and `key_deleted` BOOLEAN. A row holds what the key is worth after the commit. Where the
         key is gone, `key_deleted` is true and the columns beside the key are null; for readers it is a tombstone.
    Law: L31: which changes there are, and their order, follows from the logs of the table's topics alone.
    Source: Kafka Streams, KTable.toStream.
    """

    changed: Relation

    def __post_init__(self) -> None:
        if not is_table(self.changed):
            raise DescriptionError(
                f"changes: {a_value(self.changed)} is no table.", hint="Write topic.table().changes()."
            )
        if self.changed.throttle_ms:
            raise DescriptionError(
                "changes: a throttled table has the same changes as one that is not, only later.",
                hint="Leave out .throttle(…).",
            )
        if not grows(self.changed):
            require_side(self.changed, "changes")
        refuse_mark(self.changed, "changes")
        super().__post_init__()

    @property
    def feeds(self) -> Mapping[str, Feed]:
        """Those of what is changed."""
        return self.changed.feeds

    @property
    def inputs(self) -> tuple[Stream | Node, ...]:
        """The table."""
        return (self.changed,)

    @property
    def relation(self) -> Relation:
        """The table."""
        return self.changed

    tells_changes = True

    work = (("changes", False),)

    @property
    def key(self) -> tuple[str, ...]:
        """The key of the table."""
        return self.changed.key

    @property
    def result_columns(self) -> tuple[ResultColumn, ...]:
        """Those of the table, and whether the key is gone."""
        said = "True: the key is gone, and all columns beside it are null."
        return (*self.changed.result_columns, ResultColumn(KEY_DELETED, "BOOLEAN", said))

    @property
    def record_columns(self) -> tuple[ResultColumn, ...]:
        """Those of the table: a key that is gone is a tombstone."""
        return self.changed.result_columns

    day_column = "__ingested_at"  # a row belongs to the day of the commit that caused it

    @property
    def longest_wait_ms(self) -> int:
        """That of the table."""
        return self.changed.longest_wait_ms

    @property
    def in_words(self) -> str:
        """One sentence for people."""
        return f"One row per {listed(self.key)} and log commit that changes it: its row after the commit."

    def rules(self) -> dict[str, Any]:
        """The table."""
        return {"changes": self.changed.rules()}


def refuse_mark(table: Relation, what: str) -> None:
    """Refuse a table with a column of the name that marks deletions among appended rows."""
    if KEY_DELETED in table.columns:
        raise DescriptionError(
            f"{what}: the table has a column '{KEY_DELETED}', which is the name of the column that marks deletions.",
            hint=f"Give the table's column another name: .select(…, '{KEY_DELETED} AS …').",
        )


def grows(table: object) -> TypeGuard[WindowedAggregate]:
    """Whether a table is one of windows that records make, and that are revised as they grow: sessions, sliding windows."""
    return bool(getattr(table, "grows", False))


def is_sessions(table: object) -> TypeGuard[WindowedAggregate]:
    """Whether these windows are sessions."""
    return grows(table) and table.window.by_partition


def table_of_changes(table: Relation) -> Table:
    """The same table, read from the log of its changes: one partition, in which all rows of a key lie.

    In:     table  its name, sinks and owners do not matter
    Raises: DescriptionError when the type of a column is known to Spark alone
    """
    return Table(_changes_of(table), table.key, throttle_ms=table.throttle_ms)


def as_table(table: Relation) -> Table:
    """A table by its key, as lookups read it: itself, or that of its changes. Lookups refuse anything else."""
    return table if is_latest(table) or not is_table(table) else table_of_changes(table)  # type: ignore[return-value]


def transformed(table: Relation, function: Callable[[Any], Any], columns: str) -> Table:
    """See `Refinable.transform`."""
    plain, kept = apart(table)
    rows = _changes_of(plain).transform(function, columns)
    made = rows.columns or ()
    missing = [name for name in table.key if name not in made]
    if missing:
        raise DescriptionError(
            f"transform: '{missing[0]}' is a column of the table's key, and not among the columns {listed(made)}.",
            hint=f"Keep it: .transform(function, columns='{missing[0]} …, …').",
        )
    return Table(rows, table.key, throttle_ms=table.throttle_ms, **kept)


def _changes_of(table: Relation) -> Stream:
    return TableChanges(replace(table, throttle_ms=0)).as_stream()
