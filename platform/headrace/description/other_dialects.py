"""Words of other dialects of SQL, which the parser reads, and which Spark refuses or reads in another way.

Law: what is accepted here, Spark reads alike. The parser knows many dialects, and turns their words into its own; so a word
is judged as it was written, before the parser sees it.
Source: Spark 4.1.3, SqlBaseParser.g4; tests/expressions/test_spellings.py asks Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect

from headrace.description.ddl import quote
from headrace.description.pointing import marked
from headrace.description.schema import parse_type
from headrace.description.spark_functions import OF_THE_GRAMMAR, SPARK_FUNCTIONS
from headrace.description.wording import did_you_mean
from headrace.errors import DescriptionError

_PARSER = Dialect.get_or_raise("spark").parser_class
_OF_OTHERS = {str(name).lower() for name in (*_PARSER.FUNCTIONS, *_PARSER.FUNCTION_PARSERS)} - (
    SPARK_FUNCTIONS | OF_THE_GRAMMAR
)
_CASTS = frozenset({"CAST", "TRY_CAST"})
# Types of Spark that no column of a log has: Spark alone computes what is cast to them.
_OF_SPARK_ALONE = frozenset({
    "CHAR", "CHARACTER", "VARCHAR", "TIME", "INTERVAL", "VARIANT", "VOID", "COLLATE", "GEOGRAPHY", "GEOMETRY",
})  # fmt: skip
_BEFORE_LITERALS = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "TIME", "INTERVAL"})
_SUFFIX_BITS = {"Y": 8, "S": 16, "L": 64}
_TEXTS = (TokenType.STRING, TokenType.RAW_STRING)
_OPERANDS = (TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_BRACKET)


def refuse_other_words(tokens: Sequence[Token], sql: str, what: str) -> None:
    """Raise DescriptionError for a function, a type or an operator that Spark has not. In: tokens  as they were written."""
    for token, following in pairwise(tokens):
        if following.token_type == TokenType.L_PAREN and _is_foreign_call(token):
            hint = did_you_mean(token.text, SPARK_FUNCTIONS) or "Functions are those of Spark SQL."
            raise _refusal(what, f"there is no function {token.text} in {sql!r}", sql, token, hint)
        if following.token_type in _TEXTS and _is_foreign_type(token):
            hint = f"Write CAST({sql[following.start : following.end + 1]} AS …)."
            problem = f"{token.text} before a text in {sql!r} is nothing that Spark reads"
            raise _refusal(what, problem, sql, token, hint)
        if token.token_type == TokenType.ARRAY and following.token_type == TokenType.L_BRACKET:
            hint = f"For a column write {quote(token.text)}[…], for a new array array(…)."
            raise _refusal(what, f"{token.text}[ in {sql!r} is read in two ways", sql, token, hint)
    for token in tokens:
        if token.token_type == TokenType.DQMARK:
            raise _refusal(
                what, f"{token.text} in {sql!r} is no operator", sql, token, "Write coalesce(…, …)."
            )
    _refuse_types(tokens, sql, what)
    _refuse_suffixed(tokens, sql, what)


def refuse_other_forms(tokens: Sequence[Token], tree: exp.Expr, sql: str, what: str) -> None:
    """Raise DescriptionError for `x NOT NULL`, `x NOTNULL`, `x ISNULL`, IN without a list, and BETWEEN SYMMETRIC."""
    for before, token, after in zip(tokens, tokens[1:], [*tokens[2:], None], strict=False):
        following = None if after is None else after.token_type
        is_postfix = token.token_type == TokenType.NOT and following == TokenType.NULL
        one_word = token.text.upper() in ("NOTNULL", "ISNULL") and following != TokenType.L_PAREN
        if before.token_type in _OPERANDS and (is_postfix or one_word):
            is_null = "IS NULL" if token.text.upper() == "ISNULL" else "IS NOT NULL"
            raise DescriptionError(
                f"{what}: cannot read the expression {sql!r} near '{token.text}' at position {token.start + 1}.",
                detail=marked(sql, token.start, len(token.text)),
                hint=f"Write {before.text} {is_null}.",
            )
    for each in tree.find_all(exp.In):
        if each.args.get("field") is not None:
            raise DescriptionError(
                f"{what}: cannot read the expression {sql!r}: IN takes a list.",
                hint=f"Write {each.this.sql(dialect='spark')} IN ({each.args['field'].sql(dialect='spark')}).",
            )
    for between in tree.find_all(exp.Between):
        if between.args.get("symmetric") is not None:
            of, low, high = (between.args[name].sql(dialect="spark") for name in ("this", "low", "high"))
            raise DescriptionError(
                f"{what}: cannot read the expression {sql!r}: Spark has no BETWEEN SYMMETRIC and no ASYMMETRIC.",
                hint=f"Write {of} BETWEEN least({low}, {high}) AND greatest({low}, {high}).",
            )


def _refusal(what: str, problem: str, sql: str, token: Token, hint: str) -> DescriptionError:
    return DescriptionError(
        f"{what}: {problem}, at position {token.start + 1}.",
        detail=marked(sql, token.start, token.end - token.start + 1),
        hint=hint,
    )


def _is_foreign_call(token: Token) -> bool:
    return token.token_type not in _TEXTS and token.text.lower() in _OF_OTHERS


def _is_foreign_type(token: Token) -> bool:
    return token.token_type in _PARSER.TYPE_TOKENS and token.text.upper() not in _BEFORE_LITERALS


def _refuse_types(tokens: Sequence[Token], sql: str, what: str) -> None:
    for named in _types(tokens):
        if named and not _OF_SPARK_ALONE & {token.text.upper() for token in named}:
            text = sql[named[0].start : named[-1].end + 1]
            try:
                parse_type(text, f"{what}: the type of a cast in {sql!r}")
            except DescriptionError as error:
                error.detail = marked(sql, named[0].start, len(text))
                raise


def _types(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """The tokens of each type that an expression casts to, by CAST(… AS type) and by `::`."""
    open_casts: list[
        int | None
    ] = []  # of each open parenthesis where the type begins; -1: of a cast before it
    for place, token in enumerate(tokens):
        match token.token_type:
            case TokenType.L_PAREN:
                is_cast = place > 0 and tokens[place - 1].text.upper() in _CASTS
                open_casts.append(-1 if is_cast else None)
            case TokenType.ALIAS if open_casts and open_casts[-1] is not None:
                open_casts[-1] = place + 1
            case TokenType.R_PAREN if open_casts:
                begin = open_casts.pop()
                if begin is not None and begin > 0:
                    yield tokens[begin:place]
            case TokenType.DCOLON if not _is_suffix(tokens, place):
                yield tokens[place + 1 : _end_of_type(tokens, place + 1)]


def _is_suffix(tokens: Sequence[Token], place: int) -> bool:
    """Whether a `::` is none: the tokenizer makes a cast of the letter of a number such as 1L."""
    return place > 0 and tokens[place].start == tokens[place - 1].start


def _end_of_type(tokens: Sequence[Token], begin: int) -> int:
    """Where a type ends that begins after `::`: after its name, its digits in parentheses, its parts in < and >."""
    after = begin + 1
    closing = {TokenType.L_PAREN: TokenType.R_PAREN, TokenType.LT: TokenType.GT}
    if after < len(tokens) and (opening := tokens[after].token_type) in closing:
        depth = 0
        for place in range(after, len(tokens)):
            kind = tokens[place].token_type
            depth += (kind == opening) - (kind == closing[opening])
            if depth == 0:
                return place + 1
    is_list = [token.token_type for token in tokens[after : after + 2]] == [
        TokenType.L_BRACKET,
        TokenType.R_BRACKET,
    ]
    return after + 2 if is_list else after


def _refuse_suffixed(tokens: Sequence[Token], sql: str, what: str) -> None:
    """Refuse 128Y: Spark does, and a cast of 128 to TINYINT is -128."""
    for place, token in enumerate(tokens):
        if token.token_type != TokenType.DCOLON or not _is_suffix(tokens, place) or place + 1 == len(tokens):
            continue
        number, bits = tokens[place - 1].text, _SUFFIX_BITS.get(tokens[place + 1].text.upper())
        is_negative = place > 1 and tokens[place - 2].token_type == TokenType.DASH
        if bits and number.isdigit() and int(number) >= (1 << bits - 1) + is_negative:
            raise _refusal(
                what,
                f"{number}{tokens[place + 1].text} in {sql!r} is out of range",
                sql,
                token,
                "Use a wider type.",
            )
