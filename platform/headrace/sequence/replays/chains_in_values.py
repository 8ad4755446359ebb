"""Source chains that stand in the value of a record, as text or as an array of entries."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description.replay import IN_VALUE


def in_values(values: pa.StructArray, path: str) -> tuple[np.ndarray, pa.Array]:
    """The records that have a chain at a path, and each as JSON text, in bytes. An entry with a null makes it malformed."""
    for name in path.split("."):
        values = values.flatten()[values.type.get_field_index(name)]
    texts = values if pa.types.is_string(values.type) else _joined(values)
    there = np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False))
    return there, texts.take(pa.array(there)).cast(pa.binary())


def _joined(lists: pa.ListArray) -> pa.StringArray:
    """Lists of entries as JSON; null where there is none."""
    entries = lists.flatten()
    parts = dict(zip([field.name for field in entries.type], entries.flatten(), strict=True))
    texts = [pc.binary_join_element_wise('"', parts["topic"], '"', "")]
    texts += [parts[name].cast(pa.string()) for name in ("partition", "offset")]
    whole = pc.binary_join_element_wise("[", pc.binary_join_element_wise(*texts, ","), "")
    if "ordinal" in parts:
        ordinal = pc.binary_join_element_wise(",", parts["ordinal"].cast(pa.string()), "")
        whole = pc.binary_join_element_wise(whole, pc.fill_null(ordinal, ""), "")
    whole = pc.fill_null(pc.binary_join_element_wise(whole, "]", ""), "null")
    sizes = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    ends = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(ends, whole), ",")
    return pc.binary_join_element_wise("[", pc.if_else(pa.array(sizes > 0), joined, None), "]", "")


def with_chains(headers: pa.Array, at: np.ndarray, chains: pa.Array) -> pa.Array:
    """Headers with one more, `IN_VALUE`, for the records at some places: who reads the log finds all chains alike.

    A header of this name that has come with a record goes: it would count as a chain, which the value does not have.
    """
    headers = without_chains(headers)
    if not len(at):
        return headers
    counts = pc.list_value_length(headers).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    more = np.zeros(len(headers), np.int64)
    more[at] = 1
    ends = np.concatenate([[0], np.cumsum(counts + more)])
    added = ends[1:][at] - 1
    place = np.empty(int(ends[-1]), np.int64)
    old = np.ones(len(place), bool)
    old[added] = False
    known = headers.flatten()
    place[old] = np.arange(len(known))
    place[added] = len(known) + np.arange(len(at))
    names = pa.array([IN_VALUE] * len(at), pa.string())
    new = pa.StructArray.from_arrays([names, chains], fields=list(headers.type.value_type))
    entries = pa.concat_arrays([known, new]).take(pa.array(place))
    null = pa.array(headers.is_null().to_numpy(zero_copy_only=False) & (more == 0))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), entries, type=headers.type, mask=null)


def without_chains(headers: pa.Array) -> pa.Array:
    """Headers as records had them: without those of `with_chains`; null where none is left."""
    entries = headers.flatten()
    gone = pc.equal(entries.field("key"), IN_VALUE).fill_null(False).to_numpy(zero_copy_only=False)
    if not gone.any():
        return headers
    whose = pc.list_parent_indices(headers).to_numpy()[~gone]
    counts = np.bincount(whose, minlength=len(headers))
    ends = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    left = entries.filter(pa.array(~gone))
    return pa.ListArray.from_arrays(ends, left, type=headers.type, mask=pa.array(counts == 0))
