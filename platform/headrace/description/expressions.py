"""SQL expressions over one record, read before anything runs.

Law: an expression is a function of its record alone. Aggregates, window functions, subqueries, and whatever
depends on when or where the program runs (rand, current_timestamp, 'now' read as a time) are refused.
Source: sqlglot's Spark dialect for the syntax; `functions.py` for the names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import Token, TokenType, exp, parse
from sqlglot.errors import ParseError, SqlglotError

from headrace.description.function_arguments import refuse_numbers_of_arguments
from headrace.description.functions import RUN_DEPENDENT_WORDS, why_refused
from headrace.description.other_dialects import refuse_other_forms, refuse_other_words
from headrace.description.pointing import marked, marked_name
from headrace.description.record_metadata import TYPES, runnable
from headrace.description.spark_functions import OF_THE_GRAMMAR, SPARK_FUNCTIONS
from headrace.description.units_of_time import refuse_units
from headrace.description.wording import a_value, did_you_mean
from headrace.errors import DescriptionError
from headrace.expressions.functions import tokens_of

_SELECT = "SELECT "
TEXT_SHOWN = 200  # letters of an expression that nobody can read
_SPECIAL_TIMES = re.compile(r"\s*(now|today|tomorrow|yesterday)(\s+\S+)?\s*", re.IGNORECASE)
_TIME_ALONE = re.compile(r"\s*(\d+:|T)")
_QUANTIFIED = frozenset({"LIKE", "ILIKE", "RLIKE"})


@dataclass(frozen=True)
class Expression:
    """An expression: its text, the column that it makes ("" when it names none), the columns that it reads.

    `source` is the column that it merely repeats, as in "value" or "value AS v", otherwise None; `aliased`
    says whether its name comes from "AS name". `paths` are the columns with the fields named after them; `repeats` is
    the path that it merely repeats, otherwise empty. `type` is what a CAST makes of it, or BOOLEAN of a condition, as
    sqlglot writes it; None where only Spark knows. `compares`: whether it holds a comparison. `connects`: whether it holds
    AND, OR or NOT.
    """

    sql: str
    name: str
    columns: frozenset[str]
    source: str | None = None
    aliased: bool = False
    paths: frozenset[tuple[str, ...]] = frozenset()
    repeats: tuple[str, ...] = ()
    type: str | None = None
    compares: bool = False
    connects: bool = False


def parse_expression(sql: str, what: str) -> Expression:
    """Read one expression.

    In: `sql`, in Spark's dialect, with or without "AS name"; `what` names it in errors.
    Out: columns as they are written; of a nested field `address.city` the column `address`.
    Raises: DescriptionError with text and position when it cannot be read, or when it would break the law.
    """
    if not isinstance(sql, str) or not sql.strip():
        raise DescriptionError(
            f"{what}: {a_value(sql)} is not an expression.", hint="Write SQL, for example 'value >= 0'."
        )
    return _read(sql.strip(), what)


@lru_cache(maxsize=1024)
def _read(sql: str, what: str) -> Expression:
    tokens = tokens_of(sql)
    _refuse_functions(tokens, sql, what)  # sqlglot cannot read some of these
    refuse_numbers_of_arguments(tokens, sql, what)
    refuse_units(tokens, sql, what)
    refuse_other_words(tokens, sql, what)
    tree = syntax_tree(sql, what)
    refuse_other_forms(tokens, tree, sql, what)
    runnable(sql)
    _refuse_unknown_functions(tree, sql, what)
    _refuse_shapes(tree, sql, what)
    _refuse_special_times(tree, sql, what)
    inner = tree.this if isinstance(tree, exp.Alias) else tree
    paths = frozenset(path_of(each) for each in tree.find_all(exp.Column, exp.Bracket) if path_of(each))
    repeats = path_of(inner) if isinstance(inner, exp.Column) else ()
    return Expression(
        sql,
        _name_of(tree),
        frozenset(path[0] for path in paths),
        repeats[0] if len(repeats) == 1 else None,
        isinstance(tree, exp.Alias),
        paths,
        repeats,
        _type_of(inner),
        tree.find(exp.Predicate) is not None,
        tree.find(exp.Connector, exp.Not) is not None,
    )


def _type_of(tree: exp.Expr) -> str | None:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.Anonymous) and str(tree.this).lower() in TYPES:
        return TYPES[str(tree.this).lower()]
    if isinstance(tree, exp.Cast):
        return str(tree.to.sql(dialect="spark"))
    return "BOOLEAN" if isinstance(tree, exp.Predicate) else None


def path_of(column: exp.Expr) -> tuple[str, ...]:
    """The column's name, and the names of the fields after it, as `page.url` or `page['url']`; of all else nothing."""
    if isinstance(column, exp.Bracket):
        (index, *others), above = column.expressions, path_of(column.this)
        is_field = above and not others and isinstance(index, exp.Literal) and index.is_string
        return (*above, index.name) if is_field else ()
    return tuple(part.name for part in column.parts) if isinstance(column, exp.Column) else ()


def shortened(sql: str) -> str:
    """The beginning of an expression."""
    return sql if len(sql) <= TEXT_SHOWN else sql[:TEXT_SHOWN] + "…"


def syntax_tree(sql: str, what: str) -> exp.Expr:
    """The syntax tree of an expression, read as the one column of a SELECT, so that a column may be called `comment`."""
    try:
        statements = parse(_SELECT + sql, dialect="spark")
    except ParseError as error:
        raise _syntax_error(sql, what, error) from None
    except SqlglotError as error:
        raise DescriptionError(
            f"{what}: cannot read the expression {sql!r}.",
            detail=str(error),
            hint="Is every quotation mark closed?",
        ) from None
    except (AttributeError, IndexError, ValueError, RecursionError) as error:  # sqlglot's own, of odd calls
        raise DescriptionError(
            f"{what}: cannot read the expression {shortened(sql)!r}.",
            detail=f"{type(error).__name__}: {error}",
            hint="Look at the number and the kind of each function's arguments; split an expression that is very deep.",
        ) from None
    query = statements[0]
    is_select = isinstance(query, exp.Select) and len(statements) == 1 and not sql.endswith(";")
    if query is None or not is_select or any(query.args[key] for key in query.args if key != "expressions"):
        raise DescriptionError(
            f"{what}: {sql!r} is more than an expression.", hint="Write one expression alone."
        )
    if len(query.expressions) != 1:
        raise DescriptionError(
            f"{what}: {sql!r} is {len(query.expressions)} expressions.",
            hint="Pass each expression as an argument of its own.",
        )
    tree: exp.Expr = query.expressions[0]
    return tree


def _syntax_error(sql: str, what: str, error: ParseError) -> DescriptionError:
    first = error.errors[0] if error.errors else {}
    near, line = first.get("highlight") or "", first.get("line") or 1
    position = (
        (first.get("col") or len(_SELECT + sql)) - max(len(near), 1) + 1 - (len(_SELECT) if line == 1 else 0)
    )
    place = f"position {max(position, 1)}" if line == 1 else f"line {line}, position {max(position, 1)}"
    begins = sum(len(each) + 1 for each in sql.split("\n")[: line - 1])
    return DescriptionError(
        f"{what}: cannot read the expression {sql!r} near '{near or sql}' at {place}.",
        detail=marked(sql, begins + max(position, 1) - 1, len(near)),
        hint=f"If '{near}' is a column, put it in backquotes." if near.isidentifier() else None,
    )


def _name_of(tree: exp.Expr) -> str:
    if isinstance(tree, exp.Alias):
        return str(tree.alias)
    root = tree
    while isinstance(root, exp.Dot) and isinstance(root.expression, exp.Identifier):
        root = root.this
    return str(tree.name) if isinstance(root, exp.Column) else ""


def _refuse_shapes(tree: exp.Expr, sql: str, what: str) -> None:
    """Refuse what is no expression over one record, whatever functions it calls."""
    problems: tuple[tuple[tuple[type[exp.Expr], ...], str, str], ...] = (
        (
            (exp.Query, exp.Subquery),
            "holds a subquery",
            "An expression sees one record; join tables instead.",
        ),
        ((exp.Window, exp.WithinGroup), "looks at other records", "Use .group_by(…).window(…).aggregate(…)."),
        ((exp.Star,), "holds a *", "Name the columns."),
        (
            (exp.Placeholder, exp.Parameter, exp.SessionParameter),
            "holds a parameter or a ':' path",
            "Write the parameter's value; for a path use get_json_object.",
        ),
        ((exp.Aliases,), "names several columns", "Write one expression for each column."),
    )
    for types, problem, hint in problems:
        if tree.find(*types):
            raise DescriptionError(f"{what}: {sql!r} {problem}.", hint=hint)


def _refuse_functions(tokens: list[Token], sql: str, what: str) -> None:
    """Refuse functions by the names that the user wrote: a word before a parenthesis is a call."""
    for index, token in enumerate(tokens):
        if token.token_type == TokenType.STRING:
            continue
        following = [later.token_type for later in tokens[index + 1 : index + 3]]
        if following[:1] == [TokenType.L_PAREN]:
            if index and tokens[index - 1].text.upper() in _QUANTIFIED:
                continue
            refusal = why_refused(token.text, has_arguments=following[1:] != [TokenType.R_PAREN])
        elif _is_run_dependent_word(tokens, index):
            refusal = why_refused(token.text, has_arguments=False)
        else:
            continue
        if refusal:
            raise DescriptionError(
                f"{what}: {token.text} in {sql!r} {refusal[0]}.",
                detail=marked(sql, token.start, len(token.text)),
                hint=refusal[1],
            )


def _refuse_unknown_functions(tree: exp.Expr, sql: str, what: str) -> None:
    """Refuse a function that neither the parser nor Spark knows."""
    known = SPARK_FUNCTIONS | OF_THE_GRAMMAR | TYPES.keys()
    for call in tree.find_all(exp.Anonymous):
        name = str(call.this)
        if name.lower() not in known and not isinstance(call.parent, exp.Dot):
            raise DescriptionError(
                f"{what}: there is no function {name} in {sql!r}.",
                detail=marked_name(sql, name),
                hint=did_you_mean(name, known) or "Functions are those of Spark SQL.",
            )


def _is_run_dependent_word(tokens: list[Token], index: int) -> bool:
    token = tokens[index]
    beside = [tokens[i].token_type for i in (index - 1, index + 1) if 0 <= i < len(tokens)]
    is_part_of_name = token.token_type == TokenType.IDENTIFIER or TokenType.DOT in beside
    return not is_part_of_name and token.text.lower() in RUN_DEPENDENT_WORDS


def _refuse_special_times(tree: exp.Expr, sql: str, what: str) -> None:
    """Refuse 'now' and its like: Spark reads them as the run's own time where a date or time is expected."""
    for literal in tree.find_all(exp.Literal):
        parent = literal.parent
        is_text = isinstance(parent, exp.Cast) and parent.to.this == exp.DType.TEXT
        if isinstance(parent, exp.Cast) and _is_time(parent) and _TIME_ALONE.match(str(literal.this)):
            raise DescriptionError(
                f"{what}: '{literal.this}' in {sql!r} is a time without a date, so it would depend on the day.",
                detail=marked_name(sql, str(literal.this)),
                hint="Write the date, too.",
            )
        if literal.is_string and not is_text and _SPECIAL_TIMES.fullmatch(literal.this):
            raise DescriptionError(
                f"{what}: '{literal.this}' in {sql!r} depends on the run where a date or time is expected.",
                detail=marked_name(sql, str(literal.this)),
                hint=f"If text is meant, write CAST('{literal.this}' AS STRING).",
            )


def _is_time(cast: exp.Cast) -> bool:
    return cast.to.this in (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPTZ)
