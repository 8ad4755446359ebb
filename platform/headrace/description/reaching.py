"""The record with which an aggregate reaches a number, once for each group, or for each group and window: `reaches`.

Law: the rows are those of a processor (L34) that adds up each group's records one by one. Let v(r) be the aggregate of the
records of r's group, and of a window that r is in, through r. The row is that of the first record with v(r) at or beyond the
number. No later record takes it back, also if v falls below the number again. v is exact; its column is null where v does
not fit its type. A sum beyond 38 digits ends the group, or the group in its window: no later record reaches the number.
A record whose window is over at its clock (end and grace are at or before it) does not count, and no window begins before
1970, as in windows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from headrace.description.aggregate_inputs import columns_read
from headrace.description.aggregates import Aggregate, count
from headrace.description.clocks import STREAM
from headrace.description.durations import Duration, duration_ms, format_duration
from headrace.description.epoch_time import milliseconds, moment
from headrace.description.exact_numbers import DIGITS_MAX, EXACT
from headrace.description.grouping import nullable_column, require_known_columns
from headrace.description.process_groups import process_groups
from headrace.description.processor import Context, Processor, Record
from headrace.description.schema import Column, is_floating, is_numeric, refuse_repeats, to_ddl
from headrace.description.stores import value_store, window_store
from headrace.description.windows import END, START, TimeWindows
from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.processed import Processed
    from headrace.description.stream import Stream
    from headrace.description.windows import WindowKind

STORE, REACHED = "reached", "reached"  # the names of its store, and of the column with the value
_COUNT, _SUM = "count", "sum"
_WHAT = "reaches"
_STATE = f"`{STORE} so far` STRUCT<value: DECIMAL({DIGITS_MAX}, {{scale}}), done: BOOLEAN>"
_BIGINT_END = 1 << 63


@dataclass(frozen=True)
class Threshold:
    """The number that an aggregate reaches.

    of      the aggregate; once the stream has the column that it reads, of columns alone
    window  and its grace, if the aggregate is one of each window
    words   for the aggregate
    """

    number: int | Decimal
    of: Aggregate
    words: str
    window: TimeWindows | None = None
    grace_ms: int = 0


def reaches(
    stream: Stream,
    by: tuple[str, ...],
    threshold: Threshold,
    order: str | None = None,
    grace: Duration = 0,
) -> Processed:
    """See `GroupedStream.reaches`."""
    require_known_columns(stream, _WHAT)
    own = [nullable_column(stream, name, _WHAT) for name in stream.columns or ()]
    stream, threshold = _with_input(stream, threshold)
    bounds = [Column(name, "TIMESTAMP", True) for name in ((START, END) if threshold.window else ())]
    scale = _scale(stream, threshold)
    value = Column(REACHED, "BIGINT" if scale is None else f"DECIMAL({DIGITS_MAX}, {scale})", True)
    refuse_repeats([column.name for column in (*own, *bounds, value)], _WHAT)
    made = partial(Reaches, columns=tuple(column.name for column in own), threshold=threshold, scale=scale)
    state = _STATE.format(scale=scale or 0)
    if threshold.window is None:
        store = value_store(STORE, state)
    else:
        retention_ms = threshold.window.size_ms + threshold.grace_ms
        store = window_store(STORE, "", state, retention=dt.timedelta(milliseconds=retention_ms))
    rest = None, None, "stop", 1, order, duration_ms(grace, "grace")
    return process_groups(stream, by, made, to_ddl([*own, *bounds, value]), [store], rest)


def threshold_of(
    number: object, of: object = None, windows: tuple[WindowKind, int, str] | None = None
) -> Threshold:
    """The threshold of an aggregate. In: of  None: a count of all records; windows  with their grace and clock.

    Raises: DescriptionError for another kind of aggregate or of windows, or a number that is none
    """
    if not isinstance(number, int | Decimal) or isinstance(number, bool):
        raise DescriptionError(
            f"{_WHAT}: {a_value(number)} is no whole number and no Decimal.",
            hint=f"Write for example .{_WHAT}(5).",
        )
    of = count() if of is None else of
    window, grace_ms, clock = windows or (None, 0, STREAM)
    if not isinstance(of, Aggregate) or of.kind not in (_COUNT, _SUM):
        raise DescriptionError(
            f"{_WHAT}: of {a_value(of)} is neither hr.count(…) nor hr.sum(…).",
            hint="Write of=hr.count(where=\"status = 'failed'\"), or of=hr.sum('amount').",
        )
    if window is not None and (clock != STREAM or window.by_records or window.unit):
        raise DescriptionError(
            f"{_WHAT}: the {window.in_words} by the {clock} clock is no tumbling or hopping window of event time.",
            hint="Use hr.tumbling(…) or hr.hopping(…), without clock=.",
        )
    return Threshold(number, of, of.in_words, cast("TimeWindows | None", window), grace_ms)


def _with_input(stream: Stream, threshold: Threshold) -> tuple[Stream, Threshold]:
    """The stream with the column that the aggregate reads, and the threshold of that column."""
    columns, ((_, aggregate),) = columns_read(stream.shape, {REACHED: threshold.of})
    for name, expression in columns.items():
        stream = stream.with_column(name, expression)
    spelled = aggregate.column and stream.shape.resolve(aggregate.column, _WHAT)  # as records spell it
    return stream, replace(threshold, of=replace(aggregate, column=spelled))


class Reaches(Processor):
    """Gives the record with which the aggregate reaches the number.

    In:  columns  of the records that it gives
         scale    the digits after the point of a sum of decimals; None: the value is a whole number
    """

    def __init__(self, columns: Sequence[str], threshold: Threshold, scale: int | None) -> None:
        self.columns, self.threshold, self.scale = columns, threshold, scale
        self.end = Decimal(
            (0, (1,), DIGITS_MAX - (scale or 0))
        )  # the first number that the store cannot hold

    def init(self, context: Context) -> None:
        """See the base class."""
        self.context = context
        self.store: Any = (context.store if self.threshold.window is None else context.window_store)(STORE)

    @staticmethod
    def _in_words_of(node: Processed) -> str:
        """One sentence about a node that runs it."""
        assert isinstance(node.processor, partial)
        threshold: Threshold = node.processor.keywords["threshold"]
        window = threshold.window
        grace = f", grace {format_duration(threshold.grace_ms)}"
        each = "" if window is None else f" and {window.in_words}{grace}"
        return (
            f"The record with which {threshold.words} reaches {threshold.number}, by {listed(node.by)}{each}."
        )

    def process(self, record: Record) -> None:
        """See the base class."""
        threshold = self.threshold
        value = 1 if threshold.of.column is None else record[threshold.of.column]
        if value is None:
            return
        if threshold.of.kind == _COUNT:
            value = 1
        row = {name: record[name] for name in self.columns}
        for bounds, place in self._places(record):
            known = self.store.get(**place) or {"value": Decimal(0), "done": False}
            if known["done"]:
                continue
            so_far = EXACT.add(known["value"], value)
            is_reached = so_far >= threshold.number
            done = is_reached or not -self.end < so_far < self.end
            self.store.put({"value": None if done else so_far, "done": done}, **place)
            if is_reached:
                self.context.forward(**row, **bounds, reached=self._as_column(so_far))

    def _places(self, record: Record) -> Iterator[tuple[dict[str, dt.datetime], dict[str, dt.datetime]]]:
        """The bounds of each window that takes the record, and how the store finds it; without windows nothing, once."""
        window = self.threshold.window
        if window is None:
            yield {}, {}
            return
        at, now = record.timestamp, self.context.stream_time
        if at is None:
            return
        at_ms = milliseconds(at)
        now_ms = at_ms if now is None else milliseconds(now)
        first_ms = (at_ms - window.size_ms) // window.advance_ms * window.advance_ms + window.advance_ms
        for start_ms in range(max(first_ms, 0), at_ms + 1, window.advance_ms):
            if start_ms + window.size_ms + self.threshold.grace_ms > now_ms:
                start = moment(start_ms)
                yield {START: start, END: moment(start_ms + window.size_ms)}, {"at": start}

    def _as_column(self, value: Decimal) -> int | Decimal | None:
        """The value in its column; None: it does not fit."""
        fits = -_BIGINT_END <= value < _BIGINT_END if self.scale is None else -self.end < value < self.end
        if not fits:
            return None
        return int(value) if value == value.to_integral_value() else value


def _scale(stream: Stream, threshold: Threshold) -> int | None:
    """The digits after the point of a sum of decimals; None: the value is a whole number."""
    if threshold.of.kind == _COUNT:
        return None
    assert threshold.of.column is not None
    column = nullable_column(stream, threshold.of.column, _WHAT)
    if not is_numeric(column.type) or is_floating(column.type):
        raise DescriptionError(
            f"{_WHAT}: the sum is of '{column.name}', which is {column.type}.",
            hint=f"Add up exact numbers: hr.sum('CAST({column.name} AS DECIMAL(18, 2))').",
        )
    return int(column.type.rpartition(",")[2].rstrip(")")) if column.type.startswith("DECIMAL") else None
