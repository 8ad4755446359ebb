"""`round` over Arrow, against the decimal arithmetic of Python's library."""

from __future__ import annotations

import os
import random
import secrets
import struct
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Context, Decimal

import pyarrow as pa
import pytest

from headrace.description.expression_types import term_over
from headrace.expressions import Rows, SparkNeededError
from headrace.expressions.term import Term
from tests.expressions.compared import term_of

pytestmark = pytest.mark.fast
NUMBER = int(os.environ.get("HEADRACE_NUMBERS", "50000"))
SEED = int(os.environ.get("HEADRACE_SEED", "0")) or secrets.randbelow(1 << 31)
EXACT = Context(prec=800)
PLACES = [*range(-22, 23)]
SPECIAL = [0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 2.675, 1.005, -1.005, 0.285, 1.15, 1.4999999999999999, 0.49999999999999994, 1e15 + 0.5,
           4503599627370497.5, 9007199254740991.0, float(2**53 + 1), 1e16, 2e16, 1e17, 1e22, 1e23, 5e-324, 2.2250738585072014e-308,
           1.7976931348623157e308, 0.1 + 0.2, 16777217.0, 123456789.987654321, 1e-7, 5e-23, 5e-22, 4.6566128730773926e-10]  # fmt: skip


def _numbers(rng: random.Random, places: int, number: int) -> Iterator[float]:
    """Ties and their neighbours, numbers of few digits, numbers of all sizes, and whatever 64 bits may be."""
    for _ in range(number):
        kind = rng.randrange(4)
        if kind == 0:
            tie = Decimal(rng.randrange(10 ** rng.randint(1, 16)) * 2 + 1) / 2
            x = float(tie.scaleb(-places, EXACT))
            yield from (x, -x, _next(x, 1), _next(x, -1))
        elif kind == 1:
            yield round(rng.uniform(-1e6, 1e6), rng.randint(0, 6))
        elif kind == 2:
            yield rng.uniform(-1, 1) * 10.0 ** rng.randint(-25, 25)
        else:
            yield struct.unpack("d", rng.randbytes(8))[0]


def _next(x: float, by: int) -> float:
    made: float = struct.unpack("d", struct.pack("q", struct.unpack("q", struct.pack("d", x))[0] + by))[0]
    return made


def _expected(x: float, places: int) -> float:
    if x != x or x in (float("inf"), float("-inf")):
        return x
    unit = Decimal(1).scaleb(-places)
    return float(Decimal(repr(x)).quantize(unit, ROUND_HALF_UP, EXACT)) + 0.0


def test_round_of_null_is_null_over_arrow() -> None:
    for sql in ("round(NULL)", "round(NULL, 2)"):
        term = term_over(sql, {})
        assert term is not None
        assert term.over(Rows.of(pa.table({"x": [1.0, 2.0]}))).to_pylist() == [None, None]


def _over(term: Term | None, values: pa.Array) -> pa.Array:
    assert term is not None
    return term.over(Rows.of(pa.table({"x": values, "f": values, "l": values, "t": values, "i": values})))


def _round(column: str, places: int, values: pa.Array) -> pa.Array:
    return _over(term_of(f"round({column}, {places})"), values)


def test_doubles_are_rounded_by_their_decimal_text() -> None:
    print(f"HEADRACE_SEED={SEED} HEADRACE_NUMBERS={NUMBER}")
    rng, compared = random.Random(SEED), 0
    for places in PLACES:
        numbers = [*SPECIAL, *_numbers(rng, places, NUMBER // len(PLACES) // 2)]
        if places < 0:  # there the text of a great number depends on the version of Java
            numbers = [x for x in numbers if not 2.0**53 <= abs(x) < 2e16 * 10.0**-places]
        ours = _round("x", places, pa.array(numbers, pa.float64()))
        compared += len(numbers)
        for x, made in zip(numbers, ours.to_pylist(), strict=True):
            assert repr(made) == repr(_expected(x, places)), (x, places, f"HEADRACE_SEED={SEED}")
    print(f"{compared:,} numbers")


def test_floats_are_rounded_by_the_text_of_the_same_double_once() -> None:
    rng = random.Random(SEED)
    for places in PLACES:
        made = pa.array([*_numbers(rng, places, NUMBER // len(PLACES) // 8)], pa.float64()).cast(
            pa.float32(), safe=False
        )
        numbers = pa.array(
            [x for x in made.to_pylist() if places >= 0 or not 2.0**53 <= abs(x) < 2e16 * 10.0**-places],
            pa.float32(),
        )
        expected = [None if x is None else _expected(x, places) for x in numbers.to_pylist()]
        texts = pa.array([None if x is None else repr(x) for x in expected])
        ours = _round("f", places, numbers)
        for x, one, other in zip(
            numbers.to_pylist(), ours.to_pylist(), texts.cast(pa.float32()).to_pylist(), strict=True
        ):
            assert repr(one) == repr(other), (x, places, f"HEADRACE_SEED={SEED}")


@pytest.mark.parametrize(("column", "of"), [("t", pa.int8()), ("i", pa.int32()), ("l", pa.int64())])
@pytest.mark.parametrize("places", [3, 0, -1, -2, -9, -10, -18, -19, -20, -38])
def test_integers_wrap(column: str, of: pa.DataType, places: int) -> None:
    rng, bits = random.Random(SEED), of.bit_width
    numbers = [0, 5, -5, 4, 15, -15, 50, (1 << bits - 1) - 1, -(1 << bits - 1)]
    numbers += [rng.getrandbits(bits) - (1 << bits - 1) for _ in range(1000)]
    ours = _round(column, places, pa.array(numbers, of))
    for x, made in zip(numbers, ours.to_pylist(), strict=True):
        exact = int(Decimal(x).quantize(Decimal(1).scaleb(max(0, -places)), ROUND_HALF_UP, EXACT))
        assert made == (exact + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1), (x, places)


@pytest.mark.parametrize(("precision", "scale"), [(10, 2), (38, 18), (38, 0), (38, 38), (5, 5)])
@pytest.mark.parametrize("places", [20, 18, 2, 1, 0, -1, -5, -17, -30])
def test_decimals_are_rounded_exactly(precision: int, scale: int, places: int) -> None:
    rng, of = random.Random(SEED), pa.decimal128(precision, scale)
    numbers = [Decimal(0), Decimal(10**precision - 1).scaleb(-scale, EXACT)]
    numbers += [
        Decimal(rng.randint(-(10**n), 10**n)).scaleb(-scale, EXACT)
        for n in range(precision)
        for _ in range(9)
    ]
    term = term_over(f"round(v, {places})", {"v": of})
    assert term is not None
    if precision - scale == 38 and places < 0:  # the result may have 39 digits, which Spark refuses
        assert term.evaluate is None
        return
    ours = term.over(Rows.of(pa.table({"v": pa.array(numbers, of)})))
    assert ours.type == term.type
    for x, made in zip(numbers, ours.to_pylist(), strict=True):
        assert made == x.quantize(Decimal(1).scaleb(-min(places, scale)), ROUND_HALF_UP, EXACT), (x, places)


@pytest.mark.parametrize(
    ("sql", "of"),
    [
        ("round(d)", pa.decimal128(9, 0)),
        ("round(d, 1)", pa.decimal128(10, 1)),
        ("round(d, 5)", pa.decimal128(11, 2)),
        ("round(d, -1)", pa.decimal128(9, 0)),
        ("round(d, -12)", pa.decimal128(13, 0)),
        ("round(w, 18)", pa.decimal128(38, 18)),
        ("round(NULL)", pa.float64()),
        ("round(s, 2)", pa.float64()),
    ],
)
def test_types_are_those_of_spark(sql: str, of: pa.DataType) -> None:
    term = term_of(sql)
    assert term is not None
    assert term.type == of


@pytest.mark.parametrize(
    "sql", ["round(x, 23)", "round(x, 1 + 1)", "round(s)", "round(i, -39)", "round(d, -38)"]
)
def test_what_is_not_proven_is_left_to_spark(sql: str) -> None:
    term = term_of(sql)
    assert term is None or term.evaluate is None


def test_a_great_number_next_to_a_tie_is_left_to_spark() -> None:
    """Java 17 writes 7.18722422705E18 with more digits, so that it is no tie; Java 21 writes the shortest text."""
    with pytest.raises(SparkNeededError):
        _round("x", -8, pa.array([7.18722422705e18]))
    assert _round("x", -8, pa.array([7.18722422706e18])).to_pylist() == [7.1872242271e18]
