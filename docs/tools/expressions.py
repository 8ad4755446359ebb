"""A page of what expressions Headrace evaluates, made by asking the code about each function, operator and cast.

A function counts by the calls that the differential test has recorded from Spark (`tests/expressions`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import product

import pyarrow.parquet as pq
from sqlglot import parse_one
from sqlglot.errors import SqlglotError

from headrace.description.functions import TRY_FORMS
from headrace.description.spark_functions import SPARK_FUNCTIONS
from headrace.expressions import spelled_for_sqlglot, term_of
from tests.expressions.boundary_rows import SCHEMA
from tests.expressions.record import recorded

HERE, TYPED, SPARK = "evaluated", "type known", "Spark alone"
COLUMNS = {field.name: field.type for field in SCHEMA}
OPERATORS = {
    "`+` `-` `*`": ("{a} + {b}", "{a} - {b}", "{a} * {b}"),
    "`/`": ("{a} / {b}",),
    "`%`": ("{a} % {b}",),
    "`DIV`": ("{a} DIV {b}",),
    "`=` `<>` `<` `<=` `>` `>=` `<=>`": ("{a} = {b}", "{a} < {b}", "{a} <=> {b}"),
    "`AND` `OR` `NOT`": ("{a} AND NOT {b}", "{a} OR {b}"),
    "`IS NULL`": ("{a} IS NULL",),
    "`IN` `BETWEEN`": ("{a} IN ({b}, {a})", "{a} BETWEEN {b} AND {b}"),
    "`CASE` `IF`": ("CASE WHEN b THEN {a} ELSE {b} END",),
    "`LIKE`": ("{a} LIKE '%a_'",),
    "`||`": ("{a} || {b}",),
    "`round`, with a literal number of places": ("round({a})", "round({a}, 2)", "round({a}, -2)"),
    "field, element, value of a key": ("st.n", "ar[0]", "m['a']"),
}
OF_TYPE = {  # a column of each type
    "BOOLEAN": "b", "TINYINT": "t", "SMALLINT": "h", "INT": "i", "BIGINT": "l", "FLOAT": "f", "DOUBLE": "x",
    "DECIMAL(10,2)": "d", "STRING": "s", "DATE": "day", "TIMESTAMP": "ts",
}  # fmt: skip
_CALL = re.compile(r"(\w+)\(")
_INTRO = (
    "# Expressions\n\nSteps, aggregates and timestamps take Spark SQL text. Headrace reads it and finds its type while a "
    "pipeline is described. It evaluates what stands here as *evaluated* itself, over Arrow columns, without a Spark job. "
    "Spark evaluates all else, and `headrace plan` marks such a step. If Spark has to evaluate one step of a chain, it "
    "evaluates the whole chain. The rows are the same.\n\n"
    "Each line follows from the code, and the code from a comparison with Spark: types, values by their bits, and nulls "
    "([design note](../design/0010-expressions.md)).\n"
)


def page() -> str:
    """The page."""
    return "\n".join([_INTRO, _functions(), _operators(), _casts()])


@cache
def outcome(sql: str) -> str:
    """How far an expression over `boundary_rows` is covered."""
    try:
        term = term_of(
            parse_one(f"SELECT {spelled_for_sqlglot(sql)}", dialect="spark").expressions[0], COLUMNS
        )
    except SqlglotError:
        return SPARK
    if term is None:
        return SPARK
    return TYPED if term.evaluate is None else HERE


def functions() -> Mapping[str, set[str]]:
    """Each function that a step may call, and how far its recorded calls are covered."""
    covered: dict[str, set[str]] = defaultdict(set)
    for text in pq.read_schema(recorded()).names:
        name = _called(text)
        if name in SPARK_FUNCTIONS and name not in TRY_FORMS:
            covered[name].add(outcome(text))
    return covered


def _called(text: str) -> str:
    """The function that an expression calls and does nothing with; empty: it is something else."""
    called = _CALL.match(text)
    depth = 0
    for place in range(called.end() - 1, len(text)) if called else ():
        depth += (text[place] == "(") - (text[place] == ")")
        if depth == 0:
            return called[1].lower() if called and place == len(text) - 1 else ""
    return ""


def _functions() -> str:
    covered = functions()
    rows = {
        "evaluated": [name for name, outcomes in covered.items() if outcomes == {HERE}],
        "evaluated for some types or arguments": [n for n, o in covered.items() if HERE in o and o != {HERE}],
        "type known, computed by Spark": [n for n, o in covered.items() if HERE not in o and TYPED in o],
    }
    return "\n## Functions\n\n| | functions |\n| --- | --- |\n" + "\n".join(
        f"| {title} | {_listed(names)} |" for title, names in rows.items()
    )


def _operators() -> str:
    lines = [f"| {name} | {_listed(_types(forms)) or 'none'} |" for name, forms in OPERATORS.items()]
    head = "\n\n## Operators\n\nWith operands of one type; numbers of two types are widened first.\n\n"
    return head + "| operator | evaluated for |\n| --- | --- |\n" + "\n".join(lines)


def _types(forms: Iterable[str]) -> list[str]:
    """The types for which all forms are evaluated."""
    if all("{" not in form for form in forms):
        return ["STRUCT", "ARRAY"] if all(outcome(form) == HERE for form in forms) else []
    return [
        name
        for name, column in OF_TYPE.items()
        if all(outcome(form.format(a=column, b=column)) == HERE for form in forms)
    ]


def _casts() -> str:
    pairs = [
        (of, to)
        for (of, column), to in product(OF_TYPE.items(), OF_TYPE)
        if of != to and outcome(f"CAST({column} AS {to})") == HERE
    ]
    lines = [f"| {of} | {_listed(to for one, to in pairs if one == of)} |" for of in OF_TYPE]
    return "\n\n## Casts\n\n| from | evaluated to |\n| --- | --- |\n" + "\n".join(lines) + "\n"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
