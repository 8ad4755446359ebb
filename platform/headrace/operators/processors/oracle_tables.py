"""Global tables of processors: at each call the row of a key is worked out anew, of the versions that stand before.

Law: a record finds the versions that stand before it in the logs. A timer by the wall clock finds those of earlier log
commits; a timer by the stream clock, and `close`, also those of its own. The last one by the table's order counts. Records
that had to wait for complete tables find those through the commit that completes them.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from headrace.description.feeds import table_feed
from headrace.description.processor import KeyValueStore, ProcessorError
from headrace.description.table import TIMESTAMP
from headrace.oracle.fates import COMPLETE, OPEN, USED, refused_by_table
from headrace.oracle.tables import deletes, order

if TYPE_CHECKING:
    from headrace.description import GlobalTable, Processed, Table
    from headrace.oracle.log import Log, Results, Row

Before = Callable[["Row"], bool]  # whether a version stands before where user code stands


class Here(Protocol):
    """Where user code stands: which versions stand before."""

    before: Before | None


class _Rows(KeyValueStore):
    """The rows of a table, by keys as users write them."""

    def __init__(self, here: Here, of: GlobalTable, rows: Sequence[Row]) -> None:
        self.here, self.table = here, of.table
        self.versions: dict[Any, list[Row]] = defaultdict(list)
        for row in rows:
            if _refused(self.table, row) is None:
                self.versions[_only([row.values[name] for name in self.table.key])].append(row)

    def get(self, *key: Any) -> Any:
        assert self.here.before is not None
        known = [row for row in self.versions.get(_only(key), []) if self.here.before(row)]
        last = max(known, key=lambda row: order(self.table, row), default=None)
        if last is None or deletes(last):
            return None
        return copy.deepcopy(_value(last, self.table.values))

    def all(self) -> Iterator[tuple[Any, Any]]:
        return self._some(lambda key: True)

    def range(self, first: Any, last: Any) -> Iterator[tuple[Any, Any]]:
        return self._some(lambda key: bool(first <= key <= last))

    def put(self, *key_and_value: Any) -> None:
        raise ProcessorError("A global table is only read.")

    def delete(self, *key: Any) -> None:
        raise ProcessorError("A global table is only read.")

    def _some(self, wanted: Callable[[Any], bool]) -> Iterator[tuple[Any, Any]]:
        keys = [key for key in sorted(self.versions) if wanted(key)]
        return iter([(key, self.get(key)) for key in keys if self._is_there(key)])

    def _is_there(self, key: Any) -> bool:
        assert self.here.before is not None
        known = [row for row in self.versions[key] if self.here.before(row)]
        return bool(known) and not deletes(max(known, key=lambda row: order(self.table, row)))


def global_rows(here: Here, node: Processed, log: Log) -> dict[str, _Rows]:
    """The global tables of a node by name."""
    return {each.name: _Rows(here, each, log.feeds[table_feed(each.name)]) for each in node.tables}


def complete_at(node: Processed, log: Log) -> int | None:
    """The commit with which the tables that are waited for are complete; 0: none is; None: there is none yet."""
    rows = [row for table in node.tables for row in log.feeds[table_feed(table.name)]]
    found = {row.topic: row.at_ms for row in reversed(rows) if row.fate == COMPLETE}
    if not {*node.waits_for} <= found.keys():
        return None
    return max((found[topic] for topic in node.waits_for), default=0)


def before_record(node: Processed, record: Row, complete_ms: int) -> Before:
    """Which versions stand before a record. Rows that a whole log commit made stand after its records.

    In: complete_ms  the commit through which records had to wait: these find the table after it
    """
    if record.at_ms <= complete_ms:
        return lambda row: row.at_ms <= complete_ms
    told = {topic for each in node.tables for topic in each.revised_at_commit_end}
    return lambda row: row.at_ms < record.at_ms if row.topic in told else row.place < record.place


def note_fates_of_tables(node: Processed, log: Log, results: Results) -> None:
    """Add the fates of the tables' records. One that an input takes is used, or waits, whatever the others make of it."""
    for table in node.tables:
        for row in log.feeds[table_feed(table.name)]:
            if row.offset is None:
                continue
            place = row.topic, row.partition, row.offset
            fate = _refused(table.table, row) or USED
            other = results.fates.get(place, fate)
            taken = next((each for each in (OPEN, USED) if each in (fate, other)), None)
            results.fates[place] = taken or min(fate, other)


def _refused(table: Table, row: Row) -> str | None:
    return refused_by_table(row, table.key, by_timestamp=table.order_by == TIMESTAMP)


def _value(row: Row, names: Sequence[str]) -> Any:
    return row.values[names[0]] if len(names) == 1 else {name: row.values[name] for name in names}


def _only(key: Sequence[Any]) -> Any:
    return key[0] if len(key) == 1 else tuple(key)
