"""The steps that only Spark computes, and the version by whose rules it does.

Law: a step that is covered gives the values that the differential test has compared (see `headrace.expressions`). Those of
any other follow from Spark's version. So the version is among the rules of such a step, and another is a change of the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from headrace.description.expression_types import is_covered
from headrace.description.steps import Transform

if TYPE_CHECKING:
    from headrace.description.shape import Shape
    from headrace.description.steps import Step

SPARK = "spark"  # among the rules of a step


@cache
def spark_version() -> str:
    """The version of Spark that this installation runs."""
    return version("pyspark")


def needs_spark(step: Step, before: Shape) -> bool:
    """Whether only Spark computes a step. In: the columns before it."""
    return isinstance(step, Transform) or not covers(step.texts, before)


def covers(texts: Iterable[str], columns: Shape) -> bool:
    """Whether expressions over these columns are evaluated without Spark."""
    return all(is_covered(sql, columns.types.values()) for sql in texts)


def each_with_need(steps: Iterable[Step], before: Shape) -> Iterator[tuple[Step, bool]]:
    """Steps in their order, and whether only Spark computes each. In: the columns before the first."""
    for step in steps:
        yield step, needs_spark(step, before)
        before = step.applied_to(before)


def steps_by_spark(rules: Any) -> Sequence[dict[str, Any]]:
    """The steps among the rules of a node that only Spark computes."""
    if isinstance(rules, dict):
        own = [rules] if SPARK in rules and "step" in rules else []
        return own + [step for each in rules.values() for step in steps_by_spark(each)]
    if isinstance(rules, list | tuple):
        return [step for each in rules for step in steps_by_spark(each)]
    return []
