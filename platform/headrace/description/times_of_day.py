"""Texts that hold a time of day alone, where SQL makes a TIMESTAMP of a text.

Law: such a text is null. Spark would take the date of the run, so the result would depend on the day. The sequencer reads a
TIMESTAMP column in the same way.
Source: Spark 4.1, SparkDateTimeUtils.stringToTimestamp: a text whose first digits end at a colon, after white space.
"""

from __future__ import annotations

from sqlglot import Token, TokenType

from headrace.expressions.functions import tokens_of

TIME_ALONE = r"^[\p{Cntrl}\s]*(\d+:|T)"  # a pattern of Java
FUNCTIONS = frozenset({"to_timestamp", "try_to_timestamp", "to_timestamp_ltz", "timestamp"})
_CASTS, _TYPES = frozenset({"cast", "try_cast"}), frozenset({"timestamp", "timestamp_ltz"})


def without_times_of_day(sql: str) -> str:
    """An expression in which casts to TIMESTAMP, and the FUNCTIONS of one text, make null of a time of day alone."""
    tokens = tokens_of(sql) if "timestamp" in sql.lower() else []
    return _rewritten(sql, tokens, 0, len(tokens)) if tokens else sql


def _rewritten(sql: str, tokens: list[Token], first: int, last: int) -> str:
    """The text of some tokens, with each call that makes a TIMESTAMP guarded."""
    if first >= last:
        return ""
    text, end, at = "", tokens[first].start, first
    while at < last:
        argument = _argument(tokens, at, last)
        if argument is None:
            at += 1
            continue
        begin, stop, closing = argument
        value = _rewritten(sql, tokens, begin, stop)
        head, tail = (
            sql[tokens[at].start : tokens[begin].start],
            sql[tokens[stop - 1].end + 1 : tokens[closing].end + 1],
        )
        text += sql[end : tokens[at].start] + _guarded(value, f"{head}{value}{tail}")
        end, at = tokens[closing].end + 1, closing + 1
    return text + sql[end : tokens[last - 1].end + 1]


def _guarded(value: str, made: str) -> str:
    return f"(CASE WHEN NOT (CAST(({value}) AS STRING) RLIKE r'{TIME_ALONE}') THEN {made} END)"


def _argument(tokens: list[Token], at: int, last: int) -> tuple[int, int, int] | None:
    """Where a call's argument begins and ends, and the closing parenthesis; None: no text becomes a TIMESTAMP here."""
    name = tokens[at].text.lower()
    is_name = tokens[at].token_type not in (TokenType.STRING, TokenType.IDENTIFIER)
    if name not in FUNCTIONS | _CASTS or not is_name or at + 2 >= last:
        return None
    if tokens[at + 1].token_type != TokenType.L_PAREN:
        return None
    depth, splits = 0, list[int]()
    for place in range(at + 1, last):
        kind = tokens[place].token_type
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth == 1 and kind in (TokenType.COMMA, TokenType.ALIAS):
            splits.append(place)
        if depth == 0:
            return _of_call(tokens, name, at + 2, splits, place)
    return None


_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET)


def _of_call(
    tokens: list[Token], name: str, begin: int, splits: list[int], closing: int
) -> tuple[int, int, int] | None:
    if name in FUNCTIONS:
        return (begin, closing, closing) if not splits and begin < closing else None
    if not splits or tokens[splits[-1]].token_type != TokenType.ALIAS:
        return None
    wanted = [token.text.lower() for token in tokens[splits[-1] + 1 : closing]]
    return (begin, splits[-1], closing) if len(wanted) == 1 and wanted[0] in _TYPES else None
