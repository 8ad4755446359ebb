"""Read plain source chains: short ones, without blanks but beside commas (see `headrace.log.chain`)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.log.chain import ARROW, NO_ORDINAL
from headrace.log.plain.decode import OddError, read_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NAME = re.compile(r'"([A-Za-z0-9._-]{1,249})"')
PARTITION = re.compile(r"(0|[1-9][0-9]{0,8})")
OFFSET, ORDINAL = "^(0|[1-9][0-9]{0,17})$", "^(0|[1-9][0-9]{0,8})$"
PIECES = (3, 4)  # of an entry: topic, partition, offset; and an ordinal, if it has one
PIECES_MAX = 60  # of a chain: which of them begin an entry is one number
ROUTES_MAX = 1 << 22
NOT_PLAIN = "not a plain chain"

Hop = tuple[str, int]


@dataclass(frozen=True)
class Chains:
    """The chains of some records, each with the number of the hops that it took.

    routes    the different sequences of hops, without the record's own; () of a record that is its own root
    route     of each record, an index of `routes`
    offsets   of each record the root's offset; of one that is its own root, -1
    ordinals  of each record one for each hop, in a row; `NO_ORDINAL` where there is none, and behind the last hop
    """

    routes: Sequence[tuple[Hop, ...]]
    route: np.ndarray
    offsets: np.ndarray
    ordinals: np.ndarray


def read_chains(headers: pa.ListArray, name: str) -> Chains:
    """The chains in the last header of this name of each record.

    In:     headers  as Kafka's, ARRAY<STRUCT<key, value>>
    Raises: OddError when one is not plain
    """
    rows = len(headers)
    route, offsets = np.zeros(rows, np.int64), np.full(rows, -1, np.int64)
    ordinals = np.full((rows, 0), NO_ORDINAL, np.int32)
    routes: dict[tuple[Hop, ...], int] = {(): 0}  # chains of several shapes may have taken one route
    entries = headers.flatten()
    named = pc.equal(entries.field("key"), name).fill_null(False)
    matching = np.flatnonzero(named.to_numpy(zero_copy_only=False))
    if len(matching):
        at = pc.list_parent_indices(headers).to_numpy()[matching]
        last = np.append(at[1:] != at[:-1], True)
        at, matching = at[last], matching[last]
        texts, _ = read_texts(entries.field("value").take(pa.array(matching)))
        if texts.null_count:
            raise OddError("a chain that is no text")
        for mine, pieces, starts in _by_shape(texts):
            found, number, offset, its_ordinals = _of_one_shape(pieces, starts)
            more = its_ordinals.shape[1] - ordinals.shape[1]
            if more > 0:
                ordinals = np.pad(ordinals, ((0, 0), (0, more)), constant_values=NO_ORDINAL)
            numbers = np.array([routes.setdefault(each, len(routes)) for each in found])
            route[at[mine]], offsets[at[mine]] = numbers[number], offset
            ordinals[at[mine], : its_ordinals.shape[1]] = its_ordinals
    return Chains([*routes], route, offsets, ordinals)


def _by_shape(texts: pa.Array) -> Iterator[tuple[np.ndarray, pa.Array, list[int]]]:
    """Chains cut at their commas, those with entries of the same lengths together.

    Out: which they are, their pieces, and which of the pieces begin an entry, with the number of all behind
    """
    cut = pc.split_pattern(texts, ",")
    blanks = pc.any(pc.match_substring(texts, " ")).as_py()  # behind commas, as Python's `json` writes them
    sizes = pc.list_value_length(cut).to_numpy()
    for size in np.unique(sizes).tolist():
        if size > PIECES_MAX:
            raise OddError("a long chain")
        of_size = np.flatnonzero(sizes == size)
        pieces = cut.take(pa.array(of_size)).flatten()
        pieces = pc.ascii_trim(pieces, " ") if blanks else pieces
        begin = pc.match_substring(pieces, '"').to_numpy(zero_copy_only=False).reshape(-1, size)
        shapes = begin @ (1 << np.arange(size))
        for shape in np.unique(shapes).tolist():
            starts = [place for place in range(size) if shape >> place & 1]
            mine = np.flatnonzero(shapes == shape)
            its_pieces = pieces
            if len(mine) < len(of_size):
                its_pieces = pieces.take(pa.array((mine[:, None] * size + np.arange(size)).ravel()))
            yield of_size[mine], its_pieces, [*starts, size]


def _of_one_shape(
    pieces: pa.Array, starts: Sequence[int]
) -> tuple[list[tuple[Hop, ...]], np.ndarray, np.ndarray, np.ndarray]:
    """The routes of chains of one shape; of each chain its route, its root's offset, and its ordinals."""
    *begins, size = starts
    if not begins or begins[0] or any(end - begin not in PIECES for begin, end in pairwise(starts)):
        raise OddError(NOT_PLAIN)
    chains = len(pieces) // size
    routes: list[tuple[Hop, ...]] = [()]
    route = root_offsets = np.zeros(chains, np.int64)
    ordinals = np.full((chains, len(begins)), NO_ORDINAL, np.int32)
    for hop, (begin, end) in enumerate(pairwise(starts)):
        topic, partition, *numbers = (
            pieces.take(pa.array(np.arange(place, len(pieces), size))) for place in range(begin, end)
        )
        topics, topic_of = _known(topic, NAME, "[[" if hop == 0 else "[")
        partitions, partition_of = _known(partition, PARTITION)
        brackets = "]]" if end == size else "]"
        offsets = _numbers(numbers[0], OFFSET, brackets if len(numbers) == 1 else "")
        if len(numbers) > 1:
            ordinals[:, hop] = _numbers(numbers[1], ORDINAL, brackets)
        root_offsets = offsets if hop == 0 else root_offsets
        pairs = [(name, int(number)) for name in topics for number in partitions]
        route = (route * len(topics) + topic_of) * len(partitions) + partition_of
        used, route = _numbered(route, len(routes) * len(pairs))
        routes = [(*routes[number // len(pairs)], pairs[number % len(pairs)]) for number in used]
    return routes, route, root_offsets, ordinals


def _known(pieces: pa.Array, pattern: re.Pattern[str], prefix: str = "") -> tuple[list[str], np.ndarray]:
    """The different values behind a prefix, and of each piece which it is."""
    values = pieces.dictionary_encode()
    found = [pattern.fullmatch(text.removeprefix(prefix)) for text in values.dictionary.to_pylist()]
    prefixed = (text.startswith(prefix) for text in values.dictionary.to_pylist())
    if not all(found) or not all(prefixed):
        raise OddError(NOT_PLAIN)
    return [match[1] for match in found if match], values.indices.to_numpy().astype(np.int64)


def _numbers(pieces: pa.Array, pattern: str, suffix: str) -> np.ndarray:
    """The numbers before a suffix."""
    digits = pc.utf8_rtrim(pieces, "]")
    ends = pc.subtract(pc.binary_length(pieces), pc.binary_length(digits))
    if not pc.all(pc.and_(pc.equal(ends, len(suffix)), pc.match_substring_regex(digits, pattern))).as_py():
        raise OddError(NOT_PLAIN)
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
