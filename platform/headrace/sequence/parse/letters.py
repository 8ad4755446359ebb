"""The bytes of texts, all in one array, to be looked at together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def letters_of(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Where each text begins and the last one ends, counted from the first; and the bytes from there on.

    In: texts  STRING or BINARY; a null has no bytes
    """
    _, ends, data = texts.buffers()
    if ends is None or not len(texts):
        return np.zeros(len(texts) + 1, np.int64), np.zeros(0, np.uint8)
    offsets = np.frombuffer(ends, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    letters = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return offsets - offsets[0], letters[offsets[0] : offsets[-1]]
