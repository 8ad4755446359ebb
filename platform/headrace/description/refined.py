"""Tables after row-wise steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from headrace.description.expressions import parse_expression
from headrace.description.fingerprint import rules_of_steps
from headrace.description.part_words import words_of_steps
from headrace.description.record_metadata import refuse_metadata
from headrace.description.relation import Refinable, Relation, require_side
from headrace.description.schema import ResultColumn
from headrace.description.shape import Shape
from headrace.description.spark_steps import each_with_need
from headrace.description.steps import Select, Where, WithColumn
from headrace.description.wording import listed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.node import Node
    from headrace.description.stream import Stream
    from headrace.description.topic import Topic

RowStep = Where | Select | WithColumn


@dataclass(frozen=True)
class Refined(Refinable):
    """A table after row-wise steps: the rows that pass each `where`, with the columns that the steps make.

    Out: the key of the table, which no step changes, then the other columns.
    Law: a row follows from the table's row of the same key alone. So one that passes no more is deleted.
    Source: Kafka Streams, KTable.filter and KTable.mapValues.
    """

    table: Relation
    steps: tuple[RowStep, ...]

    def __post_init__(self) -> None:
        require_side(self.table, _VERBS[type(self.steps[0])])
        for step in self.steps:
            refuse_metadata(step.texts, _VERBS[type(step)])
            self._check_key(step)
        assert self.shape.columns is not None
        super().__post_init__()

    @property
    def shape(self) -> Shape:
        """The columns, key first, and those of their types that are known."""
        return reduce(self._after, self.steps, self.table.shape)

    @property
    def parts(self) -> Mapping[str, Relation]:
        """The table."""
        return {"rows": self.table}

    @property
    def inputs(self) -> tuple[Stream | Node, ...]:
        """The table after the steps but the last one."""
        return (replace(self, steps=self.steps[:-1], sinks=()) if len(self.steps) > 1 else self.table,)

    @property
    def topics(self) -> tuple[Topic, ...]:
        """The topics that the table reads."""
        return self.table.topics

    @property
    def key(self) -> tuple[str, ...]:
        """The key of the table."""
        return self.table.key

    @property
    def result_columns(self) -> tuple[ResultColumn, ...]:
        """The key, then what the steps leave."""
        shape, known = self.shape, {column.name: column for column in self.table.result_columns}
        assert shape.columns is not None
        made = self.origins
        return tuple(
            replace(known[origin], name=name)
            if (origin := made.get(name, name)) is not None
            else shape.result_column(name, "Made by a step.")
            for name in shape.columns
        )

    @property
    def origins(self) -> Mapping[str, str | None]:
        """For each column that is not in the key, the table's column that it repeats; None: SQL computes it."""
        found: dict[str, str | None] = {name: name for name in self.table.values}
        key = {name: name for name in self.key}
        for step in self.steps:
            match step:
                case Select(expressions):
                    parsed = [parse_expression(sql, "select") for sql in expressions]
                    found = {each.name: _origin(each.source, found | key) for each in parsed}
                    found = {name: origin for name, origin in found.items() if not self._is_key(name)}
                case WithColumn(name, expression):
                    source = parse_expression(expression, "with_column").source
                    spelled = next((own for own in found if own.lower() == name.lower()), None)
                    made = {name: _origin(source, found | key)}
                    if not self._is_key(name):
                        found = {(name if own == spelled else own): of for own, of in found.items()} | made
        return found

    @property
    def filters(self) -> bool:
        """True if a `where` is among the steps."""
        return any(isinstance(step, Where) for step in self.steps)

    @property
    def is_computed(self) -> bool:
        """True if SQL has something to compute; False: columns are chosen and renamed."""
        return self.filters or None in self.origins.values()

    @property
    def in_words(self) -> str:
        """One sentence for people."""
        which = " that passes its conditions" if self.filters else ""
        return f"One row per {listed(self.key)}{which}; always of the latest rows."

    @property
    def steps_with_need(self) -> Iterator[tuple[RowStep, bool]]:
        """The steps, and whether only Spark computes each."""
        return each_with_need(self.steps, self.table.shape, self._after)

    @property
    def work(self) -> Sequence[tuple[str, bool]]:
        """The last step."""
        return [*words_of_steps([*self.steps_with_need][-1:])]

    def rules(self) -> dict[str, Any]:
        """The table and the steps."""
        return {"refined": self.table.rules(), "steps": rules_of_steps(self.steps_with_need)}

    def _and(self, step: RowStep) -> Refined:
        return replace(self, steps=(*self.steps, step))

    def _after(self, shape: Shape, step: RowStep) -> Shape:
        """The columns after a step: those of the key stay, and stay first."""
        after, key = step.applied_to(shape), self.key
        assert after.columns is not None
        others = [name for name in after.columns if not self._is_key(name)]
        types = {name: of for name, of in after.types.items() if not self._is_key(name)}
        types |= {name: of for name in key if (of := shape.type_of(name))}
        return Shape((*key, *others), types)

    def _is_key(self, name: str) -> bool:
        """True for a column of the key in any spelling: SQL compares names without case."""
        return name.lower() in {of.lower() for of in self.key}

    def _check_key(self, step: RowStep) -> None:
        """Refuse a step that makes another column of the key, or one that is hardly told from it."""
        for name in self.key:
            if step.replaces(name):
                raise DescriptionError(
                    f"{_VERBS[type(step)]}: '{name}' is a column of the table's key, by which its rows are told apart.",
                    hint="Give the new column another name; the key stays as it is.",
                )


_VERBS = {Where: "where", Select: "select", WithColumn: "with_column"}


def _origin(source: str | None, known: Mapping[str, str | None]) -> str | None:
    if source is None:
        return None
    return next((origin for name, origin in known.items() if name.lower() == source.lower()), None)
