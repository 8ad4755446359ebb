"""Random texts that are JSON objects of some columns, or nearly: the forms in which parsers differ."""

from __future__ import annotations

import json
from random import Random
from typing import Any

COLUMNS: dict[str, Any] = {
    "s": "STRING",
    "b": "BOOLEAN",
    "y": "TINYINT",
    "h": "SMALLINT",
    "i": "INT",
    "l": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "q": ("DECIMAL", 6, 2),
    "w": ("DECIMAL", 38, 10),
    "x": "BINARY",
    "day": "DATE",
    "ts": "TIMESTAMP",
    "ntz": "TIMESTAMP_NTZ",
    "a": ("ARRAY", "INT"),
    "deep": ("ARRAY", ("STRUCT", {"at": "TIMESTAMP", "q": ("DECIMAL", 6, 2), "of": ("ARRAY", "STRING")})),
    "t": ("STRUCT", {"u": "BIGINT", "v w": ("STRUCT", {"x": "BINARY", "day": "DATE"})}),
    "a b.c": "STRING",
}
MAPS: dict[str, Any] = {
    "m": ("MAP", "DOUBLE"),
    "n": ("MAP", ("ARRAY", ("STRUCT", {"at": "TIMESTAMP", "s": "STRING"}))),
    "l": "BIGINT",
    "t": ("STRUCT", {"m": ("MAP", ("MAP", "STRING"))}),
}
LETTERS = [
    "",
    "a",
    "é",
    "漢",
    "😀",
    "{",
    "}",
    '"',
    "\\",
    "/",
    ",",
    ":",
    "\n",
    "\x00",
    "\x7f",
    "null",
    "1",
    " ",
    "[",
    "]",
]
LETTERS += [": NaN", "[Inf", "'", "//", "\u2028", "\x1f"]
NUMBERS = [
    "0", "1", "-1", "-3", "5", "127", "-128", "128", "32767", "-32768", "32768", "2147483647", "-2147483648", "2147483648",
    "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1" * 30, "1" * 33, "1" * 38, "1" * 39, "7" * 29 + ".5", "-0", "0.0", "-0.0", "1e5", "1E-400",
    "1e400", "-1e400", "0e400", "0.1", "1.0", "1e0", "0.10", "9007199254740993", "0." + "3" * 40, "1" * 999, "1" * 1001,
    "5e-324", "2.2250738585072011e-308", "1.5", "-2e3", "1e+2", "1.255", "1.245", "-1.255", "9999.99", "9999.994", "9999.995",
    "12345.6", "1e27", "1e28", "9" * 28 + "." + "9" * 10, "9" * 28 + "." + "9" * 10 + "5", "1e29", "0.00000000005",
    "0.00000000004", "16777217", "16777219", "3.4028236e38", "1e39", "1e-46", "7e-46", "1.00000017881393432617187499",
    "1.00000017881393432617187500", "1.00000017881393432617187501", "0.000000", "1" + "0" * 37, "1" + "0" * 38, "1e37", "1e38",
]  # fmt: skip
NO_NUMBERS = [
    "NaN", "-NaN", "Infinity", "-Infinity", "Inf", "-Inf", "nan", "1.", ".5", "01", "-01", "+1", "--1", "1e", "1e+", "0x10",
    "1_0", "1f", "- 1", "1 2", "1.5.2", "00", "-", "e5", "٣", "1,5",
]  # fmt: skip
DECIMALS = [
    "+1",
    ".5",
    "5.",
    "0001",
    "+.5e1",
    "",
    "-",
    ".",
    "1e",
    " 1",
    "1,000",
    "NaN",
    "0x1",
    "1e99999",
    "0e99999",
    "٣",
    "1.2.3",
]
DATES = [
    "2024-05-01", "2024-02-29", "2023-02-29", "2024-13-01", "2024-00-10", "2024-01-00", "2024-5-1", "2024-05", "2024", "+2024-01-01",
    "-2024-01-01", "0000-01-01", "0001-01-01", "9999-12-31", "10000-01-01", "2024-05-01T12:00:00", "2024-05-01 x", " 2024-05-01 ",
    "20240501", "2024/05/01", "epoch", "now", "", "2024-05-0a", "２０２４-01-01", "1969-12-31",
]  # fmt: skip
DAYTIMES = [
    "00:00:00",
    "12:30:15",
    "23:59:59",
    "24:00:00",
    "12:60:00",
    "12:00:60",
    "1:2:3",
    "12:30",
    "12",
    "12:3a:00",
    "12-30-15",
]
FRACTIONS = ["", "", ".5", ".123", ".123456", ".123456789", ".", ".12x", ".000001"]
ZONES = [
    "",
    "Z",
    "Z",
    "+02:00",
    "-11:30",
    "+18:00",
    "+18:01",
    "-19:00",
    "+0530",
    "+5",
    "UTC",
    "GMT+1",
    "z",
    "Europe/Rome",
    " Z",
    "+02:60",
]
BASE64 = [
    "",
    "YQ==",
    "YWI=",
    "YWJj",
    "YWJjZA==",
    "YQ",
    "YR==",
    "Y",
    "=",
    "====",
    "Y===",
    "YQ==YQ==",
    "YW I=",
    "YW-_",
    "+/+/",
    "é",
    "YWJ\n",
]
ODD = [
    '"\\ud800"', '"\\udc00"', '"\\ud83d\\ude00"', '"\\ud83d\\ud83d\\ude00"', '"\\ude00\\ud83d"', '"\\uD83D\\u0041"', '"\\u0000"',
    '"\\u12"', '"\\u 123"', '"\\x"', '"\\/"', "'single'", '"a\tb"', '"a\x00b"', "True", "TRUE", "nil", "undefined", "[]", "{}", "[1,]",
    "[,1]", "[1 2]", '{"d":1,"d":2}', '{"u":1,"u":null}', '{"u":1,}', '{"u" 1}', "{u:1}", '{"u":{"x":[{}]}}', "/* */ 1", "1 // x",
    "[" * 499 + "]" * 499, "[" * 500 + "]" * 500, "[" * 1500 + "]" * 1500, "[" * 600, '"' + "[" * 900 + '"', "1 \x0c", "\xa01",
    '[1.50, {"a" : null}, "é\\n"]', '{"": ""}', '"\\ud83d"', '["NaN", Infinity]', '{"o": NaN}', '["a", -Inf]',
]  # fmt: skip
BLANKS = ["", "", "", "", " ", "\n", "\t", "\r\n"]


def an_object(random: Random, columns: dict[str, Any]) -> str:
    """A text that is a JSON object of these columns, or nearly; it begins and ends as one."""
    names = random.choices([*columns, "other", "S", ""], k=random.randrange(6))
    names = names if random.random() < 0.1 else list(dict.fromkeys(names))
    blank, odd = random.choice(BLANKS), random.choice([0, 0, 0, 0.1, 0.5])
    fields = (
        f"{blank}{a_name(random, name)}{blank}:{blank}{a_value(random, columns.get(name, 'STRING'), odd)}"
        for name in names
    )
    text = "{" + f"{blank},".join(fields) + blank + "}"
    match random.randrange(16):
        case 0:
            text += random.choice(
                ["{}", " ", "}", ",{}", "\n{}", "x}", "] }", "\x00}", '{"s":"a"}\n{"s":"b"}', "//}"]
            )
        case 1:
            text = text.replace("}", ",}", 1)
        case 2:
            at = random.randint(0, len(text))
            new = random.choice(
                [
                    "{",
                    "}",
                    '"',
                    "\\",
                    ",",
                    ":",
                    "[",
                    "]",
                    "\x01",
                    "\ufeff",
                    "é",
                    "/**/",
                    "\x0b",
                    "0",
                    "-",
                    ".",
                ]
            )
            text = text[:at] + new + text[at + random.randrange(2) :]
    stripped = text.strip(" \t\r\n")
    return text if stripped.startswith("{") and stripped.endswith("}") else "{" + text + "}"


def a_name(random: Random, name: str) -> str:
    return (
        "".join(f"\\u{ord(c):04x}" for c in name).join('""') if random.random() < 0.05 else json.dumps(name)
    )


def a_value(random: Random, of: Any, odd: float) -> str:
    if random.random() < odd:
        odds = (
            a_text(random),
            random.choice(NUMBERS),
            random.choice(NO_NUMBERS),
            random.choice(ODD),
            random.choice(ODD),
        )
        return random.choice([*odds, "null"])
    if random.random() < 0.1:
        return "null"
    blank = random.choice(BLANKS)
    match of:
        case "STRING":
            return a_text(random)
        case "BOOLEAN":
            return random.choice(["true", "false"])
        case "BINARY":
            return json.dumps(random.choice(BASE64[: 5 if random.random() < 0.7 else None]))
        case "DATE":
            return json.dumps(random.choice(DATES[: 2 if random.random() < 0.7 else None]))
        case "TIMESTAMP" | "TIMESTAMP_NTZ":
            return a_time(random, of)
        case ("DECIMAL", *_):
            return (
                random.choice(NUMBERS)
                if random.random() < 0.5
                else json.dumps(random.choice(NUMBERS[:20] + DECIMALS))
            )
        case ("ARRAY", inner):
            return (
                "["
                + f"{blank},".join(a_value(random, inner, odd / 2) for _ in range(random.randrange(4)))
                + "]"
            )
        case ("MAP", inner):
            names = [random.choice(["a", "b", "", "é", "a.b"]) for _ in range(random.randrange(4))]
            pairs = (f"{a_name(random, name)}{blank}:{a_value(random, inner, odd / 2)}" for name in names)
            return "{" + f"{blank},".join(pairs) + "}"
        case ("STRUCT", fields):
            names = [name for name in [*fields, "else"] if random.random() < 0.6]
            pairs = (
                f"{json.dumps(name)}{blank}:{a_value(random, fields.get(name, 'STRING'), odd / 2)}"
                for name in names
            )
            return "{" + f"{blank},".join(pairs) + "}"
    small = {"TINYINT": 7, "SMALLINT": 11, "INT": 13, "BIGINT": 16}.get(of)
    return random.choice(NUMBERS if small is None or random.random() < 0.1 else NUMBERS[:small])


def a_text(random: Random) -> str:
    return json.dumps(
        "".join(random.choices(LETTERS, k=random.randrange(4))), ensure_ascii=random.random() < 0.5
    )


def a_time(random: Random, of: str) -> str:
    if random.random() < 0.1:
        return random.choice(
            ["0", "1714564800", "-5", "1.5", "99999999999", "999999999999", "9223372036854775807"]
        )
    if random.random() < 0.6:
        zone = random.choice(["Z", "+02:00", ""]) if of == "TIMESTAMP" else ""
        return json.dumps(f"2024-05-01{random.choice('T ')}12:30:15{random.choice(FRACTIONS[:5])}{zone}")
    day, zone = random.choice(DATES), random.choice(ZONES)
    return json.dumps(
        f"{day}{random.choice(['T', ' ', 't', ''])}{random.choice(DAYTIMES)}{random.choice(FRACTIONS)}{zone}"
    )
