"""Keys as bytes and as hashes, buckets of hashes, and groups of rows.

Law: KEY and HASH follow from the values alone (see `encode` and `hashing`), not from dictionaries, chunks or other rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.contract import BATCH, HASH, KEY
from headrace.fold.hashing import xxh64
from headrace.fold.segments import distinct
from headrace.fold.values.columns import int64
from headrace.fold.values.encode import encode

# If so many of so many values differ, a dictionary of all takes longer than bytes.
SAMPLE_ROWS, DIFFERENT_MIN = (1_024, 1_000)


@dataclass(frozen=True)
class Groups:
    """Which rows belong together.

    codes  of each row the number of its group, from 0
    first  of each group its first row
    """

    codes: np.ndarray
    first: np.ndarray

    def __len__(self) -> int:
        return len(self.first)


def with_keys(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Add KEY and HASH, or replace them.

    In:  rows     with the columns; of any Arrow type, nested ones too
    Out: the rows in their order, with KEY (BINARY) and HASH (BIGINT), neither of them null
    """
    codes, keys = _distinct_keys(rows, columns)
    hashes = xxh64(keys)[codes]
    rows = rows.drop_columns([name for name in (KEY, HASH) if name in rows.column_names])
    return rows.append_column(KEY, keys.take(pa.array(codes))).append_column(HASH, pa.array(hashes))


def key_of_row(rows: pa.Table, columns: Sequence[str]) -> tuple[pa.Array, np.ndarray]:
    """KEY and HASH of each row, without a table around them."""
    codes, keys = _distinct_keys(rows, columns)
    return keys.take(pa.array(codes)), xxh64(keys)[codes]


def groups_of(rows: pa.Table, *also_by: np.ndarray) -> Groups:
    """Rows with the same KEY, and the same of each of the numbers (int64) beside it."""
    by_key = group(rows[KEY])
    return combined(by_key.codes, *also_by) if also_by else by_key


def groups_of_both(one: pa.Table, other: pa.Table, *also_by: str) -> tuple[np.ndarray, np.ndarray, int]:
    """The number of the group of each row of two tables, and how many groups there are.

    A group is of rows with the same KEY, and the same of each column of whole numbers beside it.
    """
    groups = group(pa.chunked_array([*one[KEY].chunks, *other[KEY].chunks], pa.binary()))
    if also_by:
        numbers = (np.concatenate([int64(one[name]), int64(other[name])]) for name in also_by)
        groups = combined(groups.codes, *numbers)
    return groups.codes[: one.num_rows], groups.codes[one.num_rows :], len(groups)


def group(values: pa.Array | pa.ChunkedArray) -> Groups:
    """Rows with the same value; of a type that Arrow can put into a dictionary. Null is a value, too."""
    encoded = _combine(values)
    if _is_constant(encoded):
        return Groups(np.zeros(len(encoded), np.int64), np.zeros(1, np.int64))
    if not pa.types.is_dictionary(encoded.type):
        encoded = encoded.dictionary_encode(null_encoding="encode")
    return numbered(encoded.indices.to_numpy(), len(encoded.dictionary))


def combined(*numbers: np.ndarray) -> Groups:
    """Rows with the same numbers (int64) in all columns."""
    codes, width = _from_zero(numbers[0])
    for other in numbers[1:]:
        each, values = _from_zero(other)
        if width * values >= 1 << 62:
            codes, width = _from_zero(_dense(codes))
            each, values = _from_zero(_dense(each))
        codes, width = codes * values + each, width * values
    return numbered(_dense(codes))


def numbered(codes: np.ndarray, count: int | None = None) -> Groups:
    """Groups of codes from 0 without gaps."""
    codes = codes.astype(np.int64, copy=False)
    first = np.zeros(int(codes.max(initial=-1)) + 1 if count is None else count, np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # of equal codes the last one written stays
    return Groups(codes, first)


def newest(rows: pa.Table, of: Sequence[str] = (KEY,), age: Sequence[str] = (BATCH,)) -> pa.Table:
    """The newest of the rows that replace one another: a merge of state tables (see `StateTable.merge`).

    In: of   columns whose values tell which rows do: KEY, whole numbers, texts, bytes or times
        age  columns of whole numbers: the highest of the first is the newest, of equal ones that of the second
    """
    if not rows.num_rows:
        return rows
    rows = rows.combine_chunks()
    same = group(rows[of[0]]) if len(of) == 1 else combined(*(_numbered_values(rows[name]) for name in of))
    codes, last = same.codes, np.full(len(same), -1, np.int64)
    order = np.lexsort([int64(rows[name]) for name in reversed(age)])
    last[codes[order]] = order  # the last one written stays
    return rows if len(last) == rows.num_rows else rows.take(pa.array(np.sort(last)))


def _numbered_values(values: pa.ChunkedArray) -> np.ndarray:
    """Numbers that are equal where values are."""
    return int64(values) if pa.types.is_int64(values.type) and not values.null_count else group(values).codes


def group_columns(rows: pa.Table, columns: Sequence[str], first: np.ndarray) -> dict[str, pa.Array]:
    """The group columns of groups, each by one of its rows; -0.0 is 0.0, and NaN one value, in nested ones too."""
    at = pa.array(first)
    return {name: canonical(_combine(rows[name].take(at))) for name in columns}


def bucket_of(hashes: np.ndarray, buckets: int) -> np.ndarray:
    """The bucket of each hash: a range of the hash, so that sorted hashes have sorted buckets."""
    upper = (hashes.view(np.uint64) ^ np.uint64(1 << 63)) >> np.uint64(32)
    return ((upper * np.uint64(buckets)) >> np.uint64(32)).astype(np.int64)


def bucket_range(bucket: int, buckets: int) -> tuple[int, int]:
    """The lowest and the highest hash of a bucket."""
    lowest, beyond = (-(-(number << 32) // buckets) << 32 for number in (bucket, bucket + 1))
    return lowest - (1 << 63), beyond - 1 - (1 << 63)


def distinct_hashes(*tables: pa.Table) -> np.ndarray:
    """The hashes of rows of tables, each once, sorted: as `Needs.hashes` takes them."""
    return distinct(np.concatenate([rows[HASH].to_numpy() for rows in tables]))


def canonical(values: pa.Array) -> pa.Array:
    """The same values with one NaN and without -0.0."""
    of = values.type
    if pa.types.is_floating(of):
        there = values.is_valid()
        numbers = np.array(values.fill_null(0).to_numpy(zero_copy_only=False)) + 0
        numbers[np.isnan(numbers)] = np.nan
        return pa.array(numbers, of, mask=~there.to_numpy(zero_copy_only=False), from_pandas=False)
    if not _has_floats(of):
        return values
    if pa.types.is_struct(of):
        fields = [canonical(field) for field in values.flatten()]
        return pa.StructArray.from_arrays(
            fields, fields=list(of), mask=values.is_null() if values.null_count else None
        )
    if pa.types.is_list(of) or pa.types.is_large_list(of):
        lengths = pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False)
        ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        mask = values.is_null() if values.null_count else None
        return pa.ListArray.from_arrays(ends, canonical(values.flatten()), mask=mask).cast(of)
    return values  # maps are no group columns (see `description.grouping`)


def _has_floats(of: pa.DataType) -> bool:
    if pa.types.is_nested(of):
        return any(_has_floats(of.field(number).type) for number in range(of.num_fields))
    return bool(pa.types.is_floating(of))


def _distinct_keys(rows: pa.Table, columns: Sequence[str]) -> tuple[np.ndarray, pa.Array]:
    """For each row the number of its key, and the keys' bytes; each distinct one is encoded once."""
    if not columns:
        return np.zeros(rows.num_rows, np.int64), pa.array([b""], pa.binary())
    codes: np.ndarray | None = None
    parts: list[pa.Array] = []
    for name in columns:
        which, distinct = _distinct(_combine(rows[name]))
        if codes is None:
            codes, parts = which, [distinct]
            continue
        both = numbered(_dense(codes * max(len(distinct), 1) + which))
        parts = [*(part.take(pa.array(codes[both.first])) for part in parts)]
        parts.append(distinct.take(pa.array(which[both.first])))
        codes = both.codes
    assert codes is not None
    keys = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, pa.scalar(b""))
    return codes, keys


def _distinct(values: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """For each value the number of its bytes, and these; some may be there more than once (0.0 and -0.0, rare ones)."""
    if pa.types.is_nested(values.type) or pa.types.is_null(values.type):
        values = encode(values)
        encoded = values.dictionary_encode()
        return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary
    if not pa.types.is_dictionary(values.type):
        if len(values.slice(0, SAMPLE_ROWS).unique()) >= DIFFERENT_MIN:
            return np.arange(len(values)), encode(values)
        values = values.dictionary_encode(null_encoding="encode")
    indices, dictionary = values.indices, values.dictionary
    if indices.null_count:  # a dictionary from elsewhere
        indices = indices.fill_null(len(dictionary))
        dictionary = pa.concat_arrays([dictionary, pa.nulls(1, dictionary.type)])
    return indices.to_numpy().astype(np.int64), encode(dictionary)


def _from_zero(numbers: np.ndarray) -> tuple[np.ndarray, int]:
    """Numbers less the lowest of them, and how many there may be."""
    lowest, highest = int(numbers.min(initial=0)), int(numbers.max(initial=0))
    if highest - lowest >= 1 << 62:
        numbers = _dense(numbers)
        lowest, highest = 0, int(numbers.max(initial=0))
    return numbers.astype(np.int64, copy=False) - lowest, highest - lowest + 1


def _dense(numbers: np.ndarray) -> np.ndarray:
    """Numbers from 0 without gaps, the same for the same."""
    if not len(numbers):
        return numbers.astype(np.int64)
    lowest, highest = int(numbers.min()), int(numbers.max())
    width = highest - lowest + 1
    if width <= 8 * len(numbers) + 1024:  # a hash of each number takes longer than so large an array
        shifted = numbers - lowest
        there = np.zeros(width, bool)
        there[shifted] = True
        dense: np.ndarray = (np.cumsum(there, dtype=np.int32) - 1)[shifted].astype(np.int64)
        return dense
    dense = pa.array(numbers).dictionary_encode().indices.to_numpy().astype(np.int64)
    return dense


def _is_constant(values: pa.Array) -> bool:
    """Whether texts are all the same, which is seen much faster than what they are; as topics and fates mostly are."""
    if (
        not len(values)
        or values.null_count
        or not (pa.types.is_string(values.type) or pa.types.is_binary(values.type))
    ):
        return False
    if values[-1] != values[0] or values[len(values) // 2] != values[0]:
        return False
    return bool(pc.all(pc.equal(values, values[0])).as_py())


def _combine(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(values, pa.ChunkedArray):
        return values
    if pa.types.is_dictionary(values.type):
        values = values.unify_dictionaries()
    return values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
