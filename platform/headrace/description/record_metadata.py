"""Functions by which SQL of a step reads what the log knows of a record beside its columns.

Law: all of it stands in the record's row of the log, so a step stays a function of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import Token, TokenType

from headrace.description.source_chain import SOURCE_CHAIN
from headrace.description.times_of_day import without_times_of_day
from headrace.errors import DescriptionError
from headrace.expressions.functions import tokens_of

CHAIN, HEADERS = "record_source_chain", "__headers"
HEADER_OF_NAME = "record_header"
_LAST_OF_NAME = f"try_element_at(filter(`{HEADERS}`, each -> each.key = {{name}}), -1).value"
# Of each function what it stands for in Spark's SQL, and its type.
PLAIN: Mapping[str, tuple[str, str]] = {
    "record_topic": ("`__topic`", "STRING"),
    "record_partition": ("`__partition`", "INT"),
    "record_offset": ("`__offset`", "BIGINT"),
    "record_timestamp": ("`__timestamp`", "TIMESTAMP"),
    "record_ingested_at": ("`__ingested_at`", "TIMESTAMP"),
    "record_headers": (f"`{HEADERS}`", "ARRAY<STRUCT<key: STRING, value: BINARY>>"),
}
TYPES = {name: type for name, (_, type) in PLAIN.items()} | {HEADER_OF_NAME: "BINARY", CHAIN: "STRING"}


@dataclass(frozen=True)
class Runnable:
    """An expression as Spark runs it.

    functions  of this module that it calls
    """

    sql: str
    functions: frozenset[str]

    @property
    def reads_headers(self) -> bool:
        """True if HEADERS is among the columns that it reads."""
        return HEADERS in self.sql and bool(self.functions)


@lru_cache(maxsize=1024)
def runnable(sql: str, chain_header: str = SOURCE_CHAIN) -> Runnable:
    """An expression with its calls of these functions replaced by what they stand for, and without times of day.

    In:     chain_header  the header of the topic's log that holds the source chain
    Raises: DescriptionError when one is called with other arguments than it has
    """
    if "record_" not in sql.lower():
        return Runnable(without_times_of_day(sql), frozenset())
    tokens = tokens_of(sql)
    made, end, functions = "", 0, set[str]()
    for number, token in enumerate(tokens):
        name = token.text.lower()
        if name not in TYPES or not _is_call(tokens[number : number + 2]):
            continue
        stands_for, last = _replaced(name, tokens[number + 2 :], sql, chain_header)
        functions.add(name)
        made += sql[end : token.start] + stands_for
        end = last.end + 1
    return Runnable(without_times_of_day(made + sql[end:]), frozenset(functions))


def refuse_metadata(expressions: Iterable[str], what: str) -> None:
    """Raise DescriptionError when one reads what belongs to a record, where there are rows of a table."""
    for sql in expressions:
        for function in sorted(runnable(sql).functions):
            raise DescriptionError(
                f"{what}: {function}() in {sql!r} belongs to a record, and this is a row of a table.",
                hint="Read it in a step of the stream: .with_column('name', '…') before .table() or .group_by(…).",
            )


def _is_call(tokens: list[Token]) -> bool:
    return [token.token_type for token in tokens[1:]] == [TokenType.L_PAREN] and (
        tokens[0].token_type not in (TokenType.STRING, TokenType.IDENTIFIER)
    )


def _replaced(name: str, after: list[Token], sql: str, chain_header: str) -> tuple[str, Token]:
    """The value that a call stands for, and its last token. In: after  the tokens after its opening parenthesis."""
    kinds = [token.token_type for token in after[:2]]
    if name == HEADER_OF_NAME and kinds == [TokenType.STRING, TokenType.R_PAREN]:
        return _LAST_OF_NAME.format(name=sql[after[0].start : after[0].end + 1]), after[1]
    if name in PLAIN and kinds[:1] == [TokenType.R_PAREN]:
        return PLAIN[name][0], after[0]
    if name == CHAIN and kinds[:1] == [TokenType.R_PAREN]:
        return f"CAST({_LAST_OF_NAME.format(name=repr(chain_header))} AS STRING)", after[0]
    wants = f"{HEADER_OF_NAME}('name')" if name == HEADER_OF_NAME else f"{name}()"
    raise DescriptionError(f"{name} in {sql!r} has other arguments than it takes.", hint=f"Write {wants}.")
