"""The rows that processors forward: gathered one by one, and made a table at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, KeysView, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.description import ProcessorError
from headrace.description.outputs import OUTPUT, TO
from headrace.description.wording import a_value, listed
from headrace.fold.contract import CAUSE, CLOCK, OFFSET, PARTITION, TOPIC
from headrace.fold.segments import LOWEST
from headrace.fold.values.columns import moments
from headrace.operators.processors.fold.shape import Shape
from headrace.operators.processors.fold.stores.values import converter, copier

Take = tuple[str, Callable[[Any], Any], Callable[[Any], Any], list[Any]]
"""Of a column its name, how a value is copied and converted, and the values so far."""

PHASE, DUE, GROUP_HASH, NUMBER, RELEASED_AT, TIMESTAMP, SEQUENCE = (
    "__phase",
    "__due",
    "__group_hash",
    "__number",
    "__released_at",
    "__timestamp",
    "__sequence",
)
WALL_TIMERS, RECORDS, END, DRAINED = range(4)  # the phases of a log commit
# Where a row stands among those of its log commit. The position is that of the record, or of the record before which a timer
# is called; at the end of a commit it is null. Nulls come last, so a record's own rows follow those of the timers before it.
PLACE_IN_COMMIT = (PHASE, TOPIC, PARTITION, OFFSET, DUE, GROUP_HASH, NUMBER)
TIE = "__tie"  # in the order of time, of a record its number among those of its group and moment
# In the order of time; the clock is that of the call.
PLACE_IN_TIME = (PHASE, CLOCK, TIE, *PLACE_IN_COMMIT[1:])


@dataclass
class Cause:
    """The call for which rows are forwarded.

    at_ms     commit time
    event_ms  event time of the rows
    clock_ms  stream clock of the call, and of the rows
    record    number of the record, or of that before which a timer is called; -1: there is none
    group     number of the group
    due_ms    of a timer when it was due; None: a record, or a drain
    number    how many rows there are of this call
    """

    at_ms: int
    phase: int
    event_ms: int | None
    clock_ms: int
    record: int
    group: int
    due_ms: int | None = None
    number: int = 0


@dataclass(frozen=True)
class _Output:
    """An output: the names of a row of it, how each value is taken, and the values of columns that the row lacks."""

    names: KeysView[str]
    takes: Sequence[Take]
    constants: Sequence[tuple[list[Any], str | None]] = ()


@dataclass
class Forwarded:
    """Rows, column by column."""

    shape: Shape
    columns: list[list[Any]] = field(init=False)
    causes: list[tuple[int, int, int | None, int, int, int, int | None, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.columns = [[] for _ in self.shape.output]
        self._nothing = dict.fromkeys(each.name for each in self.shape.output)
        self._names = self._nothing.keys()
        converts = [converter(each, f"forward: column '{each.name}'") for each in self.shape.output]
        copies = [copier(each) for each in self.shape.output]
        names = [each.name for each in self.shape.output]
        self._takes: list[Take] = list(zip(names, copies, converts, self.columns, strict=True))
        self._only = _Output(self._names, self._takes)
        self._by_output = {name: self._output(name, columns) for name, columns in self.shape.outputs.items()}

    def add(self, cause: Cause, row: Mapping[str, Any]) -> None:
        """Add a row."""
        output = self._by_output[self._named(row)] if self.shape.outputs else self._only
        if row.keys() != output.names:
            raise self._other_columns(row, output)
        made = [(column, convert(copied(row[name]))) for name, copied, convert, column in output.takes]
        for column, value in made:
            column.append(value)
        for column, value in output.constants:
            column.append(value)
        place = (cause.record, cause.group, cause.due_ms, cause.number)
        self.causes.append((cause.at_ms, cause.phase, cause.event_ms, cause.clock_ms, *place))
        cause.number += 1

    def _output(self, name: str, columns: Collection[str]) -> _Output:
        """One of several outputs: its name and nulls stand in the columns of the others."""
        takes = [take for take in self._takes if take[0] in columns]
        rest = [(take[0], take[3]) for take in self._takes if take[0] not in columns]
        constants = [(column, name if each == OUTPUT else None) for each, column in rest]
        return _Output(dict.fromkeys([*columns, TO]).keys(), takes, constants)

    def _named(self, row: Mapping[str, Any]) -> str:
        name = row.get(TO)
        if not isinstance(name, str) or name not in self._by_output:
            raise ProcessorError(
                f"forward: there is no output {a_value(name)}; there are {listed([*self.shape.outputs])}.",
                hint="Write context.forward(to='…', …).",
            )
        return name

    def _other_columns(self, row: Mapping[str, Any], output: _Output) -> ProcessorError:
        several = bool(self.shape.outputs)
        given = [each for each in row if not several or each != TO]
        wanted = sorted(each for each in output.names if each != TO) if several else [*output.names]
        which = f"output '{row[TO]}'" if several else "the output"
        return ProcessorError(
            f"forward: the row has {listed(given) if given else 'no columns'}, and {which} {listed(wanted)}.",
            hint="Give all columns of the output by name; None is null.",
        )

    def cut(self, rows: int) -> None:
        """Forget all but the first rows."""
        del self.causes[rows:]
        for column in self.columns:
            del column[rows:]

    def table(self, records: pa.Table, hashes: pa.ChunkedArray, ties: np.ndarray | None = None) -> pa.Table:
        """All rows. In: records  the rows that `Cause.record` numbers; HASH of each group; TIE of each record."""
        at, phase, event, clock, record, groups, due, number = (
            zip(*self.causes, strict=True) if self.causes else ((),) * 8
        )
        clocks = np.array(clock, np.int64)
        which = np.array(record, np.int64)
        names = [name for name in POSITION_TYPES if name in records.column_names]
        position = records.select(names).take(pa.array(which, mask=which < 0))
        found = {
            each.name: pa.array(values, each.type)
            for each, values in zip(self.shape.output, self.columns, strict=True)
        }
        found |= {name: position[name].cast(POSITION_TYPES[name]) for name in names}
        if ties is not None:
            found[TIE] = pa.array(np.where(which < 0, 0, np.append(ties, 0)[which]))
        return pa.table(
            found
            | {
                PHASE: pa.array(phase, pa.int32()),
                DUE: pa.array(due, pa.int64()),
                GROUP_HASH: hashes.take(pa.array(groups, pa.int64())),
                NUMBER: pa.array(number, pa.int64()),
                RELEASED_AT: moments(np.array(at, np.int64)),
                TIMESTAMP: pa.array(event, pa.int64()),
                CLOCK: pa.array(clocks, mask=clocks == LOWEST),
                SEQUENCE: pa.array(at, pa.int64()),
            }
        )


POSITION_TYPES = {TOPIC: pa.string(), PARTITION: pa.int32(), OFFSET: pa.int64(), CAUSE: pa.binary()}
