"""Texts as dates, times and bytes, a column at a time.

Law: what is taken here `scalars` reads alike; what is not is marked, and `scalars` decides about it. Taken are the forms
that machines write: "2024-05-01", "2024-05-01T12:30:15[.123456][Z|+02:00]" (also with a blank), and base64.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from headrace.sequence.parse.letters import letters_of
from headrace.sequence.parse.scalars import DAY_US, FIRST_US, LAST_US

_DATE_LENGTH, _TIME_LENGTH = 10, 19
_LENGTH_MAX = 40
_TENS = 10 ** np.arange(6)[::-1]
_BASE64 = np.zeros(256, bool)
_BASE64[np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)] = True


def from_texts(texts: pa.Array, of: pa.DataType) -> tuple[pa.Array, np.ndarray]:
    """Texts as values of a type; null where one is null or not taken, and which these latter are."""
    if pa.types.is_binary(of):
        return _bytes(texts)
    there = texts.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_date(of):
        numbers, taken = _dates(texts)
        return pa.array(numbers.astype(np.int32), mask=~taken).cast(of), there & ~taken
    numbers, taken = _times(texts, zoned=of.tz is not None)
    return pa.array(numbers, mask=~taken).cast(of), there & ~taken


def _dates(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    days, taken = np.zeros(len(texts), np.int64), np.zeros(len(texts), bool)
    for rows, letters in _by_length(texts, (_DATE_LENGTH,)):
        days[rows], taken[rows] = _days(letters)
    return days, taken


def _times(texts: pa.Array, *, zoned: bool) -> tuple[np.ndarray, np.ndarray]:
    micros, taken = np.zeros(len(texts), np.int64), np.zeros(len(texts), bool)
    for rows, letters in _by_length(texts, range(_TIME_LENGTH, _LENGTH_MAX)):
        utc = letters[:, -1] == ord("Z")
        offset = np.zeros(len(rows), bool)
        if letters.shape[1] >= _TIME_LENGTH + 6:
            offset = (letters[:, -3] == ord(":")) & np.isin(letters[:, -6], (ord("+"), ord("-")))
        for mine, length in ((utc, 1), (offset, 6), (~(utc | offset), 0)):
            if mine.any() and (zoned or not length):
                micros[rows[mine]], taken[rows[mine]] = _times_of_a_form(letters[mine], length)
    return micros, taken


def _times_of_a_form(letters: np.ndarray, zone_length: int) -> tuple[np.ndarray, np.ndarray]:
    """Times of one length, each with a zone of that many letters at its end."""
    days, good = _days(letters[:, :_DATE_LENGTH])
    good &= np.isin(letters[:, 10], (ord("T"), ord(" "))) & (letters[:, [13, 16]] == ord(":")).all(axis=1)
    parts = []
    for at, highest in ((11, 23), (14, 59), (17, 59)):
        number, digits = _number(letters[:, at : at + 2])
        good = good & digits & (number <= highest)
        parts.append(number)
    seconds = parts[0] * 3600 + parts[1] * 60 + parts[2]
    micros = np.zeros(len(letters), np.int64)
    fraction = letters[:, _TIME_LENGTH : letters.shape[1] - zone_length]
    if fraction.shape[1]:
        good &= fraction[:, 0] == ord(".")
        digits = fraction[:, 1:]
        good &= ((digits >= ord("0")) & (digits <= ord("9"))).all(axis=1)
        kept = digits[:, :6].astype(np.int64) - ord("0")
        micros = kept @ _TENS[: kept.shape[1]]
    if zone_length > 1:
        hours, digits = _number(letters[:, -5:-3])
        minutes, more = _number(letters[:, -2:])
        good &= digits & more & (minutes <= 59) & (hours * 60 + minutes <= 18 * 60)
        seconds -= np.where(letters[:, -6] == ord("-"), -1, 1) * (hours * 3600 + minutes * 60)
    micros += days * DAY_US + seconds * 1_000_000
    in_years: np.ndarray = good & (micros >= FIRST_US) & (micros <= LAST_US)
    return micros, in_years


def _days(letters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Days since 1970 of dates of ten letters, and which are dates."""
    (year, good), (month, more), (day, most) = (
        _number(letters[:, begin:end]) for begin, end in ((0, 4), (5, 7), (8, 10))
    )
    good &= more & most & (letters[:, [4, 7]] == ord("-")).all(axis=1)
    good &= (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)
    months = np.where(good, (year - 1970) * 12 + month - 1, 0).astype("datetime64[M]")
    first = months.astype("datetime64[D]").astype(np.int64)
    following = (months + 1).astype("datetime64[D]").astype(np.int64)
    good &= day <= following - first
    return first + day - 1, good


def _number(letters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    digits = letters.astype(np.int64) - ord("0")
    return digits @ _TENS[-digits.shape[1] :], np.all((digits >= 0) & (digits <= 9), axis=1)


def _by_length(texts: pa.Array, lengths: range | tuple[int, ...]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Texts of each of these lengths in bytes: which they are, and their bytes, one text in a row."""
    ends, data = letters_of(texts)
    sizes = np.where(texts.is_valid().to_numpy(zero_copy_only=False), np.diff(ends), -1)
    for length in np.unique(sizes).tolist():
        if length in lengths:
            rows = np.flatnonzero(sizes == length)
            yield rows, data[ends[:-1][rows][:, None] + np.arange(length)]


def _bytes(texts: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Base64 decoded: all texts as one, as each is a whole number of groups of four letters; then without the padding."""
    there = texts.is_valid().to_numpy(zero_copy_only=False)
    ends, data = letters_of(texts)
    sizes = np.diff(ends)
    taken = there & (sizes % 4 == 0)
    last = np.where(taken & (sizes > 0), ends[1:] - 1, 0)
    padded = np.zeros(len(texts), np.int64)
    if len(data):
        one = taken & (sizes > 0) & (data[last] == ord("="))
        two = one & (data[np.maximum(last - 1, 0)] == ord("="))
        padded = one.astype(np.int64) + two
    # Each byte that is no letter of base64 is counted with the text in which it stands.
    strange = np.concatenate([[0], np.cumsum(~_BASE64[data])])
    taken &= strange[ends[1:]] - strange[ends[:-1]] == padded
    sizes = np.where(taken, sizes, 0)
    whole = np.repeat(taken, np.diff(ends))
    letters = data[whole]
    unpadded = np.where(letters == ord("="), ord("A"), letters).astype(np.uint8)
    decoded = np.frombuffer(binascii.a2b_base64(unpadded.tobytes()), np.uint8)
    full = sizes // 4 * 3
    drop = np.zeros(len(decoded), bool)
    stops = np.cumsum(full)
    drop[stops[padded * taken >= 1] - 1] = True
    drop[stops[padded * taken == 2] - 2] = True
    starts = np.concatenate([[0], np.cumsum(full - padded * taken)]).astype(np.int32)
    found = pa.Array.from_buffers(
        pa.binary(),
        len(texts),
        [None, pa.py_buffer(starts.tobytes()), pa.py_buffer(decoded[~drop].tobytes())],
    )
    return _masked(found, taken), there & ~taken


def _masked(values: pa.Array, there: np.ndarray) -> pa.Array:
    return values if there.all() else values.take(pa.array(np.arange(len(values)), mask=~there))
