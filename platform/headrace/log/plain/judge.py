"""The monotone guard on plain records (the law: `headrace.log.monotone`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.log.chain import ARROW, NO_ORDINAL
from headrace.log.monotone import Position
from headrace.log.plain.chain import paths_of, read_chains

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.log.plain.chain import Chains


NOWHERE: Position = (-1, ())  # before all positions


class Judge:
    """Judges the records that come to one task."""

    def __init__(self, topic: str, header: str, highest: Mapping[str, Position]) -> None:
        """In: header  of chains; highest  of each path the highest position that the guard has seen."""
        self._topic, self._header, self._before = topic, header, highest
        self._highest: dict[str, Position] = {}

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
        replay[alive] = self._replays(paths, path, root_offset, chains.ordinals)
        if len(alive) < len(dead):
            place = pa.array(np.cumsum(~dead) - 1, mask=dead)
            columns = {name: column.take(place) for name, column in columns.items()}
        return columns, replay

    def seen(self) -> list[tuple[str, int, tuple[int, ...]]]:
        """The highest position on each path that came: path, root offset, ordinals."""
        return [(path, *at) for path, at in self._highest.items()]

    def _columns(self, chains: Chains, partition: np.ndarray) -> dict[str, pa.Array]:
        own = (self._topic, 0)
        roots = [route[0] if route else own for route in chains.routes]
        names = sorted({name for name, _ in roots})
        root = np.array([names.index(name) for name, _ in roots])[chains.route]
        root_partition = np.array([number for _, number in roots])[chains.route]
        hops = np.array([len(route) for route in chains.routes])[chains.route]
        starts = np.concatenate([[0], np.cumsum(hops)])
        there = np.arange(chains.ordinals.shape[1]) < hops[:, None]
        return {
            "root_topic": repeating(names, root),
            "root_partition": pa.array(np.where(chains.route == 0, partition, root_partition)),
            "ordinals": pa.ListArray.from_arrays(
                pa.array(starts, pa.int32()), pa.array(chains.ordinals[there])
            ),
        }

    def _replays(
        self, paths: Sequence[str], path: np.ndarray, root_offset: np.ndarray, ordinals: np.ndarray
    ) -> np.ndarray:
        """Which positions lie not beyond the highest before them on their path."""
        replay = np.zeros(len(path), bool)
        order, begin = np.argsort(path, kind="stable"), 0
        for name, size in zip(paths, np.bincount(path, minlength=len(paths)), strict=True):
            mine = order[begin : begin + size]
            begin += size
            before = self._highest.get(name, self._before.get(name, NOWHERE))
            at = np.column_stack([root_offset[mine], ordinals[mine, : name.count(ARROW)]])
            replay[mine], self._highest[name] = _judged(at, before)
        return replay


def _judged(at: np.ndarray, before: Position) -> tuple[np.ndarray, Position]:
    """Which positions of a path, one in a row, are replays; and the highest afterwards."""
    if (at[:, 1:] == NO_ORDINAL).all():
        # Whatever ordinals the highest has, a position with its root offset and none lies not beyond it.
        ranks = np.concatenate([[before[0]], at[:, 0]])
    else:
        known = [before[0], *(before[1] or [NO_ORDINAL] * (at.shape[1] - 1))]
        # Sorted by root offset, then by ordinals: their numbers compare as the positions do.
        _, ranks = np.unique(np.vstack([known, at]), axis=0, return_inverse=True)
        ranks = ranks.ravel()
    reached = np.maximum.accumulate(ranks)
    last = int(np.argmax(ranks))
    highest = before if last == 0 else (int(at[last - 1, 0]), tuple(at[last - 1, 1:].tolist()))
    return ranks[1:] <= reached[:-1], highest


def repeating(texts: Sequence[str], which: np.ndarray) -> pa.DictionaryArray:
    """Text that repeats: which of a few each row has."""
    return pa.DictionaryArray.from_arrays(pa.array(which, pa.int32()), pa.array(texts, pa.string()))
