"""Partials that hold several values: structs, and lists of items."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def structs_of(columns: Mapping[str, pa.Array], null: pa.Array | None = None) -> pa.Array:
    """Structs of these fields. In: null  which structs are null; None: none is."""
    mask = null if null is not None and pc.any(null).as_py() else None
    fields = [pa.field(name, column.type) for name, column in columns.items()]
    return pa.StructArray.from_arrays([*columns.values()], fields=fields, mask=mask)


def fields_of(structs: pa.Array) -> dict[str, pa.Array]:
    """The fields of structs; null where the struct is."""
    return {field.name: column for field, column in zip(structs.type, structs.flatten(), strict=True)}


def lists_of(items: pa.Array, which: np.ndarray, groups: int) -> pa.Array:
    """One list for each group. In: items  by group; which  the group of each item, rising."""
    ends = np.concatenate([[0], np.cumsum(np.bincount(which, minlength=groups))])
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items)


def items_of(lists: pa.Array, codes: np.ndarray) -> tuple[pa.Array, np.ndarray]:
    """The items of all lists, and the group of each. In: codes  the group of each list."""
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    return lists.flatten(), np.repeat(codes, lengths)


def first_of_each(rows: np.ndarray, codes: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The first rows of each group, at most so many, and the group of each.

    In: rows   in the order of their groups, then in the order that counts
        codes  the group of each row
    """
    ordered = codes[rows]
    stay = np.arange(len(rows)) - np.searchsorted(ordered, ordered) < most
    return rows[stay], ordered[stay]
