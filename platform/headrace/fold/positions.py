"""Where rows stand in the log's order: commit time, topic, partition, offset (L21).

Law: positions compare by these four, topics by their bytes; two rows of the logs never have the same.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.contract import CAUSE, INGESTED, OFFSET, PARTITION, TOPIC

POSITION = (INGESTED, TOPIC, PARTITION, OFFSET)
FIELDS = (
    pa.field("ingested_ms", pa.int64()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
)


def position_columns(rows: pa.Table) -> dict[str, pa.Array]:
    """The columns of positions under the names of `FIELDS`."""
    return {
        field.name: _whole(rows[name]).cast(field.type) for field, name in zip(FIELDS, POSITION, strict=True)
    }


def order_of(position: Mapping[str, pa.Array]) -> np.ndarray:
    """Numbers (int64) that compare as positions do.

    In: position  columns of the names of `FIELDS`, without nulls but for offsets
    """
    parts = [
        _ranks(position["ingested_ms"].to_numpy(zero_copy_only=False)),
        _text_ranks(position["topic"]),
        _ranks(position["partition"].to_numpy(zero_copy_only=False).astype(np.int64)),
    ]
    offset = position["offset"].fill_null(-1).to_numpy(zero_copy_only=False)
    lowest = int(offset.min(initial=0))
    widths = [int(part.max(initial=0)) + 1 for part in parts]
    span = int(offset.max(initial=0)) - lowest + 1
    if widths[0] * widths[1] * widths[2] * span >= 1 << 62:
        order = np.lexsort((offset, *reversed(parts)))
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        return ranks
    number = (parts[0] * widths[1] + parts[1]) * widths[2] + parts[2]
    ordered: np.ndarray = number * span + (offset - lowest)
    return ordered


def order_of_causes(rows: pa.Table) -> np.ndarray:
    """Numbers (int64) that compare as what caused the rows: by topic, then by partition and offset.

    A node's row has the place of its cause in their stead, since its offset depends on commits (L32).
    """
    position = position_columns(rows)
    place = order_of(position | {"ingested_ms": pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows)})
    if CAUSE in rows.column_names:
        keyed = pa.table([position["topic"], rows[CAUSE], pa.array(place)], ["topic", "cause", "place"])
        order = pc.sort_indices(keyed, sort_keys=[(name, "ascending") for name in keyed.column_names])
        place[order.to_numpy()] = np.arange(len(place))
    return place


def _ranks(numbers: np.ndarray) -> np.ndarray:
    """Numbers from 0 without wide gaps, in the same order."""
    lowest, highest = int(numbers.min(initial=0)), int(numbers.max(initial=0))
    if highest - lowest < 1 << 16:
        return numbers - lowest
    encoded = pa.array(numbers).dictionary_encode()
    return _ranked(encoded.dictionary.to_numpy(), encoded.indices.to_numpy())


def _text_ranks(texts: pa.Array) -> np.ndarray:
    encoded = texts.dictionary_encode()
    return _ranked(
        np.array([text.encode() for text in encoded.dictionary.to_pylist()]), encoded.indices.to_numpy()
    )


def _ranked(distinct: np.ndarray, codes: np.ndarray) -> np.ndarray:
    rank = np.empty(len(distinct), np.int64)
    rank[np.argsort(distinct, kind="stable")] = np.arange(len(distinct))
    found: np.ndarray = rank[codes]
    return found


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
