"""A function as a sink: it is called for each row that a node emits, in the order of the node's table.

Law: at least once. A row's id follows from the node, the log commit that caused the row and its place there: it is the same
after a crash, in other cuts and in a backfill. Which rows of a delivery were sent is recorded; a repeated delivery goes
on with the others. A row that was sent less than a second before a crash may be sent again.
A row that Python does not have, as one with a time in the year 10000, is parked: the function is not called for it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from headrace.description.durations import Duration, duration_ms
from headrace.description.python_rows import python_rows
from headrace.description.wording import a_value
from headrace.errors import DescriptionError, TransientError
from headrace.lake import small_files

if TYPE_CHECKING:
    import datetime as dt

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from headrace.description.sink import Delivery

DELETED, ORDINAL, TIMESTAMP = "__deleted", "__ordinal", "__timestamp"  # see `Sink.deliver`
SEQUENCE, PLACE = "__sequence", "__place"
OWN = (DELETED, TIMESTAMP, SEQUENCE, PLACE, ORDINAL)
Refusal = tuple[int, int, str]  # sequence, ordinal, reason
RECORD_SECONDS = 1.0  # how often it is recorded what was sent
REASON_MAX = 200  # letters
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")


@dataclass(frozen=True)
class DeliveredRow(Mapping[str, Any]):
    """A row that a node emits: its columns by name, and what tells it from all others.

    id         32 letters; the same whenever the row is delivered
    node       the node's name
    deleted    the row is gone from its table: all columns but those of its identity are null
    timestamp  its event time; None: it has none
    sequence   the log commit that caused it, in epoch milliseconds
    """

    columns: Mapping[str, Any]
    id: str
    node: str
    deleted: bool
    timestamp: dt.datetime | None
    sequence: int
    ordinal: int

    def __getitem__(self, column: str) -> Any:
        return self.columns[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


@dataclass(frozen=True)
class _Due:
    """A row to be sent. In: row  the error with which Python says that it has no such row."""

    id: str
    sequence: int
    ordinal: int
    row: DeliveredRow | Exception


@dataclass(frozen=True)
class EachSink:
    """See `each`."""

    function: Callable[[DeliveredRow], object]
    name: str
    rows_per_second: float | None
    calls_at_a_time: int
    attempts: int
    wait_ms: int

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        """Call the function for the rows that were not sent yet, in their order (see `Sink.deliver`)."""
        from headrace.description import quote

        columns = dict.fromkeys((*delivery.columns, *delivery.identity, *OWN))
        self.deliver_table(rows.select(*map(quote, columns)).orderBy(SEQUENCE, ORDINAL).toArrow(), delivery)

    def deliver_table(self, rows: pa.Table, delivery: Delivery) -> None:
        """The same of rows as Arrow has them, in their order (see `TableSink`)."""

        def park(refusals: list[Refusal]) -> None:
            if refusals:
                from headrace.sinks.refusals import record_refusals

                record_refusals(rows, delivery, refusals, f"Function '{self.name}'")

        self._send(_due(rows, delivery), delivery, park)

    def _send(self, rows: Sequence[_Due], delivery: Delivery, park: Callable[[list[Refusal]], None]) -> None:
        """Call the function. In: park  takes the rows that fail: of each its sequence, its ordinal and the reason."""
        noted = None if delivery.again else f"{delivery.refused}.sent.json"
        sent = _Sent.of(noted, [row.id for row in rows])
        failed: list[Refusal] = []
        calls, recorded = _Calls(self), time.monotonic()
        try:
            while sent.rows < len(rows):
                stretch = rows[sent.rows : sent.rows + self.calls_at_a_time]
                away = None
                for row, error in calls.of([row for row in stretch if row.id not in sent.beyond]):
                    if isinstance(error, TransientError):
                        away = away or error
                        continue
                    if error is not None:
                        failed.append((row.sequence, row.ordinal, _reason(row, error)))
                    sent.add(row.id)
                if away is not None:
                    raise away
                if time.monotonic() - recorded >= RECORD_SECONDS:
                    park(failed)
                    sent.write()
                    failed, recorded = [], time.monotonic()
        finally:
            calls.close()
            park(failed)
            sent.write()


def each(
    function: Callable[[DeliveredRow], object],
    *,
    name: str | None = None,
    rows_per_second: float | None = None,
    calls_at_a_time: int = 1,
    attempts: int = 3,
    wait: Duration = "1 second",
) -> EachSink:
    """A sink that calls a function for each row, in the order of the node's table: `finals.to(hr.each(send_mail))`.

    In:     function         gets an `hr.DeliveredRow`
            name             of the sink; None: that of the function
            rows_per_second  at most; None: as fast as the function
            calls_at_a_time  so many rows that follow one another may be called for at once, by threads
            attempts         how often it is called for a row that raises; then the row is parked, and the next one follows:
                             `headrace dead-letters NODE` shows it. An `hr.TransientError` parks nothing: the node waits and
                             goes on with that row
            wait             before the second attempt; it doubles with each
    Law:    at least once, see the module
    Raises: DescriptionError naming what does not fit
    """
    if not callable(function):
        raise DescriptionError(f"each: {a_value(function)} is no function.", hint="Write hr.each(send_mail).")
    name = name or f"each-{getattr(function, '__name__', type(function).__name__)}"
    if not _NAME.fullmatch(name):
        raise DescriptionError(
            f"each: {a_value(name)} is no name of a sink.", hint="Give it one: hr.each(…, name='mail')."
        )
    for what, value in (("calls_at_a_time", calls_at_a_time), ("attempts", attempts)):
        if type(value) is not int or value < 1:
            raise DescriptionError(f"each: {what} {a_value(value)} is not a whole number above 0.")
    if rows_per_second is not None and not rows_per_second > 0:
        raise DescriptionError(f"each: rows_per_second {a_value(rows_per_second)} is not above 0.")
    return EachSink(
        function, name, rows_per_second, calls_at_a_time, attempts, duration_ms(wait, "each: wait")
    )


class _Sent:
    """Which rows of a delivery were sent. Without a URI nothing is recorded.

    rows    how many of the first ones; a digest of their ids in order tells the delivery from others
    beyond  the ids of rows behind these: they were called for together with one that has to wait
    """

    def __init__(self, uri: str | None, ids: Sequence[str]) -> None:
        self._uri, self._ids = uri, ids
        self.rows, self._digest, self.beyond = 0, "", set[str]()

    @classmethod
    def of(cls, uri: str | None, ids: Sequence[str]) -> _Sent:
        """The record of a delivery of these rows; none of them was sent if the record is of another delivery."""
        known = (uri and small_files.read_json(uri)) or {"rows": 0, "digest": ""}
        begun = cls(uri, ids)
        for each_id in ids[: known["rows"]]:
            begun.add(each_id)
        if (begun.rows, begun._digest) != (known["rows"], known["digest"]):
            return cls(uri, ids)
        for each_id in {*known.get("beyond", ())} & {*ids}:
            begun.add(each_id)
        return begun

    def add(self, row_id: str) -> None:
        """Note that a row was sent."""
        self.beyond.add(row_id)
        while self.rows < len(self._ids) and (first := self._ids[self.rows]) in self.beyond:
            self.beyond.remove(first)
            self.rows += 1
            self._digest = blake2b(f"{self._digest}{first}".encode(), digest_size=16).hexdigest()

    def write(self) -> None:
        """Record it."""
        if self._uri is not None:
            content = {"rows": self.rows, "digest": self._digest, "beyond": sorted(self.beyond)}
            small_files.write_json(self._uri, content)


class _Calls:
    """Calls the function, not faster than it may be called."""

    def __init__(self, sink: EachSink) -> None:
        self._sink, self._next = sink, time.monotonic()
        self._threads = ThreadPoolExecutor(sink.calls_at_a_time) if sink.calls_at_a_time > 1 else None

    def of(self, rows: Sequence[_Due]) -> list[tuple[_Due, Exception | None]]:
        """Each row with the error of its last attempt; None: it was sent."""
        if self._threads is None:
            return [(row, self._attempts(self._in_time(row))) for row in rows]
        errors = self._threads.map(self._attempts, [self._in_time(row) for row in rows])
        return list(zip(rows, errors, strict=True))

    def close(self) -> None:
        """End the threads."""
        if self._threads is not None:
            self._threads.shutdown()

    def _in_time(self, row: _Due) -> _Due:
        """Wait until the next row may be sent."""
        if self._sink.rows_per_second is not None:
            time.sleep(max(0.0, self._next - time.monotonic()))
            self._next = max(self._next, time.monotonic()) + 1 / self._sink.rows_per_second
        return row

    def _attempts(self, due: _Due) -> Exception | None:
        if isinstance(due.row, Exception):
            return due.row
        outcome: Exception | None = None
        for number in range(self._sink.attempts):
            if number:
                time.sleep(self._sink.wait_ms / 1000 * 2 ** (number - 1))
            try:
                self._sink.function(due.row)
            except TransientError as away:
                return away
            except Exception as error:  # of the user's code
                outcome = error
            else:
                return None
        return outcome


def _due(rows: pa.Table, delivery: Delivery) -> list[_Due]:
    places = zip(*(rows[name].to_pylist() for name in (SEQUENCE, PLACE, ORDINAL)), strict=True)
    found = []
    for row, (sequence, place, ordinal) in zip(python_rows(rows), places, strict=True):
        row_id = _id_of(delivery.node, sequence, place)
        content = row if isinstance(row, Exception) else _row_of(row, row_id, delivery)
        found.append(_Due(row_id, sequence, ordinal, content))
    return found


def _row_of(row: Mapping[str, Any], row_id: str, delivery: Delivery) -> DeliveredRow:
    return DeliveredRow(
        {name: row[name] for name in delivery.columns},
        row_id,
        delivery.node,
        row[DELETED],
        row[TIMESTAMP],
        row[SEQUENCE],
        row[ORDINAL],
    )


def _reason(row: _Due, error: Exception) -> str:
    lacks = "Python does not have such a value: " if error is row.row else ""
    return f"{lacks}{type(error).__name__}: {error}"[:REASON_MAX]


def _id_of(node: str, sequence: int, place: bytes) -> str:
    return blake2b(f"{node}\0{sequence}\0".encode() + bytes(place), digest_size=16).hexdigest()
