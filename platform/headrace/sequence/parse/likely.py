"""Patterns of the JSON objects that probably fit: they save refused reads, and decide nothing (see `json_columns`)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pyarrow as pa

from headrace.sequence.parse.types import is_written_as_text

_BLANK = r"[ \t\r\n]*"
_TEXT = r'"(?:[^"\\]|\\.)*"'
_INTEGER = r"-?(?:0|[1-9][0-9]*)"
_NUMBER = _INTEGER + r"(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"
_LENGTH_MAX = 10_000


def likely_patterns(fields: Sequence[pa.Field]) -> list[str]:
    """RE2 patterns for objects with these fields: without others, and with others; none of an unreasonable size."""
    of = pa.struct(list(fields))
    others = f"{_TEXT}{_BLANK}:{_BLANK}{_any(2)}"
    patterns = [rf"(?s)^{_BLANK}{_pattern(of, also)}{_BLANK}$" for also in ("", others)]
    return [pattern for pattern in patterns if len(pattern) <= _LENGTH_MAX]


def _pattern(of: pa.DataType, also: str = "") -> str:
    """The pattern of a type. In: also  a pattern of further pairs of an object."""
    if pa.types.is_struct(of):
        pairs = [
            f"{re.escape(json.dumps(field.name, ensure_ascii=False))}{_BLANK}:{_BLANK}(?:{_pattern(field.type, also)}|null)"
            for field in of
        ]
        return _listed(r"\{", f"(?:{'|'.join([*pairs, also] if also else pairs)})", r"\}")
    if pa.types.is_list(of):
        return _listed(r"\[", f"(?:{_pattern(of.value_type, also)}|null)", r"\]")
    if pa.types.is_string(of) or is_written_as_text(of):
        return _TEXT
    if pa.types.is_boolean(of):
        return "(?:true|false)"
    if pa.types.is_decimal(of):
        return f"(?:{_NUMBER}|{_TEXT})"
    return _INTEGER if pa.types.is_integer(of) else _NUMBER


def _any(depth: int) -> str:
    """Any value, nested so deep at most."""
    scalar = f"{_TEXT}|{_NUMBER}|true|false|null"
    if not depth:
        return f"(?:{scalar})"
    inner = _any(depth - 1)
    objects = _listed(r"\{", f"{_TEXT}{_BLANK}:{_BLANK}{inner}", r"\}")
    return f"(?:{scalar}|{objects}|{_listed(chr(92) + '[', inner, chr(92) + ']')})"


def _listed(begin: str, item: str, end: str) -> str:
    return f"{begin}{_BLANK}(?:{item}{_BLANK}(?:,{_BLANK})?)*{end}"
