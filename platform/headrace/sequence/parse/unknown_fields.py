"""The fields of JSON objects that no column has, as JSON.

Most objects have none: a pattern finds those at once (see `likely`), and only the others are parsed once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.sequence.parse.json_values import as_text
from headrace.sequence.parse.likely import likely_patterns
from headrace.sequence.parse.strict_json import parse


class UnknownFields:
    """Finds them in objects with some known fields."""

    def __init__(self, known: Sequence[pa.Field], path: Sequence[str]) -> None:
        """In: path  of names that leads from the whole to the object."""
        self._known, self._path = {field.name for field in known}, path
        self._pattern = None if path else next(iter(likely_patterns(known)), None)

    def read(self, raw: pa.Array, well_formed: np.ndarray) -> pa.StringArray:
        """The unknown fields of each object as a JSON object; null: it has none.

        In: raw          BINARY
            well_formed  which are objects that fit their columns
        """
        rows = np.flatnonzero(well_formed)
        texts = raw.take(pa.array(rows)).cast(pa.string())
        if self._pattern is not None:
            none = pc.match_substring_regex(texts, self._pattern).to_numpy(zero_copy_only=False)
            rows, texts = rows[~none], texts.filter(pa.array(~none))
        found = pa.array([self._unknown(text) for text in texts.to_pylist()], pa.string())
        place = np.full(len(raw), -1, np.int64)
        place[rows] = np.arange(len(rows))
        return found.take(pa.array(place, mask=place < 0))

    def _unknown(self, text: str) -> str | None:
        found: Any = parse(text)
        for name in self._path:
            found = found[name]
        more = {name: value for name, value in found.items() if name not in self._known}
        return as_text(more) if more else None
