"""Texts of which sqlglot's syntax tree would lose what Spark makes of them."""

from __future__ import annotations

from itertools import pairwise

from sqlglot import TokenType
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError


def spelled_for_sqlglot(sql: str) -> str:
    """The same expression, with `size` as `cardinality`: sqlglot has one word for `size` and `array_size`.

    With null `size` gives -1, and `array_size` gives null.
    """
    if "size" not in sql.lower():
        return sql
    try:
        tokens = Dialect.get_or_raise("spark").tokenize(sql)
    except SqlglotError:
        return sql
    made, end = "", 0
    for token, following in pairwise(tokens):
        is_call = following.token_type == TokenType.L_PAREN and token.token_type == TokenType.VAR
        if is_call and token.text.lower() == "size":
            made += sql[end : token.start] + "cardinality"
            end = token.end + 1
    return made + sql[end:]
