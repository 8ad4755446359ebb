"""Kafka's default partitioner, over whole Arrow arrays: murmur2 of the key's bytes, positive.

Source: `org.apache.kafka.common.utils.Utils.murmur2` and `BuiltInPartitioner.partitionForKey`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import Column

_M, _R, _SEED = np.uint32(0x5BD1E995), np.uint32(24), np.uint32(0x9747B28C)


def target_partition(key: Column, partitions: int) -> Column:
    """The partition in which Kafka's own producers put a record of this key; 0 for a null key."""
    hashed = arrow_udf(positive_murmur2, "int")  # type: ignore[call-overload]
    return F.coalesce(hashed(key) % F.lit(partitions), F.lit(0)).cast("int")


def positive_murmur2(keys: pa.Array) -> pa.Array:
    """The hash of each key, without its sign bit; null for a null key."""
    keys = keys.cast(pa.large_binary())
    offsets = np.frombuffer(keys.buffers()[1], dtype=np.int64)[keys.offset : keys.offset + len(keys) + 1]
    content = keys.buffers()[2]
    data = np.frombuffer(content, dtype=np.uint8) if content is not None else np.zeros(0, dtype=np.uint8)
    lengths = np.diff(offsets)
    hashes = np.zeros(len(keys), dtype=np.uint32)
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        hashes[rows] = _murmur2(data[offsets[rows][:, None] + np.arange(length)])
    missing = keys.is_null().to_numpy(zero_copy_only=False)
    return pa.array((hashes & np.uint32(0x7FFFFFFF)).astype(np.int32), mask=missing)


def _murmur2(keys: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """The hash of keys of one length, a row each; arithmetic wraps at 32 bits."""
    count, length = keys.shape
    hashes: NDArray[np.uint32] = np.full(count, _SEED ^ np.uint32(length), dtype=np.uint32)
    blocks = np.ascontiguousarray(keys[:, : length // 4 * 4]).view("<u4")
    for number in range(length // 4):
        block = blocks[:, number] * _M
        block ^= block >> _R
        hashes = (hashes * _M) ^ (block * _M)
    rest = keys[:, length // 4 * 4 :]
    for place in range(length % 4):
        hashes ^= rest[:, place].astype(np.uint32) << np.uint32(8 * place)
    if length % 4:
        hashes *= _M
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    return hashes
