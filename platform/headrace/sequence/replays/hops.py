"""Source chains that go on through nodes without state.

Law: to the chain of a record such a node appends the record's position, numbered if it makes several rows of one, then its
own name (see `description.source_chain`). So a record that is sent again has the same root and ordinals behind the node, and
nodes that write to one topic have paths of their own.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description.source_chain import ENTRIES_MAX
from headrace.sequence.replays.chains import chain_texts

NODE = "@"  # in the name of what a node gives: before the generation of its log


def open_chains(
    headers: pa.Array, name: str, topic: pa.Array, partition: pa.Array, offset: pa.Array
) -> pa.Array:
    """The chains of records with their own positions appended. The last entry is open: it may get an ordinal, then `]]`.

    In:  headers  ARRAY<STRUCT<key: STRING, value: BINARY>>, null or empty where there are none
         name     of the header with the chain
    Out: text; null of rows without an offset. A row of a stateless node's log comes with a chain that ends with that node
    """
    known = chain_texts(headers, name)
    is_node = pc.match_substring(topic, NODE)
    names = pc.list_element(pc.split_pattern(topic, NODE, max_splits=1), 0)
    position = _joined('"', names, '",', partition.cast(pa.string()), ",", offset.cast(pa.string()))
    has_room = pc.less(pc.count_substring(known, "],["), ENTRIES_MAX - 2).fill_null(False)
    known = pc.if_else(has_room, known, pa.scalar(None, pa.string()))
    alone, longer = _joined("[[", position), _joined(pc.utf8_slice_codeunits(known, 0, -1), ",[", position)
    ended = pc.if_else(is_node, pc.utf8_slice_codeunits(known, 0, -2), longer)
    found = pc.coalesce(ended, alone)
    return pc.if_else(offset.is_valid(), found, pa.scalar(None, pa.string()))


def open_chains_of(
    headers: pa.Array, names: Mapping[str, str], topic: pa.Array, partition: pa.Array, offset: pa.Array
) -> pa.Array:
    """The same of several topics. In: names  by topic, of the header with the chain."""
    columns = headers, topic, partition, offset
    if len({*names.values()}) == 1:
        headers, *place = columns
        return open_chains(headers, next(iter(names.values())), *place)
    found, which = [], []
    for name, header in names.items():
        mine = np.flatnonzero(pc.equal(topic, name).fill_null(False).to_numpy(zero_copy_only=False))
        own, *place = (column.take(pa.array(mine)) for column in columns)
        found.append(open_chains(own, header, *place))
        which.append(mine)
    return pa.concat_arrays(found).take(pa.array(np.argsort(np.concatenate(which))))


def closed_chains(chains: pa.Array, element: pa.Array | None, node: str, sequence: pa.Array) -> pa.Array:
    """Open chains with an entry more, of the node that gives a row.

    In: element   the ordinal of a row among those that are made of one record; None: there is one row
        sequence  the log commit of the row
    """
    numbered = (",", element.cast(pa.string())) if element is not None else ()
    return _joined(chains, *numbered, f'],["{node}",0,', sequence.cast(pa.string()), "]]")


def _joined(*parts: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(*(p if isinstance(p, pa.Array) else pa.scalar(p) for p in parts), "")
