"""Read plain source chains: entries of three, no blanks (see `headrace.log.chain`)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.log.chain import ARROW, ENTRIES_MAX
from headrace.log.plain.decode import OddError, read_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = re.compile(r'"([A-Za-z0-9._-]{1,249})"')
PARTITION = re.compile(r"(0|[1-9][0-9]{0,8})")
OFFSET = "^(0|[1-9][0-9]{0,17})$"
PIECES = 3  # of an entry: topic, partition, offset
ROUTES_MAX = 1 << 22

Hop = tuple[str, int]


@dataclass(frozen=True)
class Chains:
    """The chains of some records, each with the number of the hops that it took.

    routes   the different sequences of hops, without the record's own; () of a record that is its own root
    route    of each record, an index of `routes`
    offsets  of each record the root's offset; of one that is its own root, -1
    """

    routes: Sequence[tuple[Hop, ...]]
    route: np.ndarray
    offsets: np.ndarray


def read_chains(headers: pa.ListArray, name: str) -> Chains:
    """The chains in the last header of this name of each record.

    In:     headers  as Kafka's, ARRAY<STRUCT<key, value>>
    Raises: OddError when one is not plain
    """
    route, offsets = np.zeros(len(headers), np.int64), np.full(len(headers), -1, np.int64)
    routes: list[tuple[Hop, ...]] = [()]
    entries = headers.flatten()
    matching = np.flatnonzero(
        pc.equal(entries.field("key"), name).fill_null(False).to_numpy(zero_copy_only=False)
    )
    if len(matching):
        at = pc.list_parent_indices(headers).to_numpy()[matching]
        last = np.append(at[1:] != at[:-1], True)
        at, matching = at[last], matching[last]
        texts, _ = read_texts(entries.field("value").take(pa.array(matching)))
        if texts.null_count:
            raise OddError("a chain that is no text")
        pieces = pc.split_pattern(texts, ",")
        sizes = pc.list_value_length(pieces).to_numpy()
        for size in np.unique(sizes):
            mine = np.flatnonzero(sizes == size)
            found, number, offset = _of_one_size(pieces.take(pa.array(mine)).flatten(), int(size))
            route[at[mine]], offsets[at[mine]] = number + len(routes), offset
            routes += found
    return Chains(routes, route, offsets)


def _of_one_size(pieces: pa.Array, size: int) -> tuple[list[tuple[Hop, ...]], np.ndarray, np.ndarray]:
    """Chains of so many pieces: the routes, of each chain its route, and its root's offset."""
    hops, rest = divmod(size, PIECES)
    if rest or not 1 <= hops <= ENTRIES_MAX:
        raise OddError("not a chain of entries of three")
    routes: list[tuple[Hop, ...]] = [()]
    route = root_offsets = np.zeros(len(pieces) // size, np.int64)
    for hop in range(hops):
        topic, partition, offset = (
            pieces.take(pa.array(np.arange(hop * PIECES + piece, len(pieces), size)))
            for piece in range(PIECES)
        )
        topics, topic_of = _known(topic, NAME, "[[" if hop == 0 else "[")
        partitions, partition_of = _known(partition, PARTITION)
        offsets = _offsets(offset, "]]" if hop == hops - 1 else "]")
        root_offsets = offsets if hop == 0 else root_offsets
        pairs = [(name, int(number)) for name in topics for number in partitions]
        route = (route * len(topics) + topic_of) * len(partitions) + partition_of
        used, route = _numbered(route, len(routes) * len(pairs))
        routes = [(*routes[number // len(pairs)], pairs[number % len(pairs)]) for number in used]
    return routes, route, root_offsets


def _known(pieces: pa.Array, pattern: re.Pattern[str], prefix: str = "") -> tuple[list[str], np.ndarray]:
    """The different values behind a prefix, and of each piece which it is."""
    values = pieces.dictionary_encode()
    found = [pattern.fullmatch(text.removeprefix(prefix)) for text in values.dictionary.to_pylist()]
    prefixed = (text.startswith(prefix) for text in values.dictionary.to_pylist())
    if not all(found) or not all(prefixed):
        raise OddError("not a chain of entries of three")
    return [match[1] for match in found if match], values.indices.to_numpy().astype(np.int64)


def _offsets(pieces: pa.Array, suffix: str) -> np.ndarray:
    digits = pc.utf8_rtrim(pieces, "]")
    ends = pc.subtract(pc.binary_length(pieces), pc.binary_length(digits))
    if not pc.all(pc.and_(pc.equal(ends, len(suffix)), pc.match_substring_regex(digits, OFFSET))).as_py():
        raise OddError("not a chain of entries of three")
    numbers: np.ndarray = digits.cast(pa.int64()).to_numpy()
    return numbers


def _numbered(numbers: np.ndarray, bound: int) -> tuple[list[int], np.ndarray]:
    """The numbers that occur, of those below a bound, and of each its place among them."""
    if bound > ROUTES_MAX:
        raise OddError("too many routes")
    occurs = np.zeros(bound, bool)
    occurs[numbers] = True
    return np.flatnonzero(occurs).tolist(), (np.cumsum(occurs) - 1)[numbers]


def paths_of(chains: Chains, topic: str, partition: np.ndarray) -> tuple[list[str], np.ndarray]:
    """The guard's paths (see `headrace.log.monotone`), and of each record which is its own."""
    partitions = np.unique(partition)
    number = chains.route * len(partitions) + np.searchsorted(partitions, partition)
    used, number = _numbered(number, len(chains.routes) * len(partitions))
    hops = (
        (*chains.routes[each // len(partitions)], (topic, int(partitions[each % len(partitions)])))
        for each in used
    )
    return [ARROW.join(f"{name}/{number}" for name, number in path) for path in hops], number
