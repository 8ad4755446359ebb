"""Fold an increment without the records for which a step of the node raises.

Law: the steps are first evaluated for all rows in one job, and only if that fails for records apart from one another. Both
lead to the same rows (see `NodeRows.computed_frame`), so which way an increment took shows in no table. Steps that tasks
evaluate raise for no row; where a value needs Spark, Spark evaluates the steps of the increment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.errors import PythonException

from headrace.description import ProcessorError
from headrace.description.feeds import RESULT
from headrace.description.wording import listed
from headrace.engine.folding.fold_increment import FoldResult, selections_of
from headrace.engine.folding.fold_stages import Increment
from headrace.engine.steps.apart import Apart, UnusableRecordsError, set_apart, still_raising
from headrace.engine.steps.unusable import Unusable
from headrace.expressions import SparkNeededError
from headrace.fold.changes.station import Selection
from headrace.fold.contract import INGESTED, OFFSET, PARTITION, REASON, TOPIC, Times
from headrace.fold.fates import DEAD_LETTER
from headrace.operators.processors.fold.process_records import REFUSED
from headrace.spark.errors.step_errors import raised_for_a_row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.nodes.bound_operator import BoundOperator

Marks = Mapping[str, int]


@dataclass(frozen=True)
class KnownUnusable:
    """The remembered records that a node cannot use.

    read     gives those after the first and through the second commit time of each topic
    trusted  False: each record is evaluated again before it is set apart, and counts as one that was not known
    """

    read: Callable[[Marks, Marks], Sequence[Unusable]]
    trusted: bool


def fold_usable(
    spark: SparkSession, of: BoundOperator, increment: Increment, known: KnownUnusable
) -> tuple[FoldResult, Times, Apart]:
    """Fold an increment: what it leads to, its clocks, and what was set apart of it.

    Raises: UnusableRecordsError; what else a job fails with
    """
    try:
        found, times = of.fold.fold(spark, increment)
    except Exception as error:
        if is_spark_needed(error):
            return fold_usable(spark, of.by_spark(spark), increment, known)
        if raised_for_a_row(error) is None:
            raise
        _refuse_processor(error)
        if not of.rows.stepped:
            _refuse_selection(of, error)
            raise
    else:
        return found, times, _with_refused(Apart(increment.upto_ms), found)
    apart = _set_apart(spark, of, increment, known)
    try:
        found, times = of.fold.fold(spark, _through(increment, apart.upto_ms), apart.unusable)
    except Exception as error:
        _refuse_processor(error)
        _refuse_selection(of, error)
        raise
    return found, times, _with_refused(apart, found)


def is_spark_needed(error: Exception) -> bool:
    """True if a term met a value for which only Spark is proven: in this process, or in a task of Spark."""
    name = SparkNeededError.__name__
    return isinstance(error, SparkNeededError) or (isinstance(error, PythonException) and name in str(error))


def _with_refused(apart: Apart, result: FoldResult) -> Apart:
    """The same with the records for which a processor raises: its fold finds them, each time anew."""
    refused = [
        Unusable(RESULT, row[TOPIC], row[PARTITION], row[OFFSET], row[INGESTED], DEAD_LETTER, row[REASON])
        for rows in result.outputs.get(REFUSED, ())
        for row in rows.to_pylist()
    ]
    return replace(apart, unusable=[*apart.unusable, *refused], added=[*apart.added, *refused])


def _set_apart(spark: SparkSession, of: BoundOperator, increment: Increment, known: KnownUnusable) -> Apart:
    done_ms, logs = increment.before.upto_ms, of.rows.logs(spark, increment.slices)
    before = known.read(done_ms, increment.upto_ms)
    if before and not known.trusted:
        before = still_raising(of.rows, logs, before)
    apart = set_apart(of.rows, logs, done_ms, increment.upto_ms, before)
    return apart if known.trusted else replace(apart, added=apart.unusable)


def _through(increment: Increment, upto_ms: Marks) -> Increment:
    """The increment, no further than these commit times."""
    slices = {name: replace(each, through_ms=upto_ms[name]) for name, each in increment.slices.items()}
    return replace(increment, slices=slices, upto_ms=upto_ms)


def _refuse_processor(error: Exception) -> None:
    """Say what a user's processor raised in a task as it says it in the driver."""
    name, _, said = (raised_for_a_row(error) or "").partition(": ")
    if name.rpartition(".")[2] == ProcessorError.__name__:
        raise ProcessorError(said) from error


def _refuse_selection(of: BoundOperator, error: Exception) -> None:
    """Stop for SQL of a join, or after a table, that raises: a row is made of several records, none at fault alone."""
    selections = [each for step in of.operator.steps for each in selections_of(step).values()]
    computed = [*dict.fromkeys(sql for selection in selections for sql in selection.values.values())]
    of_joins = all(isinstance(each, Selection) for each in selections)
    what = "the select of a join" if of_joins else "a step after a table, or the select of a join,"
    said = None if isinstance(error, PythonException) else raised_for_a_row(error)
    if computed and said is not None:
        raise UnusableRecordsError(
            f"Node '{of.operator.node.name}': {what} raises for one of its rows: {said}",
            detail=f"It computes {listed(computed)}.",
            hint="Compute it by a step of one side, which sets a record apart, or by functions that do not raise.",
        ) from error
