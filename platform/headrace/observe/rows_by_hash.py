"""Where the rows of one data file are, by the hashes of some columns: a row is read without the rest of its file.

Law: files never change, so what is known of one is true for good. Keys may share a hash: the caller compares them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.engine.state_parquet import open_parquet
from headrace.fold.contract import KEY
from headrace.fold.hashing import xxh64
from headrace.fold.keys import key_of_row


@dataclass(frozen=True)
class HashesOfFile:
    """The hashes of a file.

    hashes  of its rows, sorted
    places  the row of each hash
    ends    for each group of rows, how many rows the file has through it
    """

    parquet: pq.FileMetaData
    hashes: np.ndarray
    places: np.ndarray
    ends: np.ndarray

    @classmethod
    def read(cls, uri: str, size: int, columns: Sequence[str] | None) -> HashesOfFile:
        """Read a file of so many bytes. In: columns  that are hashed; None: KEY has their bytes already."""
        with open_parquet(uri, size, None) as file:
            groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
            if columns is None:
                hashes = xxh64(file.read([KEY])[KEY].cast(pa.binary()).combine_chunks())
            else:
                _, hashes = key_of_row(file.read([*columns]), columns)
            order = np.argsort(hashes, kind="stable")
            return cls(file.metadata, hashes[order], order.astype(np.int32), np.cumsum(groups))

    @property
    def bytes(self) -> int:
        """About what it takes in memory."""
        return int(self.hashes.nbytes + self.places.nbytes)

    def rows(self, uri: str, size: int, sought: int) -> pa.Table | None:
        """Read the rows of a hash, in the order of the file; None: it has none.

        Rows are cut out as slices: files that a merge wrote have views of texts and bytes, which Arrow cannot take by place.
        """
        first, last = (int(np.searchsorted(self.hashes, sought, side)) for side in ("left", "right"))
        if first == last:
            return None
        places = np.sort(self.places[first:last])
        groups = np.searchsorted(self.ends, places, "right")
        begins = np.concatenate([[0], self.ends[:-1]])
        with open_parquet(uri, size, self.parquet) as file:
            parts = [
                rows.slice(first, count)
                for group in np.unique(groups).tolist()
                for rows in [file.read_row_group(group)]
                for first, count in _runs(places[groups == group] - begins[group])
            ]
        return pa.concat_tables(parts)


def _runs(places: np.ndarray) -> Iterator[tuple[int, int]]:
    """The runs of places that follow one another, each by its first place and its length."""
    firsts = np.concatenate([[0], np.flatnonzero(np.diff(places) != 1) + 1])
    counts = np.diff([*firsts, len(places)])
    return zip(places[firsts].tolist(), counts.tolist(), strict=True)
