"""A micro-batch that is worked out and not yet written: in Spark's frames, or in files that Arrow has written already."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.operators.operator import AppendedOperator, CurrentOperator
from headrace.spark.lake_rows import append_rows, rows_of_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from headrace.errors import TerminalError
    from headrace.lake import TableWriter
    from headrace.operators.operator import Folded, Held, Operator, Schemas
    from headrace.operators.progress import Progress
    from headrace.runtime.columnar import FoldedFiles

    Append = Callable[[Mapping[str, Any]], object]


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


def in_frames(folded: Folded, to_results: TableWriter | None, to_state: TableWriter) -> MicroBatch:
    """One that Spark will write.

    In: to_results  None: results are not appended
    """
    results = folded.results
    return MicroBatch(
        folded.progress,
        results,
        None if results is None or to_results is None else partial(append_rows, to_results, results),
        partial(append_rows, to_state, folded.state),
        folded.emitted,
        folded.refused,
        folded.release,
    )


def in_files(
    spark: SparkSession,
    operator: Operator[Any],
    schemas: Schemas,
    made: FoldedFiles,
    to_results: TableWriter | None,
    to_state: TableWriter,
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
        rows = rows_of_files(spark, [f"{to_state.uri}/{file.path}" for file in made.state], schemas.state)
        if made.state:
            emitted = lambda: operator.emitted(logs, held(), rows, made.progress)  # noqa: E731
    elif made.results and to_results is not None:
        files = [f"{to_results.uri}/{file.path}" for file in made.results]
        results = rows_of_files(spark, files, schemas.results)
        assert isinstance(operator, AppendedOperator)
        emitted = partial(operator.emitted, results)
    return MicroBatch(
        made.progress,
        results,
        partial(to_results.append, made.results) if made.results and to_results is not None else None,
        partial(to_state.append, made.state),
        emitted,
    )
