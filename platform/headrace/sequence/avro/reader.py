"""Keys or values of a topic that are Avro, many at a time.

Law: each record is decoded with the schema that its bytes name, and with no other; see `headrace.sequence.avro`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.sequence.avro.plans import Plan, plan_of
from headrace.sequence.encodings import AvroBytes
from headrace.sequence.readers.framing import HEADER_BYTES, ID_MAX, marks, schema_ids
from headrace.sequence.readers.read_part import ReadPart
from headrace.sequence.reasons import Reasons


class AvroReader:
    """Reads keys, or values, into structs of some fields."""

    def __init__(self, of: AvroBytes, fields: Sequence[pa.Field], what: str) -> None:
        """In: what  "key" or "value", as reasons call it."""
        self._of, self._fields, self._what = of, tuple(fields), what

    def read(self, raw: pa.Array, reasons: Reasons) -> ReadPart:
        """Bytes as structs; null where there are none, and where they are malformed."""
        parts, places, asked = [], [], set[tuple[str, int]]()
        for schema_id, rows in self._by_schema(raw, reasons):
            key = (self._of.url or "", schema_id)
            if self._of.url is not None and key not in self._of.known.schemas:
                self._refuse(reasons, marks(len(raw), rows), f"schema {schema_id} is not in the registry")
                asked |= {key} - self._of.known.unknown if schema_id <= ID_MAX else set()
                continue
            plan = self._plan(schema_id)
            if isinstance(plan, str):
                self._refuse(reasons, marks(len(raw), rows), f"{self._named(schema_id)}: {plan}")
                continue
            found, problems = self._decoded(plan, raw, rows)
            parts.append(found)
            places.append(rows)
            for row, problem in problems.items():
                why = f"malformed {self._what}: {self._named(schema_id)}: {problem}"
                reasons.add_one(int(rows[row]), why)
        return ReadPart(_together(parts, places, len(raw), pa.struct(list(self._fields))), frozenset(asked))

    def _refuse(self, reasons: Reasons, marked: np.ndarray, why: str) -> None:
        reasons.add(marked, f"malformed {self._what}: {why}")

    def _by_schema(self, raw: pa.Array, reasons: Reasons) -> list[tuple[int, np.ndarray]]:
        """The records of each schema; without a registry all are of schema 0."""
        if self._of.url is None:
            there = np.flatnonzero(raw.is_valid().to_numpy(zero_copy_only=False))
            return [(0, there)] if len(there) else []
        rows, ids = schema_ids(raw, self._what, reasons)
        if not len(rows):
            return []
        order = np.argsort(ids, kind="stable")
        different, first = np.unique(ids[order], return_index=True)
        return list(zip(different.tolist(), np.split(rows[order], first[1:]), strict=True))

    def _plan(self, schema_id: int) -> Plan | str:
        if self._of.url is None:
            assert self._of.reader is not None
            return plan_of(self._of.reader, self._of.reader, self._fields)
        return plan_of(self._of.known.schemas[self._of.url, schema_id], self._of.reader, self._fields)

    def _named(self, schema_id: int) -> str:
        return "its schema" if self._of.url is None else f"schema {schema_id}"

    def _decoded(self, plan: Plan, raw: pa.Array, rows: np.ndarray) -> tuple[pa.StructArray, dict[int, str]]:
        payloads = (raw if len(rows) == len(raw) else raw.take(pa.array(rows))).to_pylist()
        return plan.decode(payloads, 0 if self._of.url is None else HEADER_BYTES)


def _together(
    parts: Sequence[pa.StructArray], places: Sequence[np.ndarray], rows: int, of: pa.DataType
) -> pa.StructArray:
    """Parts in their places; null where there is none."""
    if len(parts) == 1 and len(parts[0]) == rows:
        return parts[0]
    place = np.full(rows, -1, np.int64)
    if parts:
        place[np.concatenate(places)] = np.arange(sum(len(part) for part in parts))
    whole = pa.concat_arrays([*parts, pa.array([], of)])
    return whole.take(pa.array(place, mask=place < 0))
