"""JSON objects, many at a time: Arrow reads them in columns; the odd ones are found and go through `strict_json`.

Law: for each text what `strict_json` makes of it, whatever stands beside it. Arrow's reader differs in these ways, and each
is caught:
  it takes NaN, Inf and Infinity        texts in which one may stand are not given to it
  it nests without bound                nor are texts with many brackets
  it takes several objects in a row     there are then more rows than texts; it never makes less of a text than a row
  its decimals may have too many digits rows with such are read again
  it reads dates and bytes as texts     `typed` makes values of them, or has their rows read again
  its decimals may overflow             `types.read_as` gives them room
  it reads no MAP                       `map_texts` writes them as lists
It refuses more than RFC 8259 does (a name that occurs twice, numbers beyond a DOUBLE, decimals to be rounded): then,
too, the rows are read again. So only what it takes must be right.

How odd rows are found: Arrow refuses a chunk as a whole, and often names the row. The rows before it are read once more,
that row alone, and the rest goes on. If no row is named, the chunk is halved. Before that, a pattern sorts out what is
probably odd, so that few chunks are refused a second time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.sequence.parse.arrow_json import ArrowJson, Refused
from headrace.sequence.parse.likely import likely_patterns
from headrace.sequence.parse.map_texts import MapTexts
from headrace.sequence.parse.strict_json import NESTING_MAX, Malformed, StrictReader
from headrace.sequence.parse.typed import typed
from headrace.sequence.parse.types import has_maps, has_maps_by_others

FEW = 48  # rows that are read one by one sooner than by one more call of Arrow's reader
MAPS_BYTES_MAX = 8 << 20  # of texts whose maps are rewritten: that needs memory many times as large
MOST = 0.9  # of the rows that a pattern has to match to be of use
_NOT_FINITE = r"[:\[,][ \t\r\n]*-?(?:NaN|Inf)"


@dataclass(frozen=True)
class Objects:
    """The values that were read, one row per text.

    structs    null where a text is malformed
    malformed  why, by row
    """

    structs: pa.StructArray
    malformed: Mapping[int, Malformed]


@dataclass
class _ColumnRows:
    """Rows read in columns, part by part, and rows that are left to be read one by one."""

    rows: list[np.ndarray] = field(default_factory=list)
    parts: list[pa.StructArray] = field(default_factory=list)
    odd: list[np.ndarray] = field(default_factory=list)


class ObjectReader:
    """Reads JSON objects with these fields."""

    def __init__(self, fields: Sequence[pa.Field]) -> None:
        self._strict = StrictReader(fields)
        self._type = pa.struct(list(fields))
        self._arrow = None if has_maps_by_others(self._type) else ArrowJson(self._type)
        self._maps = MapTexts(self._type) if has_maps(self._type) else None
        self._likely = [] if self._arrow is None else likely_patterns(self._arrow.fields)

    def read(self, texts: pa.StringArray) -> Objects:
        """Read texts, of which each begins with "{" and ends with "}", white space aside; none is null."""
        found, rows = _ColumnRows(), np.arange(len(texts))
        if self._arrow is None:
            found.odd.append(rows)
        else:
            suspect, plain = _suspects(texts), texts
            if self._maps is not None and _size(texts) <= MAPS_BYTES_MAX:
                plain, odd = self._maps.rewritten(texts)
                suspect |= odd
            elif self._maps is not None:
                suspect[:] = True
            if suspect.any():
                found.odd.append(rows[suspect])
                rows, plain = rows[~suspect], plain.filter(pa.array(~suspect))
            self._read(plain, rows, found)
        if not found.odd:
            return Objects(_one(found.parts, self._type), {})
        return self._with_odd(texts, found)

    def _with_odd(self, texts: pa.StringArray, columns: _ColumnRows) -> Objects:
        odd, malformed = np.concatenate(columns.odd), dict[int, Malformed]()
        values: list[Mapping[str, Any] | None] = []
        for row, text in zip(odd.tolist(), texts.take(pa.array(odd)).to_pylist(), strict=True):
            try:
                values.append(self._strict.read(text))
            except Malformed as why:
                values.append(None)
                malformed[row] = why
        parts = [*columns.parts, pa.array(values, self._type)]
        place = np.empty(len(texts), np.int64)
        place[np.concatenate([*columns.rows, odd])] = np.arange(len(texts))
        return Objects(_one(parts, self._type).take(pa.array(place)), malformed)

    def _read(self, texts: pa.StringArray, rows: np.ndarray, columns: _ColumnRows) -> None:
        part, _ = self._in_columns(texts, rows, columns)
        if part:
            return
        likely = np.ones(len(texts), bool)
        for pattern in self._likely:
            likely = _matching(texts, pattern)
            if likely.mean() >= MOST:
                break
        for mine in (likely, ~likely):
            self._around_odd(texts.filter(pa.array(mine)), rows[mine], columns)

    def _around_odd(self, texts: pa.StringArray, rows: np.ndarray, columns: _ColumnRows) -> None:
        waiting = [(0, len(rows))]
        while waiting:
            begin, end = waiting.pop()
            if begin == end:
                continue
            if end - begin <= FEW:
                columns.odd.append(rows[begin:end])
                continue
            taken, at = self._in_columns(texts[begin:end], rows[begin:end], columns)
            if taken:
                continue
            if at is None:
                middle = (begin + end) // 2
                waiting += [(middle, end), (begin, middle)]
            elif at < FEW:
                columns.odd.append(rows[begin : begin + FEW])
                waiting.append((begin + FEW, end))
            else:
                columns.odd.append(rows[begin + at : begin + at + 1])
                waiting += [(begin + at + 1, end), (begin, begin + at)]

    def _in_columns(
        self, texts: pa.StringArray, rows: np.ndarray, columns: _ColumnRows
    ) -> tuple[bool, int | None]:
        """Whether Arrow takes these texts; if not, the first that it does not take, if that is known."""
        if not len(texts):
            return True, None
        assert self._arrow is not None
        read = self._arrow.read(texts)
        if isinstance(read, Refused):
            return False, read.at
        structs, odd = typed(read, self._type)
        if len(odd):
            columns.odd.append(rows[odd])
            keep = np.ones(len(rows), bool)
            keep[odd] = False
            structs, rows = structs.filter(pa.array(keep)), rows[keep]
        columns.parts.append(structs)
        columns.rows.append(rows)
        return True, None


def _size(texts: pa.StringArray) -> int:
    return int(pc.sum(pc.binary_length(texts)).as_py() or 0)


def _suspects(texts: pa.StringArray) -> np.ndarray:
    """Texts that Arrow may take, and RFC 8259 does not."""
    suspect = np.zeros(len(texts), bool)
    _, ends, data = texts.buffers()
    content = b""
    if data is not None and len(texts):
        begin, end = np.frombuffer(ends, np.int32)[[texts.offset, texts.offset + len(texts)]].tolist()
        content = data.slice(begin, end - begin).to_pybytes()
    if b"NaN" in content or b"Inf" in content:
        suspect |= _matching(texts, _NOT_FINITE)
    sizes = pc.binary_length(texts)
    if (pc.max(sizes).as_py() or 0) > NESTING_MAX:
        long = pc.greater(sizes, NESTING_MAX).to_numpy(zero_copy_only=False)
        of_long = texts.filter(pa.array(long))
        brackets = pc.add(pc.count_substring(of_long, "["), pc.count_substring(of_long, "{"))
        suspect[long] |= pc.greater(brackets, NESTING_MAX).to_numpy(zero_copy_only=False)
    return suspect


def _matching(texts: pa.StringArray, pattern: str) -> np.ndarray:
    found: np.ndarray = pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False)
    return found


def _one(parts: list[pa.StructArray], of: pa.DataType) -> pa.StructArray:
    return parts[0] if len(parts) == 1 else pa.concat_arrays([*parts, pa.array([], of)])
