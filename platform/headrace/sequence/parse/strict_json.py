"""One JSON object, read strictly: RFC 8259 and the declared types, and nothing beyond.

Law: a text that Arrow's reader takes without suspicion (see `json_columns`) gives the same values here. If a name occurs
twice, the last one counts. `json_values` states the values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa

from headrace.sequence.parse.json_values import Misfit, Number, object_reader

NESTING_MAX = 500  # brackets within brackets: deep nesting exhausts the stacks of those who read
BLANKS = " \t\r\n"  # JSON's white space
DOES_NOT_FIT = "not JSON, or a field does not fit "  # and the declared columns
MORE_THAN_ONE = "more than one JSON object"
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class Malformed(Exception):
    """A text is not what was declared.

    why     how the reason of a dead letter goes on, see `decode`
    detail  where it is wrong; "" if there is no more to say
    """

    def __init__(self, why: str, detail: str = "") -> None:
        super().__init__(why, detail)
        self.why, self.detail = why, detail


@dataclass(frozen=True)
class StrictReader:
    """Reads objects with these fields, one at a time."""

    fields: Sequence[pa.Field]

    def __post_init__(self) -> None:
        object.__setattr__(self, "_read", object_reader(self.fields))

    def read(self, text: str) -> Mapping[str, Any]:
        """The values of the fields, as `pyarrow.array` takes them.

        In:     text  that begins with "{" and ends with "}", white space aside
        Raises: Malformed
        """
        text = text.strip(BLANKS)
        if text.count("[") + text.count("{") > NESTING_MAX and _nesting(text) > NESTING_MAX:
            raise Malformed(DOES_NOT_FIT, f"nested deeper than {NESTING_MAX}")
        try:
            found, end = _PARSER.raw_decode(text)
        except (ValueError, RecursionError):
            raise Malformed(DOES_NOT_FIT, "not JSON") from None
        if _SURROGATE.search(text, 0, end) and _has_half_a_pair(text[:end]):
            raise Malformed(DOES_NOT_FIT, "half of a surrogate pair is no text")
        try:
            values: Mapping[str, Any] = self._read(found)  # type: ignore[attr-defined]
        except Misfit as misfit:
            raise Malformed(DOES_NOT_FIT, f"{misfit.path[1:]} {misfit.problem}") from None
        if end < len(text):
            raise Malformed(MORE_THAN_ONE)
        return values


def _refuse(constant: str) -> NoReturn:
    raise Malformed(DOES_NOT_FIT, f"{constant} is not JSON")


def parse(text: str) -> Any:
    """The first value of a text that `StrictReader` takes, numbers as `Number`."""
    return _PARSER.raw_decode(text.strip(BLANKS))[0]


_PARSER = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=_refuse, strict=True)


def _nesting(text: str) -> int:
    deepest = depth = 0
    for mark in re.findall(r"[\[\]{}]", _STRING.sub("", text)):
        depth += 1 if mark in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _has_half_a_pair(text: str) -> bool:
    wanted_at = -1
    for escape in _ESCAPE.finditer(text):
        code = int(escape[1], 16) if escape[1] else 0
        if (wanted_at >= 0) != (0xDC00 <= code <= 0xDFFF) or wanted_at not in (-1, escape.start()):
            return True
        wanted_at = escape.end() if 0xD800 <= code <= 0xDBFF else -1
    return wanted_at >= 0
