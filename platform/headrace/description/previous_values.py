"""Records with values of the record of their group before: `with_previous` of grouped streams.

Law: the rows are those of a processor (L34) that keeps of each group what the last record leaves. So a row follows from the
records of its group through its own, in the order that the node has: the log's, or that of time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.description.durations import Duration, duration_ms, format_duration
from headrace.description.epoch_time import milliseconds
from headrace.description.exact_numbers import EXACT
from headrace.description.grouping import nullable_column, require_known_columns
from headrace.description.process_groups import process_groups
from headrace.description.processor import Context, Processor, Record
from headrace.description.processor_order import TIME
from headrace.description.schema import Column, is_numeric, quote, refuse_repeats, to_ddl
from headrace.description.stores import value_store
from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.processed import Processed
    from headrace.description.stream import Stream

STORE = "previous"  # the name of its store
_WHAT = "with_previous"


@dataclass(frozen=True)
class Increase:
    """See `increase`."""

    column: str


def increase(column: str) -> Increase:
    """How much a counter has grown since the reading before: `with_previous(used=hr.increase("litres"))`.

    In:  column  a number that only grows, and begins again at 0 when its device does: a meter, an odometer
    Law: a reading v after the reading p gives v - p, and v if v < p, because the counter has started again. The first
         reading of a group gives null. A null, a number below 0, NaN and an infinite number are no readings: they give
         null, and the next reading is compared with the one before. So is, in the log's order, a reading whose event time
         is before that of p.
    Source: Prometheus, increase(); Kafka Connect has no such transformation.
    """
    return Increase(column)


def with_previous(
    stream: Stream,
    by: tuple[str, ...],
    columns: Mapping[str, str | Increase],
    order: str | None,
    grace: Duration,
) -> Processed:
    """See `GroupedStream.with_previous`."""
    require_known_columns(stream, _WHAT)
    if not columns:
        raise DescriptionError(f"{_WHAT}: there is no column.", hint=f"Write .{_WHAT}(before='value').")
    own = [nullable_column(stream, name, _WHAT) for name in stream.columns or ()]
    refuse_repeats([*(column.name for column in own), *columns], _WHAT)
    new = {name: _source(stream, name, of) for name, of in columns.items()}
    kept, given = {}, []
    for name, (source, grows) in new.items():
        kept[name] = f"STRUCT<reading: {source.type}, at_ms: BIGINT>" if grows else source.type
        given.append(Column(name, "DOUBLE" if grows and source.type == "FLOAT" else source.type, True))
    fields = ", ".join(f"{quote(name)}: {of}" for name, of in kept.items())
    state = _free_name(by)
    made = partial(
        PreviousValues,
        columns=tuple(column.name for column in own),
        sources=tuple((name, source.name, grows) for name, (source, grows) in new.items()),
    )
    store = value_store(STORE, f"{state} STRUCT<{fields}>")
    rest = None, None, "stop", 1, order, duration_ms(grace, "grace")
    return process_groups(stream, by, made, to_ddl([*own, *given]), [store], rest)


class PreviousValues(Processor):
    """Passes each record on, with values of the record of its group before.

    In:  columns  of the stream
         sources  of each new column its name, the column that it is of, and whether it is the increase of a counter
    Law: a record that is late in the order of time has nulls, and is not the record before of any other.
    """

    def __init__(self, columns: Sequence[str], sources: Sequence[tuple[str, str, bool]]) -> None:
        self.columns, self.sources = columns, sources

    def init(self, context: Context) -> None:
        """See the base class."""
        self.context, self.store = context, context.store(STORE)

    @staticmethod
    def _in_words_of(node: Processed) -> str:
        """One sentence about a node that runs it."""
        assert isinstance(node.processor, partial)
        new = [
            f"{name} = {f'increase of {source}' if grows else f'{source} of the record before'}"
            for name, source, grows in node.processor.keywords["sources"]
        ]
        order = (
            f", in the order of time, grace {format_duration(node.grace_ms)}" if node.order == TIME else ""
        )
        return f"One row for each record, with {listed(new)}, by {listed(node.by)}{order}."

    def process(self, record: Record) -> None:
        """See the base class."""
        row: dict[str, Any] = {name: record[name] for name in self.columns}
        before: Mapping[str, Any] = self.store.get() or {}
        if record.late:
            self.context.forward(**row, **{name: None for name, *_ in self.sources})
            return
        after = {}
        for name, source, grows in self.sources:
            if grows:
                row[name], after[name] = _grown(record[source], _ms(record), before.get(name))
            else:
                row[name], after[name] = before.get(name), record[source]
        self.store.put(after)
        self.context.forward(**row)


def _grown(
    value: Any, at_ms: int | None, last: Mapping[str, Any] | None
) -> tuple[Any, Mapping[str, Any] | None]:
    """The increase through a value, and the last reading after it."""
    if value is None or not _is_reading(value):
        return None, last
    reading = {"reading": value, "at_ms": at_ms}
    if last is None:
        return None, reading
    if None not in (at_ms, last["at_ms"]) and at_ms < last["at_ms"]:
        return None, last
    return _difference(value, last["reading"]) if value >= last["reading"] else value, reading


def _difference(value: Any, last: Any) -> Any:
    return EXACT.subtract(value, last) if isinstance(value, Decimal) else value - last


def _is_reading(value: float | Decimal) -> bool:
    return math.isfinite(value) and value >= 0


def _ms(record: Record) -> int | None:
    at = record.timestamp
    return None if at is None else milliseconds(at)


def _source(stream: Stream, name: str, of: object) -> tuple[Column, bool]:
    """The column that a new one is of, and whether it is the increase of a counter."""
    if isinstance(of, Increase):
        column = nullable_column(stream, stream.shape.resolve(of.column, f"{_WHAT}: increase"), _WHAT)
        if not is_numeric(column.type):
            raise DescriptionError(
                f"{_WHAT}: {name} is the increase of '{column.name}', which is {column.type}, and no number."
            )
        return column, True
    if not isinstance(of, str):
        raise DescriptionError(
            f"{_WHAT}: {name} {a_value(of)} is neither a column nor an increase.",
            hint=f"Write {name}='value', or {name}=hr.increase('value').",
        )
    return nullable_column(stream, stream.shape.resolve(of, _WHAT), _WHAT), False


def _free_name(by: Sequence[str]) -> str:
    """The name of the store's column, which may be none of the group's."""
    name, taken = STORE, {each.lower() for each in by}
    while name in taken:
        name += "_"
    return name
