"""Comparisons, logic with three values, and choices.

Law: NaN equals NaN and is greater than all numbers, −0.0 equals 0.0; texts compare by their bytes. A comparison with null
is null. A choice has the type that all of its values have in common.
Source: Spark 4.1, `predicates.scala`, `conditionalExpressions.scala`, `nullExpressions.scala`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions.casts import cast
from headrace.expressions.term import Datum, Rows, Term, array_of, lifted, null_of
from headrace.expressions.types import (
    BINARY,
    BOOLEAN,
    DATE,
    NULL,
    STRING,
    TIMESTAMP,
    decimal_of,
    is_atomic,
    is_decimal,
    is_floating,
    is_numeric,
    is_temporal,
    wider,
    widest,
)

EQUAL, LESS, LESS_OR_EQUAL, GREATER, GREATER_OR_EQUAL = "=", "<", "<=", ">", ">="
_LISTED = 10  # spark.sql.optimizer.inSetConversionThreshold
_TURNED = {GREATER: LESS, GREATER_OR_EQUAL: LESS_OR_EQUAL}


def alike(left: Term, right: Term) -> tuple[Term, Term] | None:
    """Two terms as they are compared; None: Spark refuses it. With a text on one side only the type is known."""
    types = {left.type, right.type}
    if len(types) == 1 and NULL not in types:
        return left, right
    if STRING in types and NULL not in types:
        other = right.type if left.type == STRING else left.type
        known = is_numeric(other) or is_temporal(other) or other in (BOOLEAN, BINARY)
        return (Term(other), Term(other)) if known else None
    common = wider(left.type, right.type, texts=False)
    if common is None:
        return None
    if is_decimal(common):
        common = wider(_digits(left), _digits(right), texts=False)
        assert common is not None
    if common == NULL:
        common = BOOLEAN
    sides = cast(left, common), cast(right, common)
    return None if sides[0] is None or sides[1] is None else (sides[0], sides[1])


def _digits(term: Term) -> pa.DataType:
    """The DECIMAL of a number; of a literal the narrowest."""
    if decimal_of(term.type) is not None and not is_decimal(term.type) and term.is_constant:
        return pa.decimal128(len(str(abs(term.constant or 0))), 0)
    return decimal_of(term.type) or term.type


def comparison(sign: str, left: Term, right: Term) -> Term | None:
    """`left sign right`; None: Spark refuses it."""
    sides = alike(left, right)
    if sides is None:
        return None
    left, right = sides
    if sign in _TURNED:
        return comparison(_TURNED[sign], right, left)
    if not is_atomic(left.type) or left.type == BINARY:
        return Term(BOOLEAN)
    compute = {EQUAL: equal, LESS: _less, LESS_OR_EQUAL: _less_or_equal}[sign]
    return lifted(BOOLEAN, compute, left, right)


def equal(left: Datum, right: Datum) -> Datum:
    """Whether values of one type are equal."""
    same = pc.equal(left, right)
    return pc.or_(same, pc.and_(pc.is_nan(left), pc.is_nan(right))) if is_floating(left.type) else same


def _less(left: Datum, right: Datum) -> Datum:
    if left.type == BOOLEAN:
        left, right = pc.cast(left, pa.int8()), pc.cast(right, pa.int8())
    less = pc.less(left, right)
    if is_floating(left.type):
        return pc.or_(less, pc.and_(pc.is_nan(right), pc.invert(pc.is_nan(left))))
    return less


def _less_or_equal(left: Datum, right: Datum) -> Datum:
    return pc.invert(_less(right, left))


def null_safe_equal(left: Term, right: Term) -> Term | None:
    """`left <=> right`: nulls are equal."""
    same = comparison(EQUAL, left, right)
    if same is None:
        return None
    return lifted(BOOLEAN, _null_safe, same, is_null(left), is_null(right))


def _null_safe(same: Datum, left: Datum, right: Datum) -> Datum:
    return pc.if_else(pc.or_(left, right), pc.and_(left, right), same)


def is_null(term: Term) -> Term:
    """`term IS NULL`."""
    return lifted(BOOLEAN, pc.is_null, term)


def is_nan(term: Term) -> Term | None:
    """`isnan(term)`: false of null."""
    if not is_floating(term.type):
        return None
    return lifted(BOOLEAN, lambda value: pc.fill_null(pc.is_nan(value), False), term)


def condition(term: Term) -> Term | None:
    """A term that is true, false or null; None: it is something else."""
    return cast(term, BOOLEAN) if term.type in (BOOLEAN, NULL) else None


def negated(term: Term) -> Term | None:
    """`NOT term`."""
    of = condition(term)
    return None if of is None else lifted(BOOLEAN, pc.invert, of)


def both(left: Term, right: Term) -> Term | None:
    """`left AND right`."""
    return _joined(pc.and_kleene, left, right)


def either(left: Term, right: Term) -> Term | None:
    """`left OR right`."""
    return _joined(pc.or_kleene, left, right)


def _joined(compute: pc.Function, left: Term, right: Term) -> Term | None:
    sides = condition(left), condition(right)
    if sides[0] is None or sides[1] is None:
        return None
    return lifted(BOOLEAN, compute, sides[0], sides[1])


def is_in(term: Term, values: Sequence[Term]) -> Term | None:
    """`term IN (values)`."""
    common = widest([term.type, *(value.type for value in values)])
    if common is None:
        return None
    if any(of.type != STRING and common == STRING for of in (term, *values)):
        return Term(BOOLEAN)
    if is_floating(common) and len(values) > _LISTED and any(map(_is_null_constant, values)):
        return Term(BOOLEAN)  # Spark looks values up in a set, and there NaN gives false
    cases = [cast(each, common) for each in (term, *values)]
    if any(case is None for case in cases):
        return None
    known = [case for case in cases if case is not None]
    compared = [comparison(EQUAL, known[0], value) for value in known[1:]]
    found = reduce(lambda one, other: one and other and either(one, other), compared)
    return found


def _is_null_constant(term: Term) -> bool:
    return term.type == NULL or (term.is_constant and term.constant is None)


def case(branches: Sequence[tuple[Term, Term]], otherwise: Term | None) -> Term | None:
    """`CASE WHEN … THEN … ELSE … END`; None: its values have no type in common, or a condition is none."""
    values = [value for _, value in branches] + [otherwise or null_of(NULL)]
    common = _common(values)
    if common is None:
        return None
    chosen = values[-1] if values[-1].type == common else cast(values[-1], common)
    for when, value in reversed(branches):
        holds, then = (when if when.type == BOOLEAN else None), cast(value, common)
        if holds is None or then is None or chosen is None:
            return None
        chosen = _if(holds, then, chosen, common)
    return chosen


def _common(values: Sequence[Term]) -> pa.DataType | None:
    types = [value.type for value in values]
    nested = [of for of in types if not is_atomic(of)]
    if nested:
        return nested[0] if all(of in (nested[0], NULL) for of in types) else None
    return widest(types)


def _if(holds: Term, then: Term, otherwise: Term, of: pa.DataType) -> Term:
    evaluates = holds.evaluate, then.evaluate, otherwise.evaluate
    if any(each is None for each in evaluates):
        return Term(of)
    when, yes, no = (each for each in evaluates if each is not None)

    def chosen(rows: Rows) -> Datum:
        return pc.if_else(pc.fill_null(array_of(when(rows), rows.number), False), yes(rows), no(rows))

    return Term(of, chosen)


def coalesce(terms: Sequence[Term]) -> Term | None:
    """`coalesce(…)`: the first value that is not null."""
    common = _common(terms)
    if common is None:
        return None
    same = [cast(term, common) for term in terms]
    if any(each is None for each in same):
        return None
    return lifted(common, pc.coalesce, *(each for each in same if each is not None))


def null_if(left: Term, right: Term) -> Term | None:
    """`nullif(left, right)`: null where they are equal."""
    same = comparison(EQUAL, left, right)
    return None if same is None else case([(same, null_of(left.type))], left)


def extreme(terms: Sequence[Term], *, greatest: bool) -> Term | None:
    """`greatest(…)` and `least(…)`: nulls do not count."""
    common = widest([term.type for term in terms], texts=False)
    if common is None or not (
        is_numeric(common) or is_temporal(common) or common in (STRING, BOOLEAN, DATE, TIMESTAMP)
    ):
        return None
    found: Term | None = None
    for term in terms:
        value = cast(term, common)
        if value is None:
            return None
        if found is None:
            found = value
            continue
        wins = comparison(LESS, found, value) if greatest else comparison(LESS, value, found)
        assert wins is not None
        replaces = either(is_null(found), wins)
        there = negated(is_null(value))
        assert replaces is not None
        assert there is not None
        replaced = both(replaces, there)
        assert replaced is not None
        found = _if(replaced, value, found, common)
    return found
