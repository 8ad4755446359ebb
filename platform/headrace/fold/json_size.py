"""How long rows are as JSON, as Spark's `to_json` writes them: fields that are null are left out."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.json_text import json_values


def json_size(columns: Mapping[str, pa.Array]) -> np.ndarray:
    """The bytes of one JSON object for each row. In: columns  of one length, at least one."""
    rows = len(next(iter(columns.values())))
    size, fields = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    for name, values in columns.items():
        there = values.is_valid().to_numpy(zero_copy_only=False)
        length = (
            pc.binary_length(json_values(values).cast(pa.string()))
            .fill_null(0)
            .to_numpy(zero_copy_only=False)
        )
        label = len(json.dumps(name, ensure_ascii=False).encode()) + 1
        size += np.where(there, length.astype(np.int64) + label, 0)
        fields += there
    found: np.ndarray = size + np.maximum(fields - 1, 0) + 2
    return found
