"""Event times of records: the expression that a topic's description names, over their values.

Law: as Spark's functions of these names compute them, cut down to ms. A value that Spark would refuse gives null here.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description.event_time import COALESCE, TO_TIMESTAMP, UNITS, EventTime, Field
from headrace.sequence.parse.scalars import micros_of
from headrace.sequence.parse.text_columns import from_texts

MOMENT = pa.timestamp("us", "UTC")
_LOWEST, _HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def event_times(of: EventTime, values: pa.StructArray) -> pa.Array:
    """The event time of each value in ms since 1970; null where it has none."""
    if isinstance(of, Field):
        found = _field(values, of.path)
        return _floor_ms(found) if pa.types.is_timestamp(found.type) else found.cast(pa.int64())
    if of.function == COALESCE:
        return pc.coalesce(*(event_times(each, values) for each in of.of))
    (argument,) = of.of
    assert isinstance(argument, Field)
    found = _field(values, argument.path)
    return _floor_ms(_moments(found)) if of.function == TO_TIMESTAMP else _scaled(found, UNITS[of.function])


def _field(values: pa.StructArray, path: tuple[str, ...]) -> pa.Array:
    """A field of structs, null where one of the structs is."""
    for name in path:
        values = values.flatten()[values.type.get_field_index(name)]
    return values


def _moments(texts: pa.Array) -> pa.Array:
    """Texts as TIMESTAMP, as in a column of that type."""
    found, others = from_texts(texts, MOMENT)
    if not others.any():
        return found
    rows = np.flatnonzero(others)
    read = [micros_of(text, zoned=True) for text in texts.take(pa.array(rows)).to_pylist()]
    return pc.replace_with_mask(found, pa.array(others), pa.array(read, pa.int64()).cast(MOMENT))


def _scaled(numbers: pa.Array, unit: int) -> pa.Array:
    """Whole numbers as ms; those that no ms can stand for are as far away as can be."""
    there = numbers.is_valid().to_numpy(zero_copy_only=False)
    plain = numbers.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if unit < 0:
        return pa.array(plain // -unit, mask=~there)
    far = np.where(plain > 0, _HIGHEST, _LOWEST)
    fits = (plain <= _HIGHEST // unit) & (plain >= -(_HIGHEST // unit))
    return pa.array(np.where(fits, plain * unit, far) if not fits.all() else plain * unit, mask=~there)


def _floor_ms(times: pa.Array) -> pa.Array:
    there = times.is_valid().to_numpy(zero_copy_only=False)
    micros = times.cast(pa.int64()).fill_null(0).to_numpy()
    return pa.array(micros // 1000, mask=~there)
