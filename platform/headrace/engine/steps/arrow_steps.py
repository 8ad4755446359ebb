"""Row-wise steps of a stream, evaluated over Arrow columns where all of them are proven equal to Spark's.

Law: the rows are those of `headrace.spark.row_steps`. If one step of a chain is not covered, Spark evaluates the whole
chain. If a batch holds a value for which only Spark is proven, Spark evaluates that increment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from headrace.description import Select, Step, Topic, Transform, Where, WithColumn
from headrace.description.expression_types import term_over
from headrace.description.expressions import parse_expression
from headrace.description.record_metadata import HEADERS
from headrace.expressions import Rows, Term
from headrace.fold.contract import CAUSE
from headrace.fold.tables.decide_records import PASSES
from headrace.sequence.log_rows import HEADERS as LOG_HEADERS
from headrace.sequence.operator_rows import RAW_COLUMNS, REFUSED
from headrace.sequence.parse.types import fields_of
from headrace.spark.one_task import nullable
from headrace.spark.row_steps import RAW

_RAW = pa.schema([(RAW[field.name], field.type) for field in RAW_COLUMNS])
Columns = dict[str, pa.Array]  # in order, by the names that the stream gives them
_Run = Callable[[Columns, int], Columns]


@dataclass(frozen=True)
class ArrowSteps:
    """The steps of one branch of a stream, and the conditions of its table. It goes to tasks.

    columns     of the topic
    steps       in order
    conditions  SQL that decides whether a row is in its table
    """

    columns: pa.Schema
    steps: tuple[Step, ...]
    conditions: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        topic: Topic,
        steps: Sequence[Step],
        conditions: Sequence[str],
        wanted: Set[str],
        *,
        every: bool = False,
    ) -> ArrowSteps | None:
        """The steps of a branch; None: Spark has to evaluate them.

        In: wanted  the columns after them, in lower case
            every   whether all columns of the topic are read
        """
        if any(isinstance(step, Transform) for step in steps):
            return None
        read = {name.lower() for step in steps for name in step.reads or ()}
        selects = not every and any(isinstance(step, Select) for step in steps)
        wanted = read | (set() if selects else wanted)
        fields = fields_of((*topic.key_columns, *topic.value_columns))
        read_columns = pa.schema([field for field in fields if field.name.lower() in wanted])
        columns = nullable(read_columns)  # as the log has them
        made = cls(columns, tuple(steps), tuple(conditions))
        return None if _program(made) is None else made

    @property
    def columns_after(self) -> pa.Schema:
        """The columns that the steps leave."""
        program = _program(self)
        assert program is not None
        return pa.schema([*program.types.items()])

    def applied(self, rows: pa.Table) -> pa.Table:
        """The rows after the steps, with RAW, REFUSED if a `where` is among them, and PASSES if there are conditions.

        In:     the topic's columns, and RAW
        Raises: SparkNeededError
        """
        program = _program(self)
        assert program is not None
        columns: Columns = {
            name: of.chunk(0) if of.num_chunks else pa.array([], of.type)
            for name, of in zip(rows.column_names, rows.combine_chunks().columns, strict=True)
        }
        for run in program.runs:
            columns = run(columns, rows.num_rows)
        return pa.table(columns)


@dataclass(frozen=True)
class _Program:
    """One function for each step, and the types of the columns after the last."""

    runs: Sequence[_Run]
    types: Mapping[str, pa.DataType]


@lru_cache(maxsize=256)
def _program(of: ArrowSteps) -> _Program | None:
    """The work of all steps; None: Spark has to evaluate them."""
    types = {field.name: field.type for field in of.columns}
    made: list[_Run] = []
    for step in of.steps:
        of_step = _of_step(step, types)
        if of_step is None:
            return None
        run, types = of_step
        made.append(run)
    terms = [term_of_step(condition, types) for condition in of.conditions]
    holding = [term for term in terms if term is not None]
    if len(holding) < len(terms):
        return None
    return _Program([*made, _passing(holding)] if holding else made, types)


def _of_step(step: Step, types: Mapping[str, pa.DataType]) -> tuple[_Run, dict[str, pa.DataType]] | None:
    """A step's function, and the types of the columns after it."""
    match step:
        case Where(expression):
            condition = term_of_step(expression, types)
            if condition is None or not pa.types.is_boolean(condition.type):
                return None
            return _refusing(condition), dict(types)
        case WithColumn(name, expression):
            term = term_of_step(expression, types)
            return None if term is None else (_adding(name, term), _with(types, name, term.type))
        case Select(expressions):
            named = [(parse_expression(sql, "select").name, term_of_step(sql, types)) for sql in expressions]
            terms = {name: term for name, term in named if term is not None}
            if len(terms) < len(expressions):
                return None
            return _selecting(terms), {name: term.type for name, term in terms.items()}
        case Transform():
            return None


def term_of_step(sql: str, types: Mapping[str, pa.DataType]) -> Term | None:
    """The term of an expression; None: Spark has to evaluate it."""
    known = (
        {field.name: field.type for field in _RAW}
        | {HEADERS: LOG_HEADERS}
        | {name.lower(): of for name, of in types.items()}
    )
    term = term_over(sql, known)
    return None if term is None or term.evaluate is None or pa.types.is_null(term.type) else term


def _rows(columns: Columns, number: int) -> Rows:
    return Rows({name.lower(): of for name, of in columns.items()}, number)


def _with(types: Mapping[str, pa.DataType], name: str, of: pa.DataType) -> dict[str, pa.DataType]:
    """The types with one column more, or with another one of that name in its place, as Spark's `withColumn`."""
    known = {each.lower() for each in types}
    if name.lower() not in known:
        return {**types, name: of}
    return {
        name if each.lower() == name.lower() else each: of if each.lower() == name.lower() else other
        for each, other in types.items()
    }


def _refusing(condition: Term) -> _Run:
    def run(columns: Columns, number: int) -> Columns:
        refused = pc.invert(pc.fill_null(condition.over(_rows(columns, number)), False))
        before = columns.get(REFUSED)
        return columns | {REFUSED: refused if before is None else pc.or_(before, refused)}

    return run


def _adding(name: str, term: Term) -> _Run:
    def run(columns: Columns, number: int) -> Columns:
        made = term.over(_rows(columns, number))
        others = {each: of for each, of in columns.items() if each.lower() != name.lower()}
        return others | {name: made}

    return run


def _selecting(terms: Mapping[str, Term]) -> _Run:
    def run(columns: Columns, number: int) -> Columns:
        rows = _rows(columns, number)
        kept = {name: of for name, of in columns.items() if name in (*_RAW.names, HEADERS, REFUSED, CAUSE)}
        return {name: term.over(rows) for name, term in terms.items()} | kept

    return run


def _passing(conditions: Sequence[Term]) -> _Run:
    def run(columns: Columns, number: int) -> Columns:
        rows = _rows(columns, number)
        passes = pa.repeat(pa.scalar(True), number)
        for condition in conditions:
            passes = pc.and_(passes, pc.fill_null(condition.over(rows), False))
        return columns | {PASSES: passes}

    return run
