"""A record's place in the log's order, and what is kept of an open batch.

The topic is part of both where a node reads several; tables of one topic have no column for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.description import Batches

_TYPES = {"__topic": "string", "__partition": "int", "__offset": "bigint"}


def source_of(node: Batches) -> tuple[str, ...]:
    """The columns that say where a record came from, which tell it from all others."""
    return tuple(_TYPES) if len(node.topics) > 1 else tuple(_TYPES)[1:]


def place_of(node: Batches) -> tuple[str, ...]:
    """The columns by which records are in the log's order: commit time, then where they came from."""
    return ("__ingested_ms", *source_of(node))


def counted_by(node: Batches) -> tuple[str, ...]:
    """The columns by which the records of an open batch are counted: those of a partition."""
    return source_of(node)[:-1]


def open_state(node: Batches) -> dict[str, str]:
    """What is kept of an open batch, as columns with their types."""
    counted = ", ".join(f"{name.removeprefix('__')}: {_TYPES[name]}" for name in counted_by(node))
    return {
        "__opened_ms": "bigint",
        **{name: _TYPES[name] for name in source_of(node)},  # the first record's
        "__records": "bigint",
        "__bytes": "bigint",
        "__event_ms": "bigint",
        "__counts": f"array<struct<{counted}, records: bigint>>",
        "__commits": "array<bigint>",  # when its records came; null: more often than is kept
    }
