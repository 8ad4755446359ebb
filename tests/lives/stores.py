"""Sinks of a life: stores in memory that take tables, and fail before, in or after a delivery."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from headrace.errors import TransientError
from tests.matrix.stores import KeyedStore, Row, Store, shown

if TYPE_CHECKING:
    from headrace.sinks import Delivery


class LivesStore(Store):
    """A store that takes rows, as `KafkaSink` does. It also knows each row that it was ever given."""

    def __init__(self, node: Any, fails: Callable[[], str]) -> None:
        """In: fails  asked at each delivery: "before", "in" or "after" it; empty: it does not fail."""
        super().__init__(node)
        self._fails, self._newest_alone = fails, node.throttle_ms > 0 and node.day_column is None
        self._at_places: dict[tuple[Any, ...], str] = {}
        self.contradictions: list[str] = []
        self.corrected = False  # rows of before have changed
        self.put_off = False  # it is to be put right once its node has run
        self.not_told = Counter[
            str
        ]()  # rows that an apply, a rollback or an erasure has made, of which it tells no sink

    def of_table(self, rows: Iterable[Row]) -> Counter[str]:
        """The rows of the node's table, as `table` has them."""
        return Counter(shown({name: row[name] for name in self.columns}) for row in rows)

    def table(self) -> list[str]:
        """The rows that it holds; those from before a change may have other columns."""
        held = (row for row in self.rows.values() if not row["__deleted"])
        return sorted(shown({name: row[name] for name in self.columns if name in row}) for row in held)

    def take(self, rows: list[Row], delivery: Delivery) -> None:
        """Take rows, or fail before, in or after that."""
        fault = self._fails()
        if fault == "before":
            raise TransientError("the sink is away")
        if fault == "in":
            self._take(rows[: len(rows) // 2], delivery)
            raise TransientError("the sink went away")
        self._take(rows, delivery)
        if fault == "after":
            raise TransientError("the sink's answer is lost")

    def _take(self, rows: list[Row], delivery: Delivery) -> None:
        identities = {tuple(map(repr, (row[name] for name in delivery.identity))) for row in rows}
        if self._newest_alone and len(identities) < len(rows):
            self.contradictions.append("a delivery of a throttled table has a key twice")
        for row in rows:
            place, text = (row["__sequence"], row["__place"]), shown(row)
            known = self._at_places.setdefault(place, text)
            if known != text:
                self.contradictions.append(f"at {place} first {known}, then {text}")
        super().take(rows, delivery)


class LivesKeyedStore(LivesStore, KeyedStore):
    """A store that also says what it holds, as `PostgresSink` does."""


SORTS: dict[str, type[LivesStore]] = {"rows": LivesStore, "keyed": LivesKeyedStore}
