"""Claims about frames, in the few expectations that the checks need, and how a claim becomes a check.

No value of a record may reach the pages of Great Expectations: they do not escape what they show. So
figures are numbers and names of ours alone, and a claim about a table is judged without samples.
Figures are a few rows that this process has counted: no job of Spark judges them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F

from headrace.description import quote
from headrace.quality.results import Number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from headrace.description.expectations import Expectation

Figures = Mapping[str, Number]  # one row of them, by the names of columns


@dataclass(frozen=True)
class Claim:
    """One expectation about a frame of Spark, or about figures.

    expectation  name of a class in `great_expectations.expectations`, or an expectation of a user
    samples      whether its page may show rows that break the claim; a user's expectation has no page, for what it observes
                 are values
    """

    frame: DataFrame | pa.Table
    expectation: str | Expectation
    arguments: Mapping[str, Any]
    samples: bool


@dataclass(frozen=True)
class Outcome:
    """Whether a claim holds.

    error     why it could not be judged (then it does not pass); None: it was judged
    observed  what Great Expectations observed, by its names, as `unexpected_count`
    """

    passed: bool
    error: str | None = None
    observed: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """The words about a claim that was judged."""

    sentence: str
    metadata: Mapping[str, Number] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """A claim, and how to put into words that it holds or does not.

    claim     None: there is nothing to judge
    explain   from whether it holds; it may look for the culprit, so it is asked only once
    unjudged  whether the check passes when there is nothing to judge
    describe  the same from all that the judgement observed; None: whether it holds is enough
    severity  None: that of the thresholds
    """

    name: str
    claim: Claim | None
    explain: Callable[[bool], Finding]
    unjudged: bool = True
    describe: Callable[[Outcome], Finding] | None = None
    severity: str | None = None


def nothing_to_judge(name: str, words: str, *, passes: bool = True) -> Check:
    """A check of what is not there yet, with the sentence of its result."""
    return Check(name, None, lambda _: Finding(words), unjudged=passes)


def pairs_equal(figures: Sequence[Figures], left: str, right: str) -> Claim:
    """Two numbers of each row are the same. In: figures  a row at least; each has these numbers."""
    arguments = {"column_A": left, "column_B": right}
    return Claim(pa.Table.from_pylist(figures), "ExpectColumnPairValuesToBeEqual", arguments, samples=True)


def at_most(figures: Sequence[Figures], column: str, limit: float) -> Claim:
    """No number of the column exceeds the limit. In: figures  a row at least; each has this number."""
    arguments = {"column": column, "max_value": limit}
    return Claim(pa.Table.from_pylist(figures), "ExpectColumnValuesToBeBetween", arguments, samples=True)


def rows_unique(frame: DataFrame, columns: Sequence[str]) -> Claim:
    """No two rows agree in all these columns. Great Expectations is given them under names it can quote."""
    safe = {
        name: f"key_{i}_{''.join(c if c.isalnum() else '_' for c in name)}" for i, name in enumerate(columns)
    }
    keys = frame.select(*(F.col(quote(name)).alias(alias) for name, alias in safe.items()))
    if len(safe) == 1:
        return Claim(keys, "ExpectColumnValuesToBeUnique", {"column": keys.columns[0]}, samples=False)
    arguments = {"column_list": keys.columns, "ignore_row_if": "never"}
    return Claim(keys, "ExpectCompoundColumnsToBeUnique", arguments, samples=False)
