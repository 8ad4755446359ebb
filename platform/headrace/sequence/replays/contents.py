"""The bytes of records, as far as a guard compares them: digests of the source chain, and of key and value.

Law: a function of the bytes; blanks in a chain do not count. A chain may stand in the value, so only records of one chain
are compared: a record that came again by another way has another chain, and is a replay.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

UNKNOWN = (-1, -1)  # the digests of a record whose bytes nobody has any more
_BLANKS = re.compile(rb"[ \t\r\n]")
DIGEST_BYTES = 7  # so that it is an INT64 that is not negative

Digests = tuple[int, int]
"""Of the chain, and of key and value."""


@dataclass(frozen=True)
class Contents:
    """The bytes of some records; without them, as of a log that has decoded them, all digests are UNKNOWN."""

    chain: pa.Array | None = None
    key: pa.Array | None = None
    value: pa.Array | None = None

    @classmethod
    def of(cls, records: pa.Table, at: np.ndarray, texts: pa.Array) -> Contents:
        """The bytes of records with `key` and `value`. In: at  those with a chain, and `texts`: each as it stands there."""
        place = np.full(records.num_rows, -1, np.int64)
        place[at] = np.arange(len(at))
        chain = texts.take(pa.array(place, mask=place < 0))
        return cls(chain, records["key"].chunk(0), records["value"].chunk(0))

    def digests(self, rows: np.ndarray) -> np.ndarray:
        """The digests of some records: one row for each."""
        if self.chain is None or self.key is None or self.value is None:
            return np.full((len(rows), 2), UNKNOWN, np.int64)
        place = pa.array(rows)
        chain, key, value = (each.take(place).to_pylist() for each in (self.chain, self.key, self.value))
        pairs = [
            (_digest(of and _BLANKS.sub(b"", of)), _digest(*both))
            for of, *both in zip(chain, key, value, strict=True)
        ]
        return np.array(pairs, np.int64).reshape(-1, 2)


def differ(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Which records have one chain and other bytes."""
    known = (one[:, 0] >= 0) & (other[:, 0] >= 0)
    found: np.ndarray = known & (one[:, 0] == other[:, 0]) & (one[:, 1] != other[:, 1])
    return found


def _digest(*parts: bytes | None) -> int:
    hashed = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        hashed.update(b"\0" if part is None else b"\1" + len(part).to_bytes(8, "big") + part)
    return int.from_bytes(hashed.digest(), "big")
