"""Corrected records in a file, one JSON object a line: `{"partition": 0, "offset": 17, "value": {"id": "a"}}`."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.errors import TerminalError

if TYPE_CHECKING:
    from headrace.lifecycle.redrive import Letter, Place

FIELDS = {"partition", "offset", "key", "value", "key_base64", "value_base64", "timestamp_ms"}


@dataclass(frozen=True)
class Correction:
    """The parts of a record that the correction replaces.

    parts  by name, `key`, `value`: their bytes; None: there is none
    """

    parts: Mapping[str, bytes | None]
    timestamp_ms: int | None = None

    def of(self, letter: Letter) -> Letter:
        """The dead letter, corrected."""
        key, value = self.parts.get("key", letter.key), self.parts.get("value", letter.value)
        ms = letter.timestamp_ms if self.timestamp_ms is None else self.timestamp_ms
        return replace(letter, key=key, value=value, timestamp_ms=ms)


def read_corrections(file: Path) -> dict[Place, Correction]:
    """The corrections of a file, by partition and offset.

    In:     each line  `partition` and `offset` name the dead letter; `value` and `key` are a JSON value, a text (its
                       UTF-8) or null, or stand in base64 in `value_base64` and `key_base64`; `timestamp_ms` is Kafka's
    Raises: TerminalError naming the line
    """
    found: dict[Place, Correction] = {}
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise TerminalError(f"Corrections: file '{file}' cannot be read.", detail=str(error)) from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            place, correction = _correction(json.loads(line, parse_float=_exact))
        except (KeyError, TypeError, ValueError, RecursionError, binascii.Error) as error:
            raise TerminalError(
                f"Corrections: line {number} of '{file}' is no correction.",
                detail=f"{type(error).__name__}: {error}",
                hint='Write for example {"partition": 0, "offset": 17, "value": {"id": "a"}}.',
            ) from error
        if place in found:
            raise TerminalError(
                f"Corrections: line {number} of '{file}' corrects partition {place[0]}, offset {place[1]} a second time."
            )
        found[place] = correction
    return found


def _correction(entry: Any) -> tuple[Place, Correction]:
    if not isinstance(entry, dict):
        raise ValueError("it is no JSON object")
    unknown = sorted(entry.keys() - FIELDS)
    if unknown:
        raise ValueError(f"there is no field {', '.join(unknown)}")
    place, ms = (entry["partition"], entry["offset"]), entry.get("timestamp_ms")
    if not all(type(each) is int and abs(each) < 2**63 for each in (*place, 0 if ms is None else ms)):
        raise ValueError("partition, offset and timestamp_ms are whole numbers")
    parts: dict[str, bytes | None] = {}
    for part in ("key", "value"):
        if part in entry:
            parts[part] = _encoded(entry[part])
        if f"{part}_base64" in entry:
            parts[part] = base64.b64decode(entry[f"{part}_base64"], validate=True)
    return place, Correction(parts, ms)


def _exact(text: str) -> float:
    """A number as JSON writes it again. Raises: ValueError when digits would be lost."""
    number = float(text)
    if not math.isfinite(number) or Decimal(repr(number)) != Decimal(text):
        raise ValueError(
            f"{text} has more digits than are kept; write key or value as a text that holds the JSON"
        )
    return number


def _encoded(content: Any) -> bytes | None:
    if content is None:
        return None
    return content.encode() if isinstance(content, str) else json.dumps(content).encode()
