"""Checks of what users expect of a node's rows, on the whole table and on each increment.

Laws: an increment can only make a check fail. Whether it holds is said of the whole table, by Great Expectations.
      A verdict holds values of rows only where no key can be erased (see `failing_rows`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pyspark.sql import functions as F

from headrace import lake as lakes
from headrace.lake.commits.commit_file import read_commit
from headrace.observe.views import without_internal
from headrace.quality.claims import Check, Claim, Finding, Outcome
from headrace.quality.figures.failing_rows import can_be_erased, examples, row_text
from headrace.quality.words import counted, joined, percent, short
from headrace.spark.lake_rows import rows_of_files, spark_schema
from headrace.spark.row_steps import expression_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node
    from headrace.description.expectations import Expectation
    from headrace.lake.paths import Lake
    from headrace.quality.books import Books
    from headrace.quality.results import Number

COMMITS_MAX = 5_000  # a longer pause is left to the check of the whole table
# They observe a value that stands in one row; other numbers are made of many rows.
OF_ONE_ROW = tuple(f"ExpectColumn{of}ToBeBetween" for of in ("Max", "Min", "Median"))
ADVICE = "mend what makes such rows, set them apart with .quarantine(…), or change the expectation"


@dataclass(frozen=True)
class Increment:
    """The rows that commits of a table brought.

    version  the last commit that was looked at; -1: the table does not exist yet
    rows     in the files that they added
    failing  by expectation, the rows that fail it; only those that some row fails
    """

    version: int
    rows: int = 0
    failing: Mapping[str, int] = field(default_factory=dict)


def expected_checks(books: Books) -> list[Check]:
    """A check for each expectation of a node, on all rows of its table."""
    return [_check(each, books) for each in books.node.expectations]


def newest_version(lake: Lake, node: Node) -> int:
    """The version from which increments of a table count; -1: it does not exist yet."""
    table = lakes.open_table(lake.table(node.required_name))
    return table.version if table.exists else -1


def judge_increment(spark: SparkSession, lake: Lake, node: Node, after: int) -> Increment:
    """Judge the rows that commits after a version added, by the expectations that are about single rows.

    Where rows are revised, the files of a commit hold neighbours of the changed rows, too.
    """
    uri, newest = lake.table(node.required_name), newest_version(lake, node)
    rules = {each.name: each.condition for each in node.expectations if each.condition is not None}
    names = _added(uri, after, newest) if rules and newest - after <= COMMITS_MAX else []
    if not names:
        return Increment(newest)
    rows = rows_of_files(spark, uri, names, spark_schema(lakes.open_table(uri)))
    fails = [F.count_if(~expression_of(condition)).alias(name) for name, condition in rules.items()]
    found = rows.agg(F.count(F.lit(1)).alias("__rows"), *fails).first()
    assert found is not None
    return Increment(newest, found["__rows"], {name: found[name] for name in rules if found[name]})


def sentence_of_increment(
    expectation: Expectation, increment: Increment, node: Node, *, failed: int | None = None
) -> str:
    """The sentence about rows that a node's table gained and that fail.

    In: failed  how many increments had such rows, if `found` is the sum of several; None: it is one
    """
    failing, name = increment.failing[expectation.name], node.required_name
    when = "last" if failed is None else f"since the last report, in {counted(failed, 'increment')},"
    return (
        f"{failing:,} of {counted(increment.rows, 'row')} that {name} gained {when} {_fail(failing)}: "
        f"{_bare(expectation)}{_command(expectation, node)}; {ADVICE}."
    )


def _added(uri: str, after: int, newest: int) -> list[str]:
    """The files that commits added with new rows; those that were packed since stay on the disk for days."""
    commits = (read_commit(uri, version) for version in range(after + 1, newest + 1))
    added = (action for commit in commits if commit is not None for action in commit.added)
    return [unquote(action["path"]) for action in added if action.get("dataChange", True)]


def _check(expectation: Expectation, books: Books) -> Check:
    rows, name = without_internal(books.results), books.node.required_name
    if not books.progress.batch:
        nothing = Finding(f"{name} has no row yet: nothing to judge.")
        return Check(expectation.name, None, lambda _: nothing, severity=expectation.severity)
    claim = Claim(rows, expectation, {}, samples=False)
    return Check(
        expectation.name,
        claim,
        lambda passed: Finding(_bare(expectation)),
        describe=lambda outcome: _finding(expectation, outcome, rows, books.node),
        severity=expectation.severity,
    )


def _finding(expectation: Expectation, outcome: Outcome, rows: DataFrame, node: Node) -> Finding:
    observed, name = outcome.observed, node.required_name
    numbers = {
        key: value
        for key in ("element_count", "unexpected_count")
        if (value := _number(observed, key)) is not None
    }
    told = {"element_count": "rows", "unexpected_count": "failing"}
    facts: dict[str, Number] = {told[key]: value for key, value in numbers.items()}
    seen = _seen(expectation, observed.get("observed_value"), node)
    if outcome.passed:
        over = (
            f"All {counted(int(facts['rows']), 'row')} of {name} meet it"
            if facts.get("failing") == 0
            else f"{name} meets it"
        )
        return Finding(f"{over}: {_bare(expectation)}{seen}.", facts)
    if "failing" in facts and facts.get("rows"):
        failing, total = int(facts["failing"]), int(facts["rows"])
        share = percent(failing / total)
        told_of = f"{failing:,} of {counted(total, 'row')} of {name}, {share}, {_fail(failing)}: {_bare(expectation)}"
        shown = _command(expectation, node) or _examples(expectation, rows, node)
        return Finding(f"{told_of}{shown}; {ADVICE}.", facts)
    return Finding(f"{name} fails it: {_bare(expectation)}{seen}; {ADVICE}.", facts)


def _fail(number: int) -> str:
    return "fails it" if number == 1 else "fail it"


def _examples(expectation: Expectation, rows: DataFrame, node: Node) -> str:
    """The first rows that fail, where a row alone tells."""
    if expectation.condition is None:
        return ""
    shown = [name for name in dict.fromkeys((*node.key, *expectation.columns)) if name in rows.columns]
    texts = [f"({row_text(row, shown)})" for row in examples(rows, expectation)]
    return f", such as {joined(texts)}" if texts else ""


def _command(expectation: Expectation, node: Node) -> str:
    """How to see rows that fail, if a verdict may not hold them."""
    told = expectation.condition is not None and can_be_erased(node)
    return f"; `headrace failing {node.required_name}` shows them" if told else ""


def _seen(expectation: Expectation, value: Any, node: Node) -> str:
    """The observed value, unless it may be a value of a row that can be erased."""
    is_measure = (
        isinstance(value, int | float)
        and expectation.of.__name__ not in OF_ONE_ROW
        and not {*expectation.columns} & {*node.key}
    )
    return "" if value is None or (can_be_erased(node) and not is_measure) else f"; observed: {short(value)}"


def _bare(expectation: Expectation) -> str:
    return expectation.claim.rstrip(".")


def _number(observed: Mapping[str, Any], key: str) -> int | None:
    value = observed.get(key)
    return int(value) if isinstance(value, int | float) else None
