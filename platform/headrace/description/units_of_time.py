"""The units of time that functions take as a word, so that another word is refused while a description is built.

Source: Spark 4.1.3, asked for each unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sqlglot import Token, TokenType

from headrace.description.pointing import marked
from headrace.description.wording import did_you_mean
from headrace.errors import DescriptionError

UNITS = (
    *("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"),
    *("MILLISECOND", "MICROSECOND"),
)
_OF_FUNCTION = {"TIMESTAMPADD": (*UNITS, "DAYOFYEAR"), "TIMESTAMPDIFF": UNITS}


def refuse_units(tokens: Sequence[Token], sql: str, what: str) -> None:
    """Raise DescriptionError for `timestampdiff(SECONDS, …)`. In: tokens  of the expression, as it was written."""
    for place, (token, following) in enumerate(pairwise(tokens)):
        units = _OF_FUNCTION.get(token.text.upper())
        if units is None or following.token_type != TokenType.L_PAREN:
            continue
        if place + 2 < len(tokens) and (unit := tokens[place + 2]).text.upper() not in units:
            raise DescriptionError(
                f"{what}: '{unit.text}' in {sql!r} is no unit of time, at position {unit.start + 1}.",
                detail=marked(sql, unit.start, len(unit.text)),
                hint=did_you_mean(unit.text.upper(), units) or f"Units are {', '.join(units)}.",
            )
