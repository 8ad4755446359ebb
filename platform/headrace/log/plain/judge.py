"""The monotone guard on plain records (the law: `headrace.log.monotone`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.log.chain import ARROW, NO_ORDINAL
from headrace.log.plain.chain import paths_of, read_chains

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.log.plain.chain import Chains


class Judge:
    """Judges the records that come to one task. A plain chain has no ordinals: positions compare by their root offsets."""

    def __init__(self, topic: str, header: str, highest: Mapping[str, int]) -> None:
        """In: header  of chains; highest  of each path the highest root offset that the guard has seen."""
        self._topic, self._header, self._before = topic, header, highest
        self._highest: dict[str, int] = {}

    def judge(
        self, headers: pa.ListArray, partition: np.ndarray, offset: np.ndarray, dead: np.ndarray
    ) -> tuple[dict[str, pa.Array], np.ndarray]:
        """The chain's columns, null in dead letters; and which records are replays.

        Raises: OddError when a chain is not plain
        """
        alive = np.flatnonzero(~dead)
        if len(alive) < len(dead):
            headers, partition, offset = headers.take(pa.array(alive)), partition[alive], offset[alive]
        chains = read_chains(headers, self._header)
        root_offset = np.where(chains.route == 0, offset, chains.offsets)
        paths, path = paths_of(chains, self._topic, partition)
        columns = self._columns(chains, partition) | {
            "root_offset": pa.array(root_offset),
            "path": repeating(paths, path),
        }
        replay = np.zeros(len(dead), bool)
        replay[alive] = self._replays(paths, path, root_offset)
        if len(alive) < len(dead):
            place = pa.array(np.cumsum(~dead) - 1, mask=dead)
            columns = {name: column.take(place) for name, column in columns.items()}
        return columns, replay

    def seen(self) -> list[tuple[str, int, list[int]]]:
        """The highest position on each path that came: path, root offset, ordinals."""
        return [(path, at, [NO_ORDINAL] * path.count(ARROW)) for path, at in self._highest.items()]

    def _columns(self, chains: Chains, partition: np.ndarray) -> dict[str, pa.Array]:
        own = (self._topic, 0)
        roots = [route[0] if route else own for route in chains.routes]
        names = sorted({name for name, _ in roots})
        root = np.array([names.index(name) for name, _ in roots])[chains.route]
        root_partition = np.array([number for _, number in roots])[chains.route]
        hops = np.array([len(route) for route in chains.routes])[chains.route]
        starts = np.concatenate([[0], np.cumsum(hops)])
        return {
            "root_topic": repeating(names, root),
            "root_partition": pa.array(np.where(chains.route == 0, partition, root_partition)),
            "ordinals": pa.ListArray.from_arrays(
                pa.array(starts, pa.int32()), pa.array(np.full(starts[-1], NO_ORDINAL, np.int32))
            ),
        }

    def _replays(self, paths: Sequence[str], path: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Which positions lie not beyond the highest before them on their path."""
        replay = np.zeros(len(path), bool)
        order, begin = np.argsort(path, kind="stable"), 0
        for name, size in zip(paths, np.bincount(path, minlength=len(paths)), strict=True):
            mine = order[begin : begin + size]
            begin += size
            before = self._highest.get(name, self._before.get(name, -1))
            reached = np.maximum.accumulate(np.concatenate([[before], at[mine]]))
            replay[mine] = at[mine] <= reached[:-1]
            self._highest[name] = int(reached[-1])
        return replay


def repeating(texts: Sequence[str], which: np.ndarray) -> pa.DictionaryArray:
    """Text that repeats: which of a few each row has."""
    return pa.DictionaryArray.from_arrays(pa.array(which, pa.int32()), pa.array(texts, pa.string()))
