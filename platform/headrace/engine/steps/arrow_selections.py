"""Values of a join's select, and row-wise steps after a table, computed over Arrow columns between two steps of a fold.

Law: the values are those of `spark_fold.computed_columns`. If one expression is not covered, Spark computes all of them. If
a row holds a value for which only Spark is proven, Spark evaluates the increment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description import Select, Where, WithColumn, parse_expression
from headrace.engine.steps.arrow_steps import term_of_step
from headrace.expressions import Rows, Term
from headrace.fold.changes.deltas import PORT
from headrace.fold.changes.station import MADE, PASSES, Computing, Refinement, Selection
from headrace.spark.one_task import nullable

if TYPE_CHECKING:
    from headrace.description.refined import RowStep

LEFT, RIGHT = "left", "right"
Types = Mapping[str, pa.DataType]


def types_in_arrow(computing: Computing, carried: pa.Schema) -> pa.Schema | None:
    """The columns that are computed, by the names that they have in the relation; None: Spark has to compute them.

    In: carried  the columns that the rows carry for it
    """
    if isinstance(computing, Selection):
        terms = _of_selection(computing, carried)
        named = None if terms is None else {name: term.type for name, term in terms.items()}
    else:
        source = {name: carried.field(carry).type for name, carry in computing.source.items()}
        program = _of_steps(tuple(computing.steps), tuple(computing.key), tuple(source.items()))
        after = None if program is None else program.types
        named = None if after is None else {MADE + name: after[name] for name in computing.made}
        if named is not None and any(isinstance(step, Where) for step in computing.steps):
            named[PASSES] = pa.bool_()
    if named is None:
        return None
    return nullable(pa.schema([*named.items()]))


def is_computed_in_arrow(selections: Mapping[str, Computing], rows: pa.Schema) -> bool:
    """Whether all values of a step are covered. In: rows  the columns before the step."""
    return all(types_in_arrow(each, rows) is not None for each in selections.values())


def computed_in_arrow(selections: Mapping[str, Computing], rows: pa.Table) -> pa.Table:
    """Add the columns that are computed. In: rows  of all relations; the columns of other ones are null.

    Raises: SparkNeededError
    """
    rows = rows.combine_chunks()
    for part, each in selections.items():
        made = _selected(each, rows) if isinstance(each, Selection) else _refined(each, rows)
        before = part if isinstance(each, Selection) else each.part
        for name, values in made.items():
            rows = rows.append_column(f"{before}:{name}", values.cast(each.types.field(name).type))
    return rows


def _selected(selection: Selection, rows: pa.Table) -> dict[str, pa.Array]:
    terms = _of_selection(selection, rows.schema)
    assert terms is not None
    columns, structs = dict[str, pa.Array](), dict[str, pa.Array]()
    for side, names in _sides(selection):
        own = {name: _array(rows, carry) for name, carry in names.items()}
        columns |= {name.lower(): values for name, values in own.items()}
        if side and own:
            structs[side] = pa.StructArray.from_arrays([*own.values()], names=[*own])
    return {name: term.over(Rows(columns | structs, rows.num_rows)) for name, term in terms.items()}


def _refined(refinement: Refinement, rows: pa.Table) -> dict[str, pa.Array]:
    """The columns that steps make. Nothing is computed of rows of other relations, nor of rows that a `where` refuses."""
    source = {name: rows.schema.field(carry).type for name, carry in refinement.source.items()}
    program = _of_steps(tuple(refinement.steps), tuple(refinement.key), tuple(source.items()))
    assert program is not None
    mine = np.ones(rows.num_rows, bool)
    if refinement.port is not None:
        mine = pc.fill_null(pc.equal(_array(rows, PORT), refinement.port), False).to_numpy(
            zero_copy_only=False
        )
    passing = np.flatnonzero(mine)
    columns = {name: _array(rows, carry).take(pa.array(passing)) for name, carry in refinement.source.items()}
    for step, terms in program.steps:
        values = {name: term.over(_lower(columns, len(passing))) for name, term in terms.items()}
        if isinstance(step, Where):
            (condition,) = values.values()
            holds = pc.fill_null(condition, False)
            passing = passing[holds.to_numpy(zero_copy_only=False)]
            columns = {name: of.filter(holds) for name, of in columns.items()}
        elif isinstance(step, Select):
            columns = {name: columns[name] for name in refinement.key} | values
        else:
            columns = {
                name: of for name, of in columns.items() if name.lower() not in _names(values)
            } | values
    place = np.full(rows.num_rows, -1, np.int64)
    place[passing] = np.arange(len(passing))
    at = pa.array(place, mask=place < 0)
    found = {MADE + name: columns[name].take(at) for name in refinement.made}
    return found | ({PASSES: pa.array(place >= 0)} if PASSES in refinement.types.names else {})


@dataclass(frozen=True)
class _Program:
    """The terms of each step by the names of their columns, and the types of the columns after the last."""

    steps: Sequence[tuple[RowStep, Mapping[str, Term]]]
    types: Types


def _of_selection(selection: Selection, carried: pa.Schema) -> dict[str, Term] | None:
    """The terms of a join's select; None: Spark has to compute them."""
    types: dict[str, pa.DataType] = {}
    structs: dict[str, pa.DataType] = {}
    for side, names in _sides(selection):
        own = {name: carried.field(carry).type for name, carry in names.items()}
        types |= {name.lower(): of for name, of in own.items()}
        if side and own:
            structs[side] = pa.struct([*own.items()])
    return _terms(tuple(selection.values.items()), tuple((types | structs).items()))


def _sides(selection: Selection) -> list[tuple[str, Mapping[str, str]]]:
    """The columns by side, those that win last; the key of a full outer join is of no side."""
    return [(RIGHT, selection.right), (LEFT, selection.left), ("", selection.key)]


@lru_cache(maxsize=256)
def _terms(
    values: tuple[tuple[str, str], ...], types: tuple[tuple[str, pa.DataType], ...]
) -> dict[str, Term] | None:
    named = {name: term_of_step(sql, dict(types)) for name, sql in values}
    terms = {name: term for name, term in named.items() if term is not None}
    return terms if len(terms) == len(named) else None


@lru_cache(maxsize=256)
def _of_steps(
    steps: tuple[RowStep, ...], key: tuple[str, ...], source: tuple[tuple[str, pa.DataType], ...]
) -> _Program | None:
    """The terms of steps after a table; None: Spark has to compute them."""
    types, made = dict(source), list[tuple["RowStep", Mapping[str, Term]]]()
    for step in steps:
        texts = _texts_of(step, key)
        terms = _terms(tuple(texts.items()), tuple((name.lower(), of) for name, of in types.items()))
        if terms is None:
            return None
        made.append((step, terms))
        after = {name: term.type for name, term in terms.items()}
        if isinstance(step, Select):
            types = {name: types[name] for name in key} | after
        elif isinstance(step, WithColumn):
            types = {name: of for name, of in types.items() if name.lower() not in _names(after)} | after
        elif not pa.types.is_boolean(after[PASSES]):
            return None
    return _Program(made, types)


def _texts_of(step: RowStep, key: Sequence[str]) -> dict[str, str]:
    """The expressions of a step, by the names of their columns."""
    match step:
        case Where(expression):
            return {PASSES: expression}
        case WithColumn(name, expression):
            return {name: expression}
        case Select(expressions):
            parsed = [parse_expression(sql, "select") for sql in expressions]
            names = {name.lower() for name in key}
            return {each.name: each.sql for each in parsed if each.name.lower() not in names}


def _names(columns: Mapping[str, object]) -> set[str]:
    return {name.lower() for name in columns}


def _lower(columns: Mapping[str, pa.Array], number: int) -> Rows:
    return Rows({name.lower(): of for name, of in columns.items()}, number)


def _array(rows: pa.Table, name: str) -> pa.Array:
    column = rows[name]
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)
