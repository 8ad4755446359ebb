"""Arithmetic of numbers.

Law: integers wrap; division by zero is null; NaN and infinities are IEEE's; a DECIMAL that does not fit is null.
Source: Spark 4.1, `arithmetic.scala`, `DecimalPrecision` (with `allowPrecisionLoss`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions.casts import cast, rescaled
from headrace.expressions.term import Datum, SparkNeededError, Term, lifted, on_arrays
from headrace.expressions.types import (
    BIGINT,
    DATE,
    DIGITS_MAX,
    DOUBLE,
    INT,
    NULL,
    SMALLINT,
    STRING,
    TINYINT,
    adjusted,
    decimal_of,
    is_decimal,
    is_floating,
    is_integral,
    is_numeric,
    tightest,
)

ADD, SUBTRACT, MULTIPLY, DIVIDE, REMAINDER = "+", "-", "*", "/", "%"
_PLAIN = {ADD: pc.add, SUBTRACT: pc.subtract, MULTIPLY: pc.multiply}


def arithmetic(sign: str, left: Term, right: Term) -> Term | None:
    """`left sign right`; None: Spark refuses it, or what it does is not known."""
    if left.type == DATE and sign in (ADD, SUBTRACT) and right.type in (TINYINT, SMALLINT, INT):
        return Term(DATE)
    left, right = (Term(DOUBLE) if term.type == STRING else term for term in (left, right))
    if left.type == NULL and right.type == NULL:
        left = right = _cast(left, DOUBLE)
    if left.type == NULL and sign == DIVIDE:
        left = _cast(left, DOUBLE)  # of a DECIMAL, too; DECIMAL / NULL is a DECIMAL
    if left.type == NULL or right.type == NULL:
        of = right.type if left.type == NULL else left.type
        left, right = _cast(left, of), _cast(right, of)
    if not (is_numeric(left.type) and is_numeric(right.type)):
        return None
    if is_decimal(left.type) or is_decimal(right.type):
        if is_floating(left.type) or is_floating(right.type):
            left, right = _cast(left, DOUBLE), _cast(right, DOUBLE)
        else:
            return _of_decimals(sign, _as_decimal(left), _as_decimal(right))
    if sign == DIVIDE:
        return lifted(DOUBLE, _divided, _cast(left, DOUBLE), _cast(right, DOUBLE))
    common = tightest(left.type, right.type)
    assert common is not None
    left, right = _cast(left, common), _cast(right, common)
    if sign == REMAINDER:
        return on_arrays(common, _remainder, left, right)
    return lifted(common, _PLAIN[sign], left, right)


def whole_quotient(left: Term, right: Term) -> Term | None:
    """`left DIV right`: a BIGINT, rounded towards zero."""
    if is_decimal(left.type) or is_decimal(right.type):
        return Term(BIGINT)
    if not all(is_integral(term.type) for term in (left, right)):
        return None
    return on_arrays(BIGINT, whole_quotients, _cast(left, BIGINT), _cast(right, BIGINT))


def negative(term: Term) -> Term | None:
    """`-term`."""
    if not is_numeric(term.type):
        return None
    return _unless_long(pc.negate, term)


def absolute(term: Term) -> Term | None:
    """`abs(term)`; the least integer stays as it is."""
    return _unless_long(pc.abs, term) if is_numeric(term.type) else None


def _unless_long(compute: pc.Function, term: Term) -> Term:
    """A DECIMAL of more than 34 digits is rounded by Scala's default context, so Spark computes it."""
    is_long = is_decimal(term.type) and term.type.precision > 34
    return Term(term.type) if is_long else lifted(term.type, compute, term)


def _cast(term: Term, to: pa.DataType) -> Term:
    made = cast(term, to)
    assert made is not None, (term.type, to)
    return made


def _as_decimal(term: Term) -> Term:
    if is_integral(term.type) and term.is_constant and term.constant is not None:
        return _cast(term, pa.decimal128(len(str(abs(term.constant))), 0))
    of = decimal_of(term.type)
    assert of is not None
    return _cast(term, of)


def _divided(left: Datum, right: Datum) -> Datum:
    nothing = pa.scalar(None, DOUBLE)
    return pc.divide(left, pc.if_else(pc.equal(right, 0.0), nothing, right))


def _remainder(left: pa.Array, right: pa.Array) -> pa.Array:
    of = left.type
    zero = pc.equal(right, pa.scalar(0, of))
    one = np.asarray(pc.if_else(zero, pa.scalar(1, of), right).fill_null(1))
    with np.errstate(all="ignore"):
        if is_integral(of):
            values = np.fmod(np.asarray(left.fill_null(0)), np.where(one == -1, 1, one))
        else:
            values = np.fmod(np.asarray(left.fill_null(0)), one)
    return pa.array(values, of, mask=_no_result(left, right, zero))


def _no_result(left: pa.Array, right: pa.Array, zero: pa.Array) -> np.ndarray:
    gone = pc.or_(pc.or_(left.is_null(), right.is_null()), zero.fill_null(False))
    return np.asarray(gone)


def whole_quotients(left: pa.Array, right: pa.Array) -> pa.Array:
    """BIGINTs, rounded towards zero; null for a division by zero. The least one divided by -1 is itself."""
    zero, minus = pc.equal(right, 0), pc.equal(right, -1)
    divisor = pc.if_else(pc.or_(zero, minus), pa.scalar(1, BIGINT), right)
    values = pc.if_else(minus, pc.negate(left), pc.divide(left, divisor))
    return pc.if_else(zero, pa.scalar(None, BIGINT), values)


def _of_decimals(sign: str, left: Term, right: Term) -> Term:
    p1, s1, p2, s2 = left.type.precision, left.type.scale, right.type.precision, right.type.scale
    if sign in (ADD, SUBTRACT):
        scale = max(s1, s2)
        of = adjusted(max(p1 - s1, p2 - s2) + scale + 1, scale)
        return on_arrays(of, _exactly(_PLAIN[sign], of, max(p1, p2) + abs(s1 - s2) + 1), left, right)
    if sign == MULTIPLY:
        of = adjusted(p1 + p2 + 1, s1 + s2)
        if p1 + p2 + 1 > DIGITS_MAX:  # Java rounds the product twice
            return Term(of)
        return on_arrays(of, _exactly(pc.multiply, of, p1 + p2 + 1), left, right)
    if sign == REMAINDER:
        return Term(adjusted(min(p1 - s1, p2 - s2) + max(s1, s2), max(s1, s2)))
    scale = max(6, s1 + p2 + 1)
    return Term(adjusted(p1 - s1 + s2 + scale, scale))


def _exactly(compute: Callable[..., pa.Array], to: pa.Decimal128Type, digits: int) -> Callable[..., pa.Array]:
    def computed(left: pa.Array, right: pa.Array) -> pa.Array:
        if digits > 75:
            raise SparkNeededError
        wide = (pc.cast(each, pa.decimal256(each.type.precision, each.type.scale)) for each in (left, right))
        return rescaled(compute(*wide), to)

    return computed
