"""Whether two frames hold the same rows, told by sums over the rows instead of by the rows themselves.

Law: the checksum of a frame is its number of rows and the sums of two 64-bit hashes of each row. It depends on the rows
alone, not on their order or files. Equal rows have equal hashes. Rows that differ by accident have equal sums with a
probability of about 2⁻¹²⁸; sums that differ by chance cost an exact comparison, never a wrong verdict.

Source: xxHash64 (https://xxhash.com), as Spark's `xxhash64` computes it. Spark passes over nulls and bounds of arrays, so
both are hashed, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from headrace.description import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

SEEDS = (1, 2)
LOW_BITS = 32  # of a hash are summed apart from the others, so that no sum overflows below 2³¹ rows


@dataclass(frozen=True)
class Checksum:
    """Stands for some rows in a comparison. sums  of the low and the high bits of their hashes."""

    rows: int
    sums: tuple[int, ...]


def checksums(rows: DataFrame, columns: Sequence[str], by: Column) -> Mapping[Any, Checksum]:
    """The checksum of the rows of each part of a frame; a part without rows has none.

    In: columns  that count; MAP is not among their types, at any depth
        by       which part a row belongs to
    """
    hashed = rows.select(by.alias("part"), *_hashes(rows, columns))
    low = [F.sum(F.col(f"hash{seed}").bitwiseAND(F.lit((1 << LOW_BITS) - 1))) for seed in SEEDS]
    high = [F.sum(F.shiftright(f"hash{seed}", LOW_BITS)) for seed in SEEDS]
    named = [each.alias(f"sum{number}") for number, each in enumerate([*low, *high])]
    found = hashed.groupBy("part").agg(F.count("*").alias("rows"), *named).collect()
    return {
        row["part"]: Checksum(row["rows"], tuple(row[f"sum{n}"] for n in range(len(named)))) for row in found
    }


def _hashes(rows: DataFrame, columns: Sequence[str]) -> list[Column]:
    return [_hash(rows, columns, seed).alias(f"hash{seed}") for seed in SEEDS]


def _hash(rows: DataFrame, columns: Sequence[str], seed: int) -> Column:
    told = (_hashed_text(F.col(quote(name)), rows.schema[name].dataType, seed) for name in columns)
    return F.xxhash64(F.lit(seed), *(part for parts in told for part in parts))


def _hashed_text(value: Column, of: T.DataType, seed: int) -> list[Column]:
    """The numbers and texts of a value that are hashed. Different values have different lists.

    An array's elements are hashed one by one, each with the seed. So two that collide with one seed do not with another.
    """
    if isinstance(of, T.StructType):
        fields = (_hashed_text(value.getField(field.name), field.dataType, seed) for field in of)
        return [value.isNull(), *(part for parts in fields for part in parts)]
    if isinstance(of, T.ArrayType):
        element = of.elementType
        hashes = F.transform(value, lambda each: F.xxhash64(F.lit(seed), *_hashed_text(each, element, seed)))
        return [F.coalesce(F.size(value), F.lit(-1)), hashes]
    assert not isinstance(of, T.MapType)
    return [value.isNull(), value]
