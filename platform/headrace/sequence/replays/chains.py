"""The source chain: where a record comes from, hop by hop, read from its header or its value.

There stands a JSON list of `[topic, partition, offset]` or `[topic, partition, offset, ordinal]`, the root first:
each hop that republishes appends the position of what it read, and numbers the outputs of one input by ordinals.

    [["orders", 0, 12], ["parts", 1, 40, 2]]   read in partition 3 of the topic `screws`:
    root orders/0 at offset 12, ordinals [-1, 2], path `orders/0>parts/1>screws/3`

Law: a function of the record. A record without the header is its own root; of several headers of the name the last
counts (Kafka's `lastHeader`). Names are Kafka's (letters, digits, `.`, `_`, `-`), so a path is unambiguous.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description.source_chain import CHAIN, ENTRIES_MAX
from headrace.sequence.parse.letters import letters_of
from headrace.sequence.parse.strict_json import BLANKS

NO_ORDINAL = -1  # stands for the ordinal that an entry lacks: positions of one path have one length and sort
HOP = ">"  # between the hops of a path


@dataclass(frozen=True)
class Chains:
    """The source chains of some records. A record with a malformed chain is treated as its own root.

    root_topic, path            STRING as a dictionary
    root_partition, root_offset of the chain's first entry, or the record's own
    hops                        how many entries each chain has; 0: the record is its own root
    ordinals                    those of all entries, chain by chain; `NO_ORDINAL` where an entry has none
    malformed                   true for a chain that is not well-formed
    """

    root_topic: pa.DictionaryArray
    root_partition: np.ndarray
    root_offset: np.ndarray
    hops: np.ndarray
    ordinals: np.ndarray
    path: pa.DictionaryArray
    malformed: np.ndarray

    def ordinals_by_hop(self) -> np.ndarray:
        """One row for each record: its ordinals, and `NO_ORDINAL` after the last."""
        table = np.full((len(self.hops), int(self.hops.max(initial=0))), NO_ORDINAL, np.int32)
        table[np.arange(table.shape[1]) < self.hops[:, None]] = self.ordinals
        return table


def malformed_reason(place: str) -> str:
    """Why a record with a malformed chain is a dead letter. In: place  of the chain: a header, or a path in the value."""
    return (
        f"malformed {place}: not a JSON list of 1 to {ENTRIES_MAX} entries "
        "[topic, partition, offset] or [topic, partition, offset, ordinal]"
    )


def read_chains(
    at: np.ndarray, texts: pa.Array, topic: str, partition: np.ndarray, offset: np.ndarray
) -> Chains:
    """The chains of records.

    In: at                 the records that have one, in order, and `texts`, BINARY: each as it stands there
        partition, offset  of each record in its topic
    """
    rows = len(partition)
    entries, well_formed = _entries(texts)
    malformed = np.zeros(rows, bool)
    malformed[at[~well_formed]] = True
    hops = np.zeros(rows, np.int64)
    hops[at[well_formed]] = pc.list_value_length(entries).to_numpy()
    pieces = pc.split_pattern(entries.flatten(), ",")
    flat, sizes = pieces.flatten(), pc.list_value_length(pieces).to_numpy()
    starts = np.cumsum(sizes) - sizes
    quoted = flat.take(pa.array(starts)).cast(pa.binary())
    names = pc.binary_slice(quoted, 1, -1).cast(pa.string())
    partitions, offsets = (flat.take(pa.array(starts + place)) for place in (1, 2))
    ordinals = np.full(len(starts), NO_ORDINAL, np.int32)
    numbered = sizes == 4
    ordinals[numbered] = flat.take(pa.array(starts[numbered] + 3)).cast(pa.int32()).to_numpy()
    first = (np.cumsum(hops) - hops)[hops > 0]
    root_partition, root_offset = partition.astype(np.int32), offset.astype(np.int64)
    root_partition[hops > 0] = partitions.take(pa.array(first)).cast(pa.int32()).to_numpy()
    root_offset[hops > 0] = offsets.take(pa.array(first)).cast(pa.int64()).to_numpy()
    return Chains(
        _root_topics(names.take(pa.array(first)), hops > 0, topic),
        root_partition,
        root_offset,
        hops,
        ordinals,
        _paths(pc.binary_join_element_wise(names, partitions, "/"), hops, topic, partition),
        malformed,
    )


def chain_texts(headers: pa.Array, name: str) -> pa.Array:
    """The chain of each record as it stands in its last header of this name, without blanks; null if there is none."""
    at, raw = in_headers(headers, name)
    texts = _texts(raw)
    well_formed = pc.match_substring_regex(texts, CHAIN).fill_null(False).to_numpy(zero_copy_only=False)
    texts = _without_blanks(texts.filter(pa.array(well_formed)))
    place = np.full(len(headers), -1, np.int64)
    place[at[well_formed]] = np.arange(len(texts))
    return texts.take(pa.array(place, mask=place < 0))


def in_headers(headers: pa.Array, name: str) -> tuple[np.ndarray, pa.Array]:
    """The records that have a header of this name, and the last such of each: its bytes, or null.

    In: headers  ARRAY<STRUCT<key: STRING, value: BINARY>>, null or empty where there are none
    """
    if not len(headers) or not len(headers.flatten()):
        return np.zeros(0, np.int64), pa.array([], pa.binary())
    entries = headers.flatten()
    matching = np.flatnonzero(
        pc.equal(entries.field("key"), name).fill_null(False).to_numpy(zero_copy_only=False)
    )
    at = pc.list_parent_indices(headers).to_numpy()[matching]
    last = np.append(at[1:] != at[:-1], True)[: len(at)]
    return at[last], entries.field("value").take(pa.array(matching[last]))


def _entries(raw: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """The entries of the well-formed chains, each as `"name",partition,offset[,ordinal]`; and which chains are so."""
    texts = _texts(raw)
    well_formed = pc.match_substring_regex(texts, CHAIN).fill_null(False).to_numpy(zero_copy_only=False)
    texts = _without_blanks(texts.filter(pa.array(well_formed)))
    inner = pc.binary_slice(texts.cast(pa.binary()), 2, -2).cast(pa.string())
    entries = pc.split_pattern(inner, "],[")
    few = pc.list_value_length(entries).to_numpy() <= ENTRIES_MAX
    well_formed[np.flatnonzero(well_formed)[~few]] = False
    return entries.filter(pa.array(few)), well_formed


def _without_blanks(texts: pa.Array) -> pa.Array:
    """The same without white space. Most have none, so the letters of all are looked at together."""
    _, letters = letters_of(texts)
    if not (letters <= ord(" ")).any():
        return texts
    for blank in BLANKS:
        texts = pc.replace_substring(texts, blank, "")
    return texts


def _texts(raw: pa.Array) -> pa.Array:
    """Bytes as text; null where they are not ASCII, which no chain is without."""
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [value if value is not None and value.isascii() else None for value in raw.to_pylist()]
        return pa.array(texts, pa.binary()).cast(pa.string())


def _root_topics(names: pa.Array, chained: np.ndarray, topic: str) -> pa.DictionaryArray:
    """The names of chained records, the record's own topic for others."""
    encoded = names.dictionary_encode()
    which = np.full(len(chained), len(encoded.dictionary), np.int32)
    which[chained] = encoded.indices.to_numpy()
    return pa.DictionaryArray.from_arrays(which, pa.concat_arrays([encoded.dictionary, pa.array([topic])]))


def _paths(steps: pa.Array, hops: np.ndarray, topic: str, partition: np.ndarray) -> pa.DictionaryArray:
    """The path of each record: its steps, and its own topic and partition. Each different path is written once."""
    encoded = steps.dictionary_encode()
    codes, names = encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()
    own, own_of = np.unique(partition, return_inverse=True)
    route, routes = _routes(codes, hops)
    which, code = np.unique(route * max(len(own), 1) + own_of, return_inverse=True)
    paths = [
        HOP.join([*(names[step] for step in routes[each // len(own)]), f"{topic}/{own[each % len(own)]}"])
        for each in which.tolist()
    ]
    return pa.DictionaryArray.from_arrays(code.astype(np.int32), pa.array(paths, pa.string()))


def _routes(codes: np.ndarray, hops: np.ndarray) -> tuple[np.ndarray, list[tuple[int, ...]]]:
    """For each record the number of its sequence of steps; and the different sequences."""
    route, routes = np.zeros(len(hops), np.int64), [()]
    starts = np.cumsum(hops) - hops
    numbers: list[tuple[int, ...]] = list(routes)
    for depth in range(int(hops.max(initial=0))):
        # Records that go on: what they had so far and the next step are one number.
        going_on = np.flatnonzero(hops > depth)
        step = codes[starts[going_on] + depth]
        width = int(step.max(initial=0)) + 1
        used, route_of = np.unique(route[going_on] * width + step, return_inverse=True)
        first = len(numbers)
        numbers += [(*numbers[each // width], each % width) for each in used.tolist()]
        route[going_on] = first + route_of
    return route, numbers


def root_of(path: str) -> tuple[str, int]:
    """The root topic and partition of a path."""
    topic, _, partition = path.partition(HOP)[0].rpartition("/")
    return topic, int(partition)
