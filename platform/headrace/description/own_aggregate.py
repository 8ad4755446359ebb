"""Aggregates that users write themselves: a state that records are added to, and that merges with others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.description.schema import Column, parse_ddl, parse_type
from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.aggregates import Aggregate as Described

State = Mapping[str, Any]


class Aggregate(ABC):
    """The base of aggregates of your own, for streams and windows.

    In:  state   DDL of what is kept of the records of a group, such as "low DOUBLE, high DOUBLE"
         result  the type of its value, such as "DOUBLE"
    Law: `merge` must be associative and commutative, `merge(state, init())` must be `state`, and to add a record to a state
         must be to merge the state with `add(init(), …)`. All methods depend on their arguments and on the attributes of the
         object alone, and change none of them. Then the value follows from the records, however they were grouped.
    A record for which `add(init(), …)` raises, or gives what is no state, is a dead letter of the node.
    """

    state: str
    result: str

    @abstractmethod
    def init(self) -> State:
        """Give the state of no records: a dict with the columns of `state`."""

    @abstractmethod
    def add(self, state: Any, *values: Any) -> State:
        """Give a state with one record more. In: values  of the record's columns, None where they are null."""

    @abstractmethod
    def merge(self, one: Any, other: Any) -> State:
        """Give the state of the records of both states."""

    @abstractmethod
    def finish(self, state: Any) -> Any:
        """Give the aggregate's value for a state."""

    def of(self, *columns: str) -> Described:
        """Apply it to columns of a stream: `.aggregate(span=Span().of("value"))`.

        Raises: DescriptionError when no column is named, or `state`, `result` and `init` do not go together
        """
        from headrace.description.aggregates import Aggregate as Described  # which holds one of these

        self.check()
        return Described("own", None, 0, own=self, inputs=columns)

    @property
    def named(self) -> str:
        """The name that people see."""
        return type(self).__name__

    def check(self) -> None:
        """Raise DescriptionError when `state`, `result` and `init` do not go together."""
        for name in ("state", "result"):
            if not isinstance(getattr(self, name, None), str):
                raise DescriptionError(
                    f"{self.named}: {name} {a_value(getattr(self, name, None))} is no DDL.",
                    hint='Write for example state = "low DOUBLE, high DOUBLE" and result = "DOUBLE".',
                )
        parse_type(self.result, f"{self.named}: result")
        begun = self.init()
        names = [column.name for column in self.state_columns]
        if not isinstance(begun, Mapping) or {*begun} != {*names}:
            raise DescriptionError(
                f"{self.named}: init gives {a_value(begun)}, and the columns of state are {listed(names)}.",
                hint="Return a dict with just these.",
            )

    def check_inputs(self, columns: Sequence[str]) -> None:
        """Raise DescriptionError when there is no column, or one is no name."""
        wrong = [name for name in columns if not isinstance(name, str) or not name.strip()]
        if wrong or not columns:
            raise DescriptionError(
                f"{self.named}: {a_value(wrong[0]) if wrong else 'nothing'} is not a column name.",
                hint=f"Name the columns that `add` gets: {self.named}().of('value').",
            )

    @property
    def state_columns(self) -> tuple[Column, ...]:
        """The columns of the state."""
        return parse_ddl(self.state, f"{self.named}: state")
