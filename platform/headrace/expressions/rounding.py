"""`round`, `ceil` and `floor`.

Law: `round` rounds the decimal text of a number, half away from zero. Integers wrap, NaN and infinities stay, and no result
is -0.0.
Source: Spark 4.1, `RoundBase`, `Ceil`, `Floor`; of a DOUBLE `BigDecimal.valueOf(x).setScale(places, HALF_UP).doubleValue()`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions.arguments import Arguments
from headrace.expressions.casts import WIDE_DIGITS, cast, rescaled, saturated
from headrace.expressions.term import SparkNeededError, Term, lifted, on_arrays
from headrace.expressions.types import (
    BIGINT,
    DIGITS_MAX,
    DOUBLE,
    FLOAT,
    NULL,
    STRING,
    is_decimal,
    is_floating,
    is_integral,
)

PLACES_MAX = 22  # 10^22 is the greatest power of ten that is exactly a DOUBLE
_HALF_UP = "half_towards_infinity"
_DIGITS = 17  # of the decimal text of a DOUBLE, at most
_ALL_DIGITS = 2e16  # a scaled number from here on has no digit after the point in its text
_INTEGERS = float(2**53)  # from here on Java 17 and 21 write different texts of the same DOUBLE
_ERROR = (
    2.0  # units in the last place: scaling changes a number by at most half a unit, its text by less than one
)


def rounded(of: Arguments) -> Term | None:
    """`round(value)` and `round(value, places)`; only a literal number of places is evaluated here."""
    value, places, typed = of.first, _places(of), rounded_type(of)
    if typed is None or places is None:
        return typed
    to = typed.type
    if value.type == NULL:
        return on_arrays(to, lambda each: pa.nulls(len(each), to), value)
    if is_integral(value.type):
        if places >= 0:
            return lifted(to, lambda each: each, value)
        if places >= -DIGITS_MAX:
            return on_arrays(to, lambda each: _of_integers(each, -places), value)
    if is_floating(value.type) and abs(places) <= PLACES_MAX:
        return on_arrays(to, lambda each: _of_floats(each, places), value)
    if is_decimal(value.type) and (places >= 0 or _digits(value.type, places) <= DIGITS_MAX):
        # More digits may be Spark's error.
        return on_arrays(to, lambda each: _of_decimals(each, places, to), value)
    return typed


def rounded_type(of: Arguments) -> Term | None:
    """The type of `round` and `bround`."""
    value, places = of.first.type, _places(of)
    if is_integral(value) or is_floating(value):
        return Term(value)
    if value in (STRING, NULL):
        return Term(DOUBLE)
    if not is_decimal(value) or places is None:
        return None
    scale = min(value.scale, max(places, 0))
    return Term(pa.decimal128(min(_digits(value, places), DIGITS_MAX), scale))


def _digits(of: pa.Decimal128Type, places: int) -> int:
    """Digits of the result: one more than stay, as 9.9 becomes 10."""
    whole: int = of.precision - of.scale + 1
    scale: int = of.scale
    return max(whole, 1 - places) if places < 0 else whole + min(scale, places)


def _places(of: Arguments) -> int | None:
    """The number of decimal places; None: no literal integer states it."""
    places = of.get(1) if of.is_anonymous else of.get("decimals")
    if places is None:
        return 0
    is_number = is_integral(places.type) and places.is_constant and places.constant is not None
    return int(places.constant) if is_number and -(1 << 31) <= places.constant < 1 << 31 else None


def _of_integers(value: pa.Array, zeros: int) -> pa.Array:
    """In: zeros  how many digits of the result are 0 at the end, at least one."""
    numbers = np.asarray(value.fill_null(0)).astype(np.int64)
    size = np.abs(numbers).view(np.uint64)  # also of the least BIGINT
    if zeros <= 19:
        unit = np.uint64(10**zeros)
        whole, rest = np.divmod(size, unit)
        size = (whole + (rest >= unit - rest)) * unit
    else:
        size = np.zeros_like(size)  # half of 10^20 is greater than every BIGINT
    wrapped = np.where(numbers < 0, np.uint64(0) - size, size).view(np.int64)
    made = wrapped.astype(value.type.to_pandas_dtype())
    return pa.array(made, value.type, mask=np.asarray(value.is_null()))


def _of_decimals(value: pa.Array, places: int, to: pa.Decimal128Type) -> pa.Array:
    wide = pc.cast(value, pa.decimal256(WIDE_DIGITS, value.type.scale))
    return rescaled(pc.round(wide, places, round_mode=_HALF_UP) if places < 0 else wide, to)


def _of_floats(value: pa.Array, places: int) -> pa.Array:
    """Scaled, rounded and scaled back where no error can matter; the few numbers next to a tie by their texts."""
    numbers, power = np.asarray(value.fill_null(0)).astype(np.float64), float(10 ** abs(places))
    with np.errstate(all="ignore"):
        scaled = np.abs(numbers) * power if places >= 0 else np.abs(numbers) / power
        whole = np.floor(scaled)
        units = whole + (scaled - whole > 0.5)
        made = units / power if places >= 0 else units * power
        stays = ~(scaled < _ALL_DIGITS)  # NaN and infinities, too
        close = np.abs(scaled - whole - 0.5) <= _ERROR * np.spacing(scaled)
    if value.type == FLOAT:  # `made` is rounded once more
        close |= made.view(np.int64) & 0x1FFF_FFFF == 0x1000_0000  # half way between two FLOATs
    close &= ~stays
    made = np.where(stays, numbers, np.copysign(made, np.where(made == 0, 1.0, numbers)))
    with np.errstate(over="ignore", invalid="ignore"):
        made = made.astype(value.type.to_pandas_dtype())
    if close.any():
        made[close] = _by_text(numbers[close], places, value.type)
    return pa.array(made, value.type, mask=np.asarray(value.is_null()))


def _by_text(numbers: np.ndarray, places: int, to: pa.DataType) -> np.ndarray:
    """Numbers less than 2e16 units, and not less than 0.4 units, of the last place that stays."""
    if places < 0 and (np.abs(numbers) >= _INTEGERS).any():
        raise SparkNeededError
    exact = pa.decimal256(WIDE_DIGITS, max(places, 0) + _DIGITS)
    texts = pc.cast(pa.array(numbers), STRING)
    return np.asarray(
        pc.cast(pc.cast(pc.round(pc.cast(texts, exact), places, round_mode=_HALF_UP), STRING), to)
    )


def whole_type(of: Arguments) -> Term | None:
    """The type of `ceil` and `floor`."""
    value = of["this"].type
    if of.tree.args.get("decimals") is not None:
        return None
    if is_integral(value) or is_floating(value):
        return Term(BIGINT)
    if is_decimal(value):
        digits = value.precision if value.scale == 0 else value.precision - value.scale + 1
        return Term(pa.decimal128(digits, 0))
    return None


def ceiling(of: Arguments) -> Term | None:
    """`ceil(value)`."""
    return _whole(of, pc.ceil)


def floor(of: Arguments) -> Term | None:
    """`floor(value)`."""
    return _whole(of, pc.floor)


def _whole(of: Arguments, compute: pc.Function) -> Term | None:
    typed = whole_type(of)
    if typed is None:
        return None
    to, value = typed.type, of["this"]
    if is_decimal(value.type):
        wide = pa.decimal256(value.type.precision + 1, value.type.scale)
        return on_arrays(to, lambda each: rescaled(compute(pc.cast(each, wide)), to), value)
    if is_integral(value.type):
        return cast(value, to)
    double = cast(value, DOUBLE)
    return typed if double is None else on_arrays(to, lambda each: saturated(compute(each), to), double)
