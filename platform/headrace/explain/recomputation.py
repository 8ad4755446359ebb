"""One row of a node, recomputed by the oracle without some of the records of its key.

Law: a blanked record keeps its place and its stream time, and counts for nothing, as one that a condition filtered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headrace.operators.provenance import may_take_part
from headrace.oracle.fates import FILTERED, OPEN, USED
from headrace.oracle.values import Identity, identity

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.operators.key_scope import KeyScope
    from headrace.oracle import Log, Results
    from headrace.oracle.log import Row

WORK_MAX = 400_000  # rows of logs that the recomputations of one row may replay, some seconds
RecordPlace = tuple[str, int, int]
Values = Mapping[str, Any]


@dataclass
class Recomputation:
    """Rows of a node that match some values, and what they become without some records.

    keys   the keys whose records are replayed; None: all
    sought the values that a row of interest has
    """

    scope: KeyScope
    log: Log
    keys: pa.Table | None
    sought: Values
    replayed: int = field(default=0, init=False)
    _singles: dict[RecordPlace, list[Values]] = field(default_factory=dict, init=False)

    @property
    def is_exhausted(self) -> bool:
        """True if no more recomputation is affordable."""
        return self.replayed >= WORK_MAX

    def results(self, blanked: AbstractSet[RecordPlace] = frozenset()) -> Results:
        """The oracle's results without some records."""
        plain = {name: [_blank(row, blanked) for row in rows] for name, rows in self.log.plain.items()}
        self.replayed += sum(map(len, plain.values()))
        return self.scope.results(replace(self.log, plain=plain), self.keys)

    def rows(self, blanked: AbstractSet[RecordPlace] = frozenset()) -> list[Values]:
        """The rows of interest without some records; windows that are still open are among them."""
        results = self.results(blanked)
        own = identity(self.sought.values())
        rows = [*results.rows, *results.open]
        return [
            row
            for row in rows
            if all(n in row for n in self.sought) and identity(row[n] for n in self.sought) == own
        ]

    def shown(self, row: Values) -> Identity:
        """The values of a row that people see."""
        return identity(row.get(name) for name in self.scope.node.columns)

    def is_equal(self, row: Values, blanked: AbstractSet[RecordPlace]) -> bool:
        """Whether the row is there as before; of several equal rows all have to be."""
        own = self.shown(row)
        rows = self._without_one(next(iter(blanked))) if len(blanked) == 1 else self.rows(blanked)
        return Counter(map(self.shown, rows))[own] == self._whole[own]

    def _without_one(self, place: RecordPlace) -> list[Values]:
        """The rows of interest without one record, recomputed once."""
        if place not in self._singles:
            self._singles[place] = self.rows({place})
        return self._singles[place]

    @cached_property
    def _whole(self) -> Counter[Identity]:
        return Counter(map(self.shown, self.rows()))

    def records(self) -> list[tuple[str, Row]]:
        """The records of the scope with their feeds, in the order of the log."""
        there = [
            (name, row) for name, rows in self.log.feeds.items() for row in rows if row.offset is not None
        ]
        return sorted(there, key=lambda each: each[1].place)

    def contributors(self, row: Values, results: Results) -> set[RecordPlace]:
        """The places of the records that made a row: those that counted by the operator's own statement.

        Where it states nothing, they are the fewest that make the row, and all without which it differs.

        Law: without any other record the row is equal.
        """
        records = [record for _, record in self.records()]
        stated = {
            place_of(record)
            for record in records
            if record.fate is None
            and may_take_part(self.scope.node, row, record)
            and results.fates.get(place_of(record)) in (USED, OPEN)
        }
        every = {place_of(record) for record in records}
        if stated and self.is_equal(row, every - stated):
            return stated
        fewest = self._fewest(row, every)
        newest_first = sorted(every - fewest, key=lambda place: (place[2], place), reverse=True)
        deciding = {p for p in newest_first if not self.is_exhausted and not self.is_equal(row, {p})}
        named = fewest | deciding
        return named if self.is_equal(row, every - named) else every

    def _fewest(self, row: Values, every: AbstractSet[RecordPlace]) -> set[RecordPlace]:
        """Records without any of which the row differs: halves that it does not need are left out, the oldest first.

        When recomputing costs too much the rest stays named.
        """
        order = [*dict.fromkeys(place_of(record) for _, record in self.records())]
        blanked: set[RecordPlace] = set()
        left: list[Sequence[RecordPlace]] = [order]
        while left and not self.is_exhausted:
            part = left.pop()
            if part and self.is_equal(row, blanked | {*part}):
                blanked |= {*part}
            elif len(part) > 1:
                half = len(part) // 2
                left += [part[half:], part[:half]]
        return {*every} - blanked

    def without(self, row: Values, place: RecordPlace) -> tuple[bool, Values | None]:
        """Whether a row differs without one record, and how.

        Out: the columns that change, with their values then; None: there is no such row, or several rows have its key
        """
        if self.is_equal(row, {place}):
            return False, {}
        key = [name for name in self.scope.node.key if name in row]
        own = identity(row[n] for n in key)
        others = [each for each in self._without_one(place) if identity(each.get(n) for n in key) == own]
        if len(others) != 1 or not key:
            return True, None
        return True, {
            n: others[0].get(n)
            for n in self.scope.node.columns
            if identity([others[0].get(n)]) != identity([row.get(n)])
        } or None


def place_of(record: Row) -> RecordPlace:
    """Topic, partition and offset."""
    assert record.offset is not None
    return record.topic, record.partition, record.offset


def _blank(row: dict[str, Any] | Values, blanked: AbstractSet[RecordPlace]) -> Values:
    place = row["__topic"], row["__partition"], row["__offset"]
    return {**row, "__fate": FILTERED} if place in blanked else row
