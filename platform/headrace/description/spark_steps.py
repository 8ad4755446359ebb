"""The steps that only Spark computes, and the version by whose rules it does.

Law: a step that is covered gives the values that the differential test has compared (see `headrace.expressions`). Those of
any other follow from Spark's version. So another version than BASELINE is among the rules of such a step, and changes the
node. A covered step counts as covered also where Spark evaluates it: after tables, and for a batch with a value for which
only Spark is proven. Before BASELINE's successor is taken, the test compares all of these anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, TypeVar

from headrace.description.expression_types import is_covered
from headrace.description.steps import Transform

if TYPE_CHECKING:
    from headrace.description.schema import Column
    from headrace.description.shape import Shape
    from headrace.description.steps import Step

S = TypeVar("S", bound="Step")
SPARK = "spark"  # among the rules of a step
BASELINE = "4.1.3"  # rules without a version are of this one


@cache
def spark_version() -> str:
    """The version of Spark that this installation runs."""
    return version("pyspark")


def rules_of_spark(*, needed: bool) -> dict[str, str]:
    """The version among the rules of a step. In: needed  whether only Spark computes it."""
    return {SPARK: spark_version()} if needed and spark_version() != BASELINE else {}


def needs_spark(step: Step, before: Shape) -> bool:
    """Whether only Spark computes a step. In: the columns before it."""
    return isinstance(step, Transform) or not covers(step.texts, before.types.values())


def covers(texts: Iterable[str], columns: Iterable[Column]) -> bool:
    """Whether expressions over these columns are evaluated without Spark."""
    known = [*columns]
    return all(is_covered(sql, known) for sql in texts)


def each_with_need(
    steps: Iterable[S], before: Shape, after: Callable[[Shape, S], Shape] | None = None
) -> Iterator[tuple[S, bool]]:
    """Steps in their order, and whether only Spark computes each.

    In: before  the columns before the first
        after   gives the columns after a step; None: as of a stream
    """
    for step in steps:
        yield step, needs_spark(step, before)
        before = step.applied_to(before) if after is None else after(before, step)
