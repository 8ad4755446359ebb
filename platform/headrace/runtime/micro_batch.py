"""A micro-batch that is worked out and not yet written: in Spark's frames, or in files that Arrow has written already."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.operators.operator import AppendedOperator, CurrentOperator
from headrace.spark.actions import append_files, append_rows
from headrace.spark.newest import rows_of_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from headrace.errors import TerminalError
    from headrace.operators.operator import Folded, Held, Operator, Schemas
    from headrace.operators.progress import Progress
    from headrace.runtime.columnar import FoldedFiles

    Append = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class MicroBatch:
    """What to write, and how (see `Folded`).

    results         appended results, as sinks get them; None: there are none, or nobody asks for them
    append_results  commits them with a record; None: there are none
    append_state    the same of the state
    """

    progress: Progress
    results: DataFrame | None
    append_results: Append | None
    append_state: Append
    emitted: Callable[[], DataFrame] | None
    refused: TerminalError | None = None
    release: Callable[[], object] = lambda: None


def in_frames(folded: Folded, table: str, state: str) -> MicroBatch:
    """One that Spark will write; `table`, `state`: paths of the node's tables."""
    results = folded.results
    return MicroBatch(
        folded.progress,
        results,
        None if results is None else lambda record: append_rows(results, table, record),
        lambda record: append_rows(folded.state, state, record),
        folded.emitted,
        folded.refused,
        folded.release,
    )


def in_files(
    spark: SparkSession,
    operator: Operator[Any],
    schemas: Schemas,
    made: FoldedFiles,
    table: str,
    state: str,
    *,
    logs: Mapping[str, DataFrame],
    held: Callable[[], Held],
) -> MicroBatch:
    """One whose files lie in the folders of the node's tables.

    In: logs  the increment; held: gives what was held before it
    """
    results: DataFrame | None = None
    emitted: Callable[[], DataFrame] | None = None
    if not operator.node.sinks:
        pass
    elif isinstance(operator, CurrentOperator):
        rows = rows_of_files(spark, [f"{state}/{file.path}" for file in made.state], schemas.state)
        if made.state:
            emitted = lambda: operator.emitted(logs, held(), rows, made.progress)  # noqa: E731
    elif made.results:
        results = rows_of_files(spark, [f"{table}/{file.path}" for file in made.results], schemas.results)
        assert isinstance(operator, AppendedOperator)
        emitted = partial(operator.emitted, results)
    return MicroBatch(
        made.progress,
        results,
        (lambda record: append_files(spark, table, made.results, record)) if made.results else None,
        lambda record: append_files(spark, state, made.state, record),
        emitted,
    )
