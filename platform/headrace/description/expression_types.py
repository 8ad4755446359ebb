"""The types of expressions, as Spark would find them, while a pipeline is described."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

import pyarrow as pa
from sqlglot import exp

from headrace.description.arrow_types import arrow_type
from headrace.description.expressions import syntax_tree
from headrace.description.record_metadata import PLAIN, runnable
from headrace.description.schema import Column
from headrace.expressions import Term, spelled_for_sqlglot, term_of
from headrace.expressions.types import NULL, ddl_of

# What the functions of `record_metadata` stand for, where that is a column of the log.
_OF_RECORDS = {sql.strip("`"): arrow_type(of) for sql, of in PLAIN.values() if sql.startswith("`")}


def type_in(sql: str, columns: Iterable[Column]) -> str | None:
    """The type of an expression over a row with these columns, as DDL; None: only Spark knows it.

    In: columns  those of which the type is known
    """
    return _known(sql, tuple((column.name.lower(), column.type) for column in columns))[0]


def term_over(sql: str, types: Mapping[str, pa.DataType]) -> Term | None:
    """The term of a step's expression; None: only Spark knows its type. In: types  of the known columns, in lower case."""
    tree = syntax_tree(spelled_for_sqlglot(runnable(sql).sql), "the expression")
    return term_of(tree.this if isinstance(tree, exp.Alias) else tree, types)


def is_covered(sql: str, columns: Iterable[Column]) -> bool:
    """Whether an expression is evaluated over Arrow columns, without Spark. In: the columns whose type is known."""
    return _known(sql, tuple((column.name.lower(), column.type) for column in columns))[1]


@lru_cache(maxsize=4096)
def _known(sql: str, columns: tuple[tuple[str, str], ...]) -> tuple[str | None, bool]:
    """The type of an expression, and whether it is evaluated without Spark."""
    term = term_over(sql, _OF_RECORDS | {name: arrow_type(of) for name, of in columns})
    if term is None or term.type == NULL:
        return None, False
    return ddl_of(term.type), term.evaluate is not None
