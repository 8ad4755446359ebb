"""Casts, explicit and implicit. Those from texts, and those of floating-point numbers to texts, are Spark's alone.

Law: ANSI mode is off, so integers wrap, floating-point numbers saturate, and what does not fit a DECIMAL is null.
Source: Spark 4.1, `Cast`.
"""

from __future__ import annotations

from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions.term import SparkNeededError, Term, lifted, literal, null_of, on_arrays
from headrace.expressions.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    NULL,
    NUMBERS,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    decimal_of,
    is_atomic,
    is_decimal,
    is_floating,
    is_integral,
    is_numeric,
)

SECOND_US, DAY_US = 1_000_000, 86_400_000_000
WIDE_DIGITS = 76  # of numbers of 256 bits


def cast(term: Term, to: pa.DataType, *, is_try: bool = False) -> Term | None:
    """A term as another type; None: Spark refuses the cast, or what it does is not known.

    In: is_try  as TRY_CAST does it: what does not fit is null
    """
    of = term.type
    if of == to:
        return term
    if of == NULL:
        return null_of(to)
    if not (is_atomic(of) and is_atomic(to)):
        return None
    if is_try and not _is_widening(of, to):
        return Term(to)
    if term.is_constant and term.constant is not None and is_numeric(of) and to == DOUBLE:
        return literal(float(term.constant), DOUBLE)
    return _cast(term, of, to)


def _is_widening(of: pa.DataType, to: pa.DataType) -> bool:
    if of in NUMBERS and to in NUMBERS:
        return NUMBERS.index(of) < NUMBERS.index(to)
    return to == STRING or (of, to) in ((DATE, TIMESTAMP), (DATE, TIMESTAMP_NTZ))


def _cast(term: Term, of: pa.DataType, to: pa.DataType) -> Term | None:
    if is_numeric(of) and is_numeric(to):
        return _between_numbers(term, of, to)
    if of == BOOLEAN and to in NUMBERS:
        return lifted(to, lambda value: pc.cast(pc.cast(value, pa.int8()), to), term)
    if to == BOOLEAN and of in NUMBERS:
        return lifted(to, lambda value: pc.not_equal(value, pa.scalar(0, of)), term)
    if to == STRING:
        return _to_text(term, of)
    if of == DATE and to in (TIMESTAMP, TIMESTAMP_NTZ):
        return lifted(to, lambda value: pc.cast(pc.cast(value, pa.timestamp("us")), to), term)
    if of == TIMESTAMP and to == TIMESTAMP_NTZ:
        return lifted(to, lambda value: pc.cast(pc.cast(value, BIGINT), to), term)
    if of == TIMESTAMP_NTZ and to == TIMESTAMP:
        return lifted(to, lambda value: pc.cast(pc.cast(value, BIGINT), to), term)
    if of in (TIMESTAMP, TIMESTAMP_NTZ) and to == DATE:
        return on_arrays(to, _days, term)
    if of == TIMESTAMP and to == BIGINT:
        return on_arrays(to, lambda value: floored(value, SECOND_US), term)
    if of == TIMESTAMP and to == DOUBLE:
        return lifted(
            to, lambda value: pc.divide(pc.cast(pc.cast(value, BIGINT), DOUBLE, safe=False), 1e6), term
        )
    if is_integral(of) and to == TIMESTAMP:
        return on_arrays(to, lambda value: moments_of(value, SECOND_US), term)
    if of == STRING and to == BINARY:
        return lifted(to, lambda value: pc.cast(value, BINARY), term)
    if of == STRING or (is_decimal(of) and to == BOOLEAN) or (of, to) == (BINARY, STRING):
        return Term(to)
    return Term(to) if _spark_casts(of, to) else None


def _spark_casts(of: pa.DataType, to: pa.DataType) -> bool:
    """True if Spark casts one to the other, though this is not done here."""
    moments = (TIMESTAMP,)
    return (
        (of in moments and is_numeric(to))
        or (to in moments and (is_numeric(of) or of == BOOLEAN))
        or (is_decimal(to) and of == BOOLEAN)
    )


def _between_numbers(term: Term, of: pa.DataType, to: pa.DataType) -> Term:
    if is_decimal(to):
        if is_floating(of):
            return Term(to)
        return on_arrays(to, lambda value: rescaled(value, to), term)
    if is_decimal(of):
        if to == DOUBLE:  # a sum of powers of two is rounded once by Java, and maybe twice by Arrow
            return on_arrays(to, _double_of_decimal, term)
        return Term(to)
    if is_floating(of) and is_integral(to):
        return on_arrays(to, lambda value: saturated(value, to), term)
    if of in (INT, BIGINT) and to == FLOAT:
        return on_arrays(to, _floats_of_integers, term)
    return lifted(to, lambda value: pc.cast(value, to, safe=False), term)


def _floats_of_integers(value: pa.Array) -> pa.Array:
    """Integers that are FLOATs. Spark's optimizer may make one cast of two, to FLOAT and to DOUBLE, and lose no digit."""
    made, exact = pc.cast(value, FLOAT, safe=False), pc.cast(value, DOUBLE, safe=False)
    if pc.any(pc.not_equal(pc.cast(made, DOUBLE), exact)).as_py():
        raise SparkNeededError
    return made


def _double_of_decimal(value: pa.Array) -> pa.Array:
    """Decimals of at most fifteen digits: both the digits and the power of ten are exact, so one division rounds once."""
    of = value.type
    if of.precision > 15 or of.scale > 22:
        raise SparkNeededError
    words = np.frombuffer(value.buffers()[1], np.int64).reshape(-1, 2)[:, 0]  # the low half of each number
    digits = words[value.offset : value.offset + len(value)]
    return pa.array(digits / float(10**of.scale), DOUBLE, mask=np.asarray(value.is_null()))


def saturated(value: pa.Array, to: pa.DataType) -> pa.Array:
    """Floating-point numbers as Java turns them into integers: towards zero, at most the greatest, NaN is 0.

    TINYINT and SMALLINT are the low bits of the INT.
    """
    wide = to if to == BIGINT else INT
    bits = np.iinfo(np.int64 if wide == BIGINT else np.int32)
    numbers = np.nan_to_num(
        np.asarray(value.fill_null(0)).astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf
    )
    with np.errstate(invalid="ignore", over="ignore"):
        inside = np.trunc(np.clip(numbers, -(2.0**62), 2.0**62)).astype(np.int64)
        if wide == BIGINT:
            big = np.abs(numbers) > 2.0**62
            fits = big & (np.abs(numbers) < 2.0**63)
            inside[fits] = np.trunc(numbers[fits]).astype(np.int64)
            inside[big & ~fits] = np.where(numbers[big & ~fits] > 0, bits.max, bits.min)
        inside = np.clip(inside, bits.min, bits.max)
    made = pa.array(inside, BIGINT, mask=np.asarray(value.is_null()))
    return pc.cast(pc.cast(made, wide, safe=False), to, safe=False)


def rescaled(value: pa.Array, to: pa.Decimal128Type) -> pa.Array:
    """Integers or decimals as another DECIMAL: rounded half up, null where they do not fit."""
    of = decimal_of(value.type) if not pa.types.is_decimal(value.type) else value.type
    assert of is not None
    if of.precision - of.scale + max(of.scale, to.scale) > WIDE_DIGITS:
        raise SparkNeededError
    if not pa.types.is_decimal(value.type):
        value = pc.cast(value, of)
    wide = pc.cast(value, pa.decimal256(WIDE_DIGITS, of.scale))
    if to.scale < of.scale:
        wide = pc.round(wide, to.scale, round_mode="half_towards_infinity")
    wide = pc.cast(wide, pa.decimal256(WIDE_DIGITS, to.scale))
    largest = Decimal(10**to.precision - 1).scaleb(-to.scale, Context(prec=WIDE_DIGITS))
    fits = pc.less_equal(pc.abs(wide), pa.scalar(largest, wide.type))
    return pc.cast(pc.if_else(fits, wide, pa.scalar(None, wide.type)), to)


def _to_text(term: Term, of: pa.DataType) -> Term:
    if is_integral(of):
        return lifted(STRING, lambda value: pc.cast(value, STRING), term)
    if of == BOOLEAN:
        return lifted(STRING, lambda value: pc.if_else(value, "true", "false"), term)
    return Term(STRING)


def floored(value: pa.Array, unit: int) -> pa.Array:
    """Microseconds as whole units, rounded down. In: value  an array of times."""
    us = np.asarray(pc.cast(value, BIGINT).fill_null(0))
    return pa.array(us // unit, BIGINT, mask=np.asarray(value.is_null()))


def moments_of(value: pa.Array, unit: int) -> pa.Array:
    """Times from whole units since 1970."""
    units = np.asarray(pc.cast(value, BIGINT).fill_null(0))
    if len(units) and np.abs(units.astype(np.float64)).max() > float((1 << 63) // unit - 1):
        raise SparkNeededError  # casts saturate, functions raise
    return pa.array(units * unit, BIGINT, mask=np.asarray(value.is_null())).cast(TIMESTAMP)


def _days(value: pa.Array) -> pa.Array:
    return pc.cast(pc.cast(floored(value, DAY_US), INT), DATE)
