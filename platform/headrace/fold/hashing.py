"""The hash of keys: XXH64 with seed 42 over the key's canonical bytes, as a signed 64-bit integer.

Law: the hash of the same bytes is the same for ever, for it stands in every state row on disk.

Source: the XXH64 specification (xxHash/doc/xxhash_spec.md). Spark's SQL function `xxhash64` computes the same number of
a BINARY column, so a hash can be checked with Spark alone.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

SEED = 42
P1, P2, P3, P4, P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
STRIPE = 32  # bytes that the four lanes take at once


def xxh64(values: pa.Array, seed: int = SEED) -> np.ndarray:
    """The hash of each value.

    In:  values  BINARY without nulls
    Out: int64, one for each value
    """
    rows = len(values)
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + rows + 1]
    starts, ends = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    found = np.empty(rows, np.uint64)
    if rows:
        data = values.buffers()[2]
        content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
        # Words may be read past the end.
        content = np.concatenate([content[: ends[-1]], np.zeros(8, np.uint8)])
        with np.errstate(over="ignore"):
            _hash(content, starts, ends, np.uint64(seed), found)
    return found.view(np.int64)


def _hash(
    content: np.ndarray, starts: np.ndarray, ends: np.ndarray, seed: np.uint64, hashes: np.ndarray
) -> None:
    lengths = ends - starts
    hashes[:] = seed + P5
    at = starts.copy()
    if (lengths >= STRIPE).any():
        rows = np.flatnonzero(lengths >= STRIPE)
        hashes[rows] = _stripes(content, at, lengths // STRIPE, rows, seed)
    hashes += lengths.astype(np.uint64)
    rest = np.arange(len(at))
    for width, step in ((8, _word), (4, _half), (1, _byte)):
        while len(rest := rest[ends[rest] - at[rest] >= width]):
            hashes[rest] = step(hashes[rest], _read(content, at[rest], width))
            at[rest] += width
        rest = np.flatnonzero(ends > at)
    hashes ^= hashes >> np.uint64(33)
    hashes *= P2
    hashes ^= hashes >> np.uint64(29)
    hashes *= P3
    hashes ^= hashes >> np.uint64(32)


def _stripes(
    content: np.ndarray, at: np.ndarray, stripes: np.ndarray, rows: np.ndarray, seed: np.uint64
) -> np.ndarray:
    """The lanes of rows that are long enough, merged; `at` moves on behind their stripes."""
    lanes = [np.full(len(at), start) for start in (seed + P1 + P2, seed + P2, seed, seed - P1)]
    running, done = rows, 0
    while len(running := running[stripes[running] > done]):
        for number, lane in enumerate(lanes):
            lane[running] = _round(lane[running], _read(content, at[running] + 8 * number, 8))
        at[running] += STRIPE
        done += 1
    one, two, three, four = (lane[rows] for lane in lanes)
    merged: np.ndarray = _rotate(one, 1) + _rotate(two, 7) + _rotate(three, 12) + _rotate(four, 18)
    for lane in (one, two, three, four):
        merged = (merged ^ _round(np.zeros(len(rows), np.uint64), lane)) * P1 + P4
    return merged


def _read(content: np.ndarray, at: np.ndarray, width: int) -> np.ndarray:
    """Little-endian numbers of so many bytes, wherever they begin."""
    anywhere = np.ndarray(len(content) - width + 1, f"<u{width}", content, strides=(1,))
    number: np.ndarray = anywhere[at].astype(np.uint64)
    return number


def _rotate(number: np.ndarray, bits: int) -> np.ndarray:
    turned: np.ndarray = (number << np.uint64(bits)) | (number >> np.uint64(64 - bits))
    return turned


def _round(lane: np.ndarray, word: np.ndarray) -> np.ndarray:
    turned: np.ndarray = _rotate(lane + word * P2, 31) * P1
    return turned


def _word(hashes: np.ndarray, word: np.ndarray) -> np.ndarray:
    mixed = hashes ^ _round(np.zeros(len(word), np.uint64), word)
    mixed = _rotate(mixed, 27) * P1 + P4
    return mixed


def _half(hashes: np.ndarray, word: np.ndarray) -> np.ndarray:
    mixed: np.ndarray = _rotate(hashes ^ (word * P1), 23) * P2 + P3
    return mixed


def _byte(hashes: np.ndarray, word: np.ndarray) -> np.ndarray:
    mixed: np.ndarray = _rotate(hashes ^ (word * P5), 11) * P1
    return mixed
