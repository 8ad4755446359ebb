"""The units of time that functions and intervals take, so that another one is refused while a description is built.

Law: a unit is judged as it is written. The parser makes a minute of M, for which Spark has null or nothing.
Source: Spark 4.1.3, asked for each unit; tests/expressions/test_spellings.py asks it again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from sqlglot import Token, TokenType

from headrace.description.pointing import marked
from headrace.description.wording import closest
from headrace.errors import DescriptionError

UNITS = (
    *("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"),
    *("MILLISECOND", "MICROSECOND"),
)
TRUNCATED = ("YEAR", "YYYY", "YY", "QUARTER", "MONTH", "MON", "MM", "WEEK", "DAY", "DD", *UNITS[5:])
PARTS = (
    *("YEAR", "Y", "YEARS", "YR", "YRS", "YEAROFWEEK", "QUARTER", "QTR", "MONTH", "MON", "MONS", "MONTHS"),
    *("WEEK", "W", "WEEKS", "DAY", "D", "DAYS", "DAYOFWEEK", "DOW", "DAYOFWEEK_ISO", "DOW_ISO", "DOY"),
    *("HOUR", "H", "HOURS", "HR", "HRS", "MINUTE", "M", "MIN", "MINS", "MINUTES", "SECOND", "S", "SEC"),
    *("SECONDS", "SECS"),
)
OF_INTERVALS = tuple(unit + plural for unit in UNITS if unit != "QUARTER" for plural in ("", "S"))
_WORDS = {"TIMESTAMPADD": (*UNITS, "DAYOFYEAR"), "TIMESTAMPDIFF": UNITS, "EXTRACT": PARTS}
_TEXTS = {"DATE_TRUNC": TRUNCATED, "DATE_PART": PARTS, "DATEPART": PARTS}
_NUMBER_AND_UNIT = re.compile(r"\s*[+-]?\s*(?:\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]+)\s*")
_BEGIN = re.compile(r"\s*interval\b", re.IGNORECASE)
_TEXT = (TokenType.STRING, TokenType.RAW_STRING)


def refuse_units(tokens: Sequence[Token], sql: str, what: str) -> None:
    """Raise DescriptionError for `timestampdiff(SECONDS, …)`. In: tokens  of the expression, as it was written."""
    for unit, word, units in (*_of_functions(tokens), *_of_intervals(tokens)):
        if word.upper() in units:
            continue
        meant = closest(word.upper(), units) if len(word) > 2 else None  # M may be a month or a minute
        raise DescriptionError(
            f"{what}: '{word}' in {sql!r} is no unit of time, at position {unit.start + 1}.",
            detail=marked(sql, unit.start, unit.end - unit.start + 1),
            hint=f"Did you mean '{meant}'?" if meant else f"Units are {', '.join(units)}.",
        )


def _of_functions(tokens: Sequence[Token]) -> Iterator[tuple[Token, str, Sequence[str]]]:
    """The unit of each call, as a token and a word, and the units that the function takes."""
    for place, (token, following) in enumerate(pairwise(tokens)):
        if following.token_type != TokenType.L_PAREN or place + 2 >= len(tokens):
            continue
        unit, name = tokens[place + 2], token.text.upper()
        if name in _WORDS or (name in _TEXTS and unit.token_type in _TEXT):
            yield unit, unit.text, _WORDS.get(name) or _TEXTS[name]


def _of_intervals(tokens: Sequence[Token]) -> Iterator[tuple[Token, str, Sequence[str]]]:
    """The units of `INTERVAL 1 DAY 2 HOURS` and `INTERVAL '1 day 2 hours'`."""
    for place, token in enumerate(tokens):
        if token.token_type != TokenType.INTERVAL:
            continue
        place += 1
        while place < len(tokens):
            place += tokens[place].token_type in (TokenType.DASH, TokenType.PLUS)
            value, *after = tokens[place : place + 2] or [token]
            if value.token_type in _TEXT and (words := _units_in(value.text)):
                yield from ((value, word, OF_INTERVALS) for word in words)
                break
            is_unit = after and after[0].token_type in (TokenType.VAR, TokenType.IDENTIFIER)
            if value.token_type not in (TokenType.NUMBER, *_TEXT) or not is_unit:
                break
            quote = "`" if after[0].token_type == TokenType.IDENTIFIER else ""
            yield after[0], f"{quote}{after[0].text}{quote}", OF_INTERVALS
            place += 2


def _units_in(text: str) -> list[str]:
    """The units in a text of numbers and units; none if it is another text."""
    begin = _BEGIN.match(text)
    found, at = [], begin.end() if begin else 0
    while match := _NUMBER_AND_UNIT.match(text, at):
        found.append(match[1])
        at = match.end()
    return found if at == len(text) else []
