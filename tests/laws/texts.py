"""Random texts that are JSON objects or source chains, or nearly: where parsers may differ."""

from __future__ import annotations

import json
from random import Random

LETTERS = ["", "a", "é", "漢", "😀", "{", "}", '"', "\\", "/", ",", "\n", "\x00", "\x7f", "null", "1", " "]
INTEGERS = ["0", "1", "-3", "32767", "-32768", "32768", "2147483647", "2147483648", "9223372036854775807"]
INTEGERS += ["-9223372036854775808", "9223372036854775808", "1" * 30]
NUMBERS = [
    "-0",
    "0.0",
    "-0.0",
    "1e5",
    "1E-400",
    "1e400",
    "0.1",
    "1.",
    ".5",
    "01",
    "+1",
    "NaN",
    "Infinity",
    "-Infinity",
    "nan",
]
NUMBERS += ["9007199254740993", "0." + "3" * 40, "1" * 999, "1" * 1001, "5e-324", "2.2250738585072011e-308", "1.5", "-2e3"]  # fmt: skip
ODD = [
    '"\\ud800"',
    '"\\ud83d\\ude00"',
    '"\\u0000"',
    "'single'",
    '"NaN"',
    '"1"',
    "True",
    "[]",
    "{}",
    '[1, {"s": 2}]',
    "[1,]",
]
ODD += ['{"d": 1, "d": 2}', "[" * 1001 + "]" * 1001, "[" * 400 + "]" * 400, "/* */ 1"]
NAMES = ["s", "b", "h", "i", "l", "d", "a b.c", "other", "S"]
BLANKS = ["", "", "", " ", "\n", "\t", "\r\n"]


def a_text(random: Random) -> str:
    text = "".join(random.choices(LETTERS, k=random.randrange(4)))
    return json.dumps(text, ensure_ascii=random.random() < 0.5)


def a_number(random: Random) -> str:
    return random.choice(
        [random.choice(NUMBERS), repr(random.uniform(-1e6, 1e6)), f"{random.gauss(0, 1e-300)!r}"]
    )


def anything(random: Random) -> str:
    makers = (a_text, a_number, lambda r: r.choice(ODD), lambda r: r.choice(INTEGERS), lambda r: "null")
    return random.choice(makers)(random)


def fitting(name: str, random: Random) -> str:
    if random.random() < 0.1:
        return "null"
    match name:
        case "s" | "a b.c":
            return a_text(random)
        case "b":
            return random.choice(["true", "false"])
        case "h" | "i" | "l":
            return random.choice(INTEGERS[: {"h": 5, "i": 7, "l": 10}[name]])
        case "d":
            return a_number(random)
    return anything(random)


def an_object(random: Random) -> bytes:
    """A text that is a JSON object, or nearly."""
    names = random.choices(NAMES, k=random.randrange(6))
    names = names if random.random() < 0.1 else list(dict.fromkeys(names))
    blank = random.choice(BLANKS)
    fields = [
        f"{blank}{json.dumps(name)}{blank}:{blank}{fitting(name, random) if random.random() < 0.9 else anything(random)}"
        for name in names
    ]
    text = "{" + f"{blank},".join(fields) + blank + "}"
    match random.randrange(12):
        case 0:
            text += random.choice(["{}", " ", "}", ",{}", "\n{}", "x}"])
        case 1:
            text = text.replace("}", ",}", 1)
        case 2:
            at = random.randint(0, len(text))
            text = (
                text[:at]
                + random.choice(["{", "}", '"', "\\", ",", "\x01", "\ufeff", "é", "/**/"])
                + text[at:]
            )
    return text.encode("utf-8", "replace")


def a_chain(random: Random) -> bytes | None:
    """A text that is a chain, or nearly; None: no header."""
    if random.random() < 0.1:
        return None
    entries = [
        [
            random.choice(["a", "b-1", "c._"]),
            random.randrange(3),
            random.choice([0, 7, 12, 10**17]),
            random.randrange(2),
        ]
        for _ in range(random.randrange(5))
    ]
    ordinals = random.random() < 0.2
    separators = (",", ":") if random.random() < 0.8 else (", ", ": ")
    text = json.dumps(
        [entry[: 4 if ordinals and random.random() < 0.5 else 3] for entry in entries], separators=separators
    )
    if random.random() < 0.2:
        at = random.randint(0, len(text))
        text = (
            text[:at]
            + random.choice(["]", "[", '"', "0", " ", ",", "é", "-"])
            + text[at + random.randrange(2) :]
        )
    return text.encode()
