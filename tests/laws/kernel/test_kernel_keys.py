"""The laws of keys: equal values have equal bytes, bytes compare as values do, and hashes never change."""

from __future__ import annotations

import math
import os
import re
from datetime import UTC
from decimal import Decimal
from functools import cmp_to_key
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.fold import keys
from headrace.fold.contract import HASH, KEY
from headrace.fold.hashing import xxh64
from headrace.fold.keys import bucket_of, bucket_range, canonical, groups_of, with_keys
from headrace.fold.values.encode import encode
from headrace.oracle.hashing import canonical_bytes
from headrace.oracle.hashing import xxh64 as plain_xxh64

pytestmark = pytest.mark.fast

EXAMPLES = settings(max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "60")), deadline=None)
TEXTS = st.text(st.sampled_from("ab\x00\x01\xffü"), max_size=4)
DOUBLES = st.one_of(st.sampled_from([0.0, -0.0, math.nan, -math.inf, 1.5]), st.floats(width=32))
SCALARS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int16(), st.integers(-3, 3)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), DOUBLES),
    (pa.float32(), DOUBLES),
    (pa.string(), TEXTS),
    (pa.binary(), st.binary(max_size=3)),
    (pa.bool_(), st.booleans()),
    (pa.decimal128(12, 2), st.decimals(-1000, 1000, places=2)),
    (pa.decimal256(50, 2), st.decimals(-1000, 1000, places=2)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(UTC))),
    (pa.timestamp("us"), st.datetimes()),
]


def typed(scalar: tuple[pa.DataType, st.SearchStrategy[Any]], shape: int) -> tuple[pa.DataType, Any]:
    """A type made of a scalar one, and values of it."""
    of, values = scalar
    values = st.none() | values
    match shape:
        case 0:
            return of, values
        case 1:
            return pa.list_(of), st.none() | st.lists(values, max_size=3)
        case 2:
            fields = st.fixed_dictionaries({"x": values, "y": st.none() | TEXTS})
            return pa.struct([("x", of), ("y", pa.string())]), st.none() | fields
    element = pa.struct([("x", of)])
    return pa.list_(element), st.none() | st.lists(st.fixed_dictionaries({"x": values}), max_size=2)


COLUMNS = st.tuples(st.sampled_from(SCALARS), st.integers(0, 3)).map(lambda drawn: typed(*drawn))


@st.composite
def columns(draw: st.DrawFn) -> pa.Array:
    of, values = draw(COLUMNS)
    rows = draw(st.lists(values, min_size=1, max_size=12))
    array = pa.array([*rows, *draw(st.lists(st.sampled_from(rows), max_size=4))], of, from_pandas=False)
    return array.slice(draw(st.integers(0, len(array) - 1)))


def by_value(one: Any, other: Any) -> int:
    return compare(one[0], other[0])


def compare(one: Any, other: Any) -> int:
    """As SQL orders: null first, NaN last, fields and elements from the left."""
    if one is None or other is None:
        return (one is not None) - (other is not None)
    if isinstance(one, dict):
        return compare([*one.values()], [*other.values()])
    if isinstance(one, list):
        unequal = (compare(a, b) for a, b in zip(one, other, strict=False))
        return next((found for found in unequal if found), (len(one) > len(other)) - (len(one) < len(other)))
    if isinstance(one, float) and (math.isnan(one) or math.isnan(other)):
        return math.isnan(one) - math.isnan(other)
    if isinstance(one, str):
        one, other = one.encode(), other.encode()
    return int(one > other) - int(one < other)


@EXAMPLES
@given(columns())
def test_bytes_compare_as_values_do(values: pa.Array) -> None:
    pairs = sorted(
        zip(values.to_pylist(), encode(values).to_pylist(), strict=True),
        key=cmp_to_key(by_value),
    )
    for (one, its_bytes), (other, other_bytes) in pairwise(pairs):
        assert (its_bytes == other_bytes) == (compare(one, other) == 0)
        assert its_bytes <= other_bytes


@EXAMPLES
@given(columns(), st.data())
def test_a_key_depends_on_the_values_alone(values: pa.Array, data: st.DataObject) -> None:
    other = pa.array(data.draw(st.lists(TEXTS, min_size=len(values), max_size=len(values))))
    rows = pa.table({"a": values, "b": other, "a2": values})
    whole = with_keys(rows, ["a", "b", "a2"])
    order = data.draw(st.permutations(range(len(values))))
    cut = data.draw(st.integers(0, len(values)))
    shuffled = rows.take(pa.array(order))
    if not pa.types.is_nested(values.type):
        encoded = pa.array(values, values.type).dictionary_encode().take(pa.array(order))
        shuffled = shuffled.set_column(0, "a", encoded)
    cut_up = pa.concat_tables([shuffled.slice(0, cut), shuffled.slice(cut)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "DIFFERENT_MIN", data.draw(st.sampled_from([1, 2, keys.DIFFERENT_MIN])))
        keyed = with_keys(cut_up, ["a", "b", "a2"])
    for name in (KEY, HASH):
        assert keyed[name].to_pylist() == [whole[name][i].as_py() for i in order]
    groups = groups_of(whole)
    for i, j in combinations(range(len(values)), 2):
        same = compare(values[i].as_py(), values[j].as_py()) == 0 and other[i] == other[j]
        assert (groups.codes[i] == groups.codes[j]) == same == (whole[KEY][i] == whole[KEY][j])


@EXAMPLES
@given(columns())
def test_canonical_values_have_the_same_bytes(values: pa.Array) -> None:
    assert canonical(values).type == values.type
    assert encode(canonical(values)).equals(encode(values))
    assert re.search(r"-0\.0(?!\d)", str(canonical(values).to_pylist())) is None  # of decimals there is -0.05


def test_maps_are_sets_of_entries() -> None:
    of = pa.map_(pa.string(), pa.int32())
    values = pa.array([[("a", 1), ("b", 2)], [("b", 2), ("a", 1)], None, [], [("a", 2), ("b", 1)]], of)
    one, other, *others = encode(values).to_pylist()
    assert one == other
    assert len({one, *others}) == 4
    assert encode(values.slice(1)).equals(encode(values).slice(1))


def test_hashes_are_those_of_xxh64() -> None:
    """Vectors of the specification, of Spark's xxhash64, and of the oracle."""
    texts = [
        b"",
        b"a",
        b"abc",
        bytes(range(14)),
        b"Nobody inspects the spammish repetition",
        bytes(range(101)),
    ]
    found = xxh64(pa.array(texts, pa.binary()), 0).view(np.uint64).tolist()
    assert found[:3] == [0xEF46DB3751D8E999, 0xD24EC4F1A98C6E5B, 0x44BC2CF5AD770999]
    assert found[4] == 0xFBCEA83C8A378BF1
    assert found == [plain_xxh64(text, 0) for text in texts]


@EXAMPLES
@given(st.lists(st.binary(max_size=120), min_size=1, max_size=20))
def test_hashes_do_not_depend_on_their_neighbours(texts: list[bytes]) -> None:
    values = pa.array([b"before", *texts], pa.binary()).slice(1)
    assert xxh64(values).view(np.uint64).tolist() == [plain_xxh64(text, 42) for text in texts]


def test_a_hash_on_disk_stays_what_it_is() -> None:
    rows = pa.table({"a": pa.array(["x", None]), "b": pa.array([1, -1], pa.int32())})
    keyed = with_keys(rows, ["a", "b"])
    assert [key.hex() for key in keyed[KEY].to_pylist()] == [
        "017800010180" + "00" * 6 + "01",
        "000001017f" + "ff" * 7,
    ]
    assert keyed[HASH].to_pylist() == [signed(plain_xxh64(key, 42)) for key in keyed[KEY].to_pylist()]
    assert keyed[HASH].to_pylist() == [-9078167883408700127, 3729714566229811292]


@EXAMPLES
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.sampled_from([1, 2, 5, 7, 64]))
def test_buckets_are_ranges(hashes: list[int], buckets: int) -> None:
    hashes = sorted([*hashes, -(2**63), 2**63 - 1])
    found = bucket_of(np.array(hashes, np.int64), buckets).tolist()
    assert found == sorted(found)
    assert (found[0], found[-1]) == (0, buckets - 1)
    for number, bucket in zip(hashes, found, strict=True):
        lowest, highest = bucket_range(bucket, buckets)
        assert lowest <= number <= highest


def signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


@EXAMPLES
@given(st.sampled_from(SCALARS), st.data())
def test_the_oracle_finds_the_same_bytes(
    scalar: tuple[pa.DataType, st.SearchStrategy[Any]], data: st.DataObject
) -> None:
    of, values = scalar
    array = pa.array(data.draw(st.lists(values, min_size=1, max_size=5)), of, from_pandas=False)
    if pa.types.is_decimal256(of):
        return  # Spark has none
    assert encode(array).to_pylist() == [b"\x01" + canonical_bytes(value) for value in array.to_pylist()]


@pytest.mark.parametrize(
    "number", ["9" * 38, "-" + "9" * 38, "12345678901234567890.123456789012345678", "1e-38"]
)
def test_the_oracle_finds_the_same_bytes_of_decimals_with_many_digits(number: str) -> None:
    """Before, those of more than 28 digits were rounded, or had no bytes at all."""
    value = Decimal(number)
    array = pa.array([value], pa.decimal128(38, max(0, -int(value.as_tuple().exponent))))
    assert encode(array).to_pylist() == [b"\x01" + canonical_bytes(value)]


def test_texts_with_zero_bytes_keep_their_order_and_their_ends() -> None:
    texts = sorted(
        bytes(each) for length in range(4) for each in product((0x00, 0x01, 0x61, 0xFF), repeat=length)
    )
    found = encode(pa.array(texts, pa.binary())).to_pylist()
    assert found == sorted(found)
    assert len({*found}) == len(texts)
    assert not any(other.startswith(one) for one, other in pairwise(found))
