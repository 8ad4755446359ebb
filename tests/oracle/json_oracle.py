"""JSON objects read once more, in plain Python, letter by letter: RFC 8259, and the declared types.

Nothing here is shared with the engine. A type is its name, or ("DECIMAL", precision, scale), ("ARRAY", type),
("MAP", type) with texts as keys, ("STRUCT", {name: type}).
"""

from __future__ import annotations

import base64
import datetime as dt
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

FITS_NOT, MORE = "does not fit", "more than one"
NESTING_MAX = 500
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/"}
EPOCH = dt.datetime(1970, 1, 1)


class Refused(Exception):
    pass


@dataclass(frozen=True)
class Written:
    """A number as it is written."""

    text: str


class Parser:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def blank(self) -> None:
        while self.text[self.at : self.at + 1] in (" ", "\t", "\r", "\n"):
            self.at += 1

    def take(self, wanted: str) -> bool:
        found = self.text.startswith(wanted, self.at)
        self.at += len(wanted) * found
        return found

    def need(self, wanted: str) -> None:
        if not self.take(wanted):
            raise Refused

    def value(self, depth: int = 0) -> Any:
        self.blank()
        for word, meant in (("true", True), ("false", False), ("null", None)):
            if self.take(word):
                return meant
        if self.take('"'):
            return self.string()
        if self.text[self.at : self.at + 1] in ("{", "["):
            if depth == NESTING_MAX:
                raise Refused
            return self.object(depth + 1) if self.take("{") else self.array(depth + 1)
        number = NUMBER.match(self.text, self.at)
        if number is None:
            raise Refused
        self.at = number.end()
        return Written(number[0])

    def object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self.blank()
        if self.take("}"):
            return found
        while True:
            self.blank()
            self.need('"')
            name = self.string()
            self.blank()
            self.need(":")
            found[name] = self.value(depth)
            self.blank()
            if self.take("}"):
                return found
            self.need(",")

    def array(self, depth: int) -> list[Any]:
        self.need("[")
        found: list[Any] = []
        self.blank()
        if self.take("]"):
            return found
        while True:
            found.append(self.value(depth))
            self.blank()
            if self.take("]"):
                return found
            self.need(",")

    def string(self) -> str:
        units = bytearray()
        while True:
            letter = self.text[self.at : self.at + 1]
            self.at += 1
            if letter == '"':
                try:
                    return units.decode("utf-16-le")
                except UnicodeDecodeError:
                    raise Refused from None
            if letter < " ":  # the end, too
                raise Refused
            if letter != "\\":
                units += letter.encode("utf-16-le")
                continue
            escape = self.text[self.at : self.at + 1]
            self.at += 1
            if escape == "u":
                digits = self.text[self.at : self.at + 4]
                if not re.fullmatch("[0-9a-fA-F]{4}", digits):
                    raise Refused
                units += struct.pack("<H", int(digits, 16))
                self.at += 4
            elif escape in ESCAPES and escape:
                units += ESCAPES[escape].encode("utf-16-le")
            else:
                raise Refused


def read(text: str, columns: Mapping[str, Any]) -> dict[str, Any] | str:
    """The values of the columns, or why there are none."""
    parser = Parser(text)
    parser.blank()
    try:
        parser.need("{")
        found = parser.object(1)
        values = {name: typed(found.get(name), of) for name, of in columns.items()}
    except Refused:
        return FITS_NOT
    parser.blank()
    return values if parser.at == len(text) else MORE


def typed(value: Any, of: Any) -> Any:
    if value is None:
        return None
    name = of if isinstance(of, str) else of[0]
    if name == "STRING":
        return value if isinstance(value, str) else written(value)
    if name == "BOOLEAN":
        return need(value, isinstance(value, bool))
    if name == "ARRAY":
        return [typed(item, of[1]) for item in need(value, isinstance(value, list))]
    if name == "MAP":
        return [(key, typed(item, of[1])) for key, item in need(value, isinstance(value, dict)).items()]
    if name == "STRUCT":
        found = need(value, isinstance(value, dict))
        return {field: typed(found.get(field), its) for field, its in of[1].items()}
    if isinstance(value, Written):
        return of_number(value.text, name, of)
    return of_text(need(value, isinstance(value, str)), name, of)


def of_number(text: str, name: str, of: Any) -> Any:
    bits = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}.get(name)
    if bits is not None:
        number = int(need(text, re.fullmatch("-?[0-9]{1,4000}", text)))
        return need(number, -(1 << bits - 1) <= number < 1 << bits - 1)
    if name == "DOUBLE":
        return float(text)
    if name == "FLOAT":
        return nearest_float(text)
    if name == "DECIMAL":
        return decimal(text, of[1], of[2])
    need(text, name == "TIMESTAMP" and re.fullmatch("-?[0-9]{1,12}", text))
    return moment(EPOCH, int(text))


def of_text(text: str, name: str, of: Any) -> Any:
    if name in ("DOUBLE", "FLOAT"):
        need(text, text in ("NaN", "Infinity", "+Infinity", "-Infinity", "INF", "+INF", "-INF"))
        return float(text)
    if name == "DECIMAL":
        return decimal(text, of[1], of[2])
    if name == "BINARY":
        try:
            found = base64.b64decode(text, validate=True)
        except ValueError:
            raise Refused from None
        return need(found, len(text) % 4 == 0)
    if name == "DATE":
        days = date(text, r"(?:[ T].*)?")[0]
        return days.date()
    need(text, name in ("TIMESTAMP", "TIMESTAMP_NTZ"))
    zone = (
        r"(?: ?(?P<zone>Z|UTC|GMT|UT|(?:UTC|GMT|UT)?[+-](?:\d\d?|\d\d?:\d\d|\d\d?:\d\d:\d\d|\d{4}|\d{6})))?"
    )
    day, rest = date(
        text, rf"(?:[ T](?:(?P<h>\d\d?):(?P<m>\d\d?)(?::(?P<s>\d\d?)(?:\.(?P<f>\d*))?)?{zone})?)?"
    )
    h, m, s = (int(rest[part] or 0) for part in "hms")
    need(day, h < 24 and m < 60 and s < 60)
    zone_text = rest["zone"] or ""
    need(day, not zone_text or name == "TIMESTAMP")
    offset = 0
    if "+" in zone_text or "-" in zone_text:
        digits = re.sub("[^0-9:]", "", zone_text)
        cut = digits.split(":") if ":" in digits else [digits[at : at + 2] for at in range(0, len(digits), 2)]
        numbers = [int(part) for part in cut]
        need(day, all(number < 60 for number in numbers[1:]))
        offset = sum(number * 60 ** (2 - at) for at, number in enumerate(numbers))
        need(day, offset <= 18 * 3600)
        offset = -offset if "-" in zone_text else offset
    micros = int(((rest["f"] or "") + "000000")[:6])
    return moment(day, h * 3600 + m * 60 + s - offset, micros)


def date(text: str, rest: str) -> tuple[dt.datetime, re.Match[str]]:
    pattern = rf"\+?(?P<y>\d{{4,7}})(?:-(?P<mo>\d\d?)(?:-(?P<d>\d\d?){rest})?)?"
    found = re.fullmatch(pattern, text.strip("".join(map(chr, range(33)))), re.ASCII | re.DOTALL)
    if found is None:
        raise Refused
    try:
        return dt.datetime(int(found["y"]), int(found["mo"] or 1), int(found["d"] or 1)), found
    except ValueError:
        raise Refused from None


def moment(day: dt.datetime, seconds: int, micros: int = 0) -> dt.datetime:
    try:
        return day + dt.timedelta(seconds=seconds, microseconds=micros)
    except OverflowError:
        raise Refused from None


def decimal(text: str, precision: int, scale: int) -> Decimal:
    found = re.fullmatch(r"([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?", text, re.ASCII)
    if found is None or not found[2] + found[3]:
        raise Refused
    exponent = max(-10_000, min(10_000, int(found[4] or 0)))  # texts of tests are shorter
    number = int(found[2] + found[3]) * Fraction(10) ** (exponent - len(found[3]) + scale)
    rounded = int(number + Fraction(1, 2))
    need(rounded, rounded < 10**precision)
    rounded = -rounded if found[1] == "-" else rounded
    return Decimal(rounded).scaleb(-scale, Context(60, ROUND_HALF_UP))


def nearest_float(text: str) -> float:
    """The FLOAT nearest to a number; of two that are equally near the one whose last bit is 0."""
    exact = (
        Fraction(text) if len(text) < 400 and abs(int((text.lower() + "e0").split("e")[1])) < 400 else None
    )
    if exact is None:
        return (
            nearest_float(repr(float(text))) if abs(float(text)) not in (0.0, float("inf")) else float(text)
        )
    guess = abs(float(text))
    if guess == float("inf") or guess >= 2.0**128:
        return float("-inf") if text.startswith("-") else float("inf")
    bits = int.from_bytes(struct.pack(">f", min(guess, 3.4028234663852886e38)))
    near = []
    for each in (bits - 1, bits, bits + 1):
        if 0 <= each < 0x7F800000:
            value = struct.unpack(">f", each.to_bytes(4))[0]
            near.append((abs(Fraction(value) - abs(exact)), each & 1, value))
        elif each == 0x7F800000:
            near.append((abs(Fraction(2) ** 128 - abs(exact)), 0, float("inf")))
    best: float = min(near)[2]
    return -best if text.startswith("-") else best


def written(value: Any) -> str:
    """JSON without blanks, numbers as they were written."""
    match value:
        case Written(text):
            return text
        case str():
            return quoted(value)
        case dict():
            return "{" + ",".join(f"{quoted(name)}:{written(item)}" for name, item in value.items()) + "}"
        case list():
            return "[" + ",".join(map(written, value)) + "]"
    return {True: "true", False: "false", None: "null"}[value]


def quoted(text: str) -> str:
    short = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
    return '"' + "".join(short.get(c, c if c >= " " else f"\\u{ord(c):04x}") for c in text) + '"'


def need(value: Any, holds: object) -> Any:
    if not holds:
        raise Refused
    return value
