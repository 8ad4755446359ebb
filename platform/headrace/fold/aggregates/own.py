"""Aggregates that users write: Python for each record and each merge of two states, because somebody asked for it.

Law: that of `description.own_aggregate`. A state is a struct; that of a group without records is null. The user's methods
get states of the declared types, and each that they give becomes one at once, as if it had been kept. So nothing depends
on how many records stand between two commits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.description.arrow_types import arrow_type
from headrace.description.own_aggregate import Aggregate
from headrace.errors import TerminalError
from headrace.fold.aggregates.kind import Inputs, Kind, Parts
from headrace.fold.aggregates.own_state import as_kept

STATE = "state"


class Own(Kind):
    """One aggregate of a user over some columns."""

    def __init__(self, own: Aggregate, of: Sequence[pa.Field]) -> None:
        self.own = own
        self.columns = tuple(field.name for field in of)
        self.state = pa.struct([pa.field(c.name, arrow_type(c.type)) for c in own.state_columns])
        self._as_kept = as_kept(self.state)
        self.fields = {STATE: self.state}
        self.result = arrow_type(own.result)
        self.refusal = f"{own.named}.add raises"

    def usable(self, rows: Inputs) -> np.ndarray:
        """Rows that can be added to the state of no records."""
        values = self._values(rows)
        found = np.ones(len(values), bool)
        for place, each in enumerate(values):
            try:
                self._added(self._begun(), *each)
            except Exception:  # it is the user's code: whatever it raises, the record is a dead letter
                found[place] = False
        return found

    def partial(self, rows: Inputs, codes: np.ndarray, groups: int) -> Parts:
        """See `Kind.partial`."""
        states: list[Any] = [None] * groups
        for code, each in zip(codes.tolist(), self._values(rows), strict=True):
            before = states[code]
            state = self._begun() if before is None else before
            states[code] = self._asked("add", self._added, state, *each)
        return {STATE: self._states("add", states)}

    def merge(self, parts: Parts, codes: np.ndarray, groups: int) -> Parts:
        """See `Kind.merge`."""
        states: list[Any] = [None] * groups
        for code, state in zip(codes.tolist(), parts[STATE].to_pylist(), strict=True):
            before = states[code]
            if before is None or state is None:
                states[code] = state if before is None else before
            else:
                states[code] = self._asked("merge", self._merged, before, state)
        return {STATE: self._states("merge", states)}

    def finish(self, parts: Parts) -> pa.Array:
        """See `Kind.finish`."""
        states = parts[STATE].to_pylist()
        values = [
            self._asked("finish", self.own.finish, self._begun() if state is None else state)
            for state in states
        ]
        return self._asked("finish", pa.array, values, self.result)

    def _values(self, rows: Inputs) -> list[tuple[Any, ...]]:
        """The values of each row."""
        return [*zip(*(rows.column(name).to_pylist() for name in self.columns), strict=True)]

    def _added(self, state: Any, *values: Any) -> Any:
        return self._as_kept(self.own.add(state, *values))

    def _merged(self, one: Any, other: Any) -> Any:
        return self._as_kept(self.own.merge(one, other))

    def _begun(self) -> Any:
        return self._as_kept(self.own.init())

    def _states(self, what: str, states: list[Any]) -> pa.Array:
        return self._asked(what, pa.array, states, self.state)

    def _asked(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            raise TerminalError(
                f"Aggregate {self.own.named}: {what} raises {type(error).__name__}: {error}",
                detail="No record raises when it is added to the state of no records, so none can be set apart.",
                hint=f"Mend {self.own.named}.{what}; the node goes on from here.",
            ) from error
