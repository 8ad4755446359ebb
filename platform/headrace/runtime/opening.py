"""Opening balances: where a node stood at the cut of a log whose older rows are gone.

Law: the opening balance is the node's own fold of the rows that are cut, from the balance before. So what the rest of
the log leads to from there is what the whole log would have led to (L8: folding I·J is folding I, then J), and rows that
were final at the cut are those of the result table, which nothing revises.

The balance is a folder of tables, `state`, and of current results `results` and the parts, beside a file that names the
folder and holds the progress; that file is written last, so a balance is there whole or not at all.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace import lake as lakes
from headrace.description import quote
from headrace.errors import TerminalError
from headrace.lake import small_files
from headrace.operators import operator_of
from headrace.operators.operator import CurrentOperator, Held
from headrace.operators.progress import Progress
from headrace.operators.rows import NOT_RECORDS
from headrace.runtime.node_tables import node_schemas, read_log, read_stretches
from headrace.spark.frames import local_frame
from headrace.spark.lake_rows import append_rows, read_table
from headrace.spark.one_task import table_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node
    from headrace.runtime.lake import Lake

RESULTS, STATE = "results", "state"


@dataclass(frozen=True)
class Opening:
    """A node as of the cuts of its logs; before any cut it has folded nothing and holds nothing."""

    progress: Progress = field(default_factory=Progress)
    held: Held = field(default_factory=Held)

    @property
    def is_at_the_beginning(self) -> bool:
        """Whether no log of the node was ever cut."""
        return not self.progress.upto_ms

    def records(self, topic: str) -> dict[int, int]:
        """For each partition the records that were counted before the cut."""
        partitions = self.progress.records.get(topic, {})
        return {
            int(number): sum(records for fate, records in fates.items() if fate not in NOT_RECORDS)
            for number, fates in partitions.items()
        }

    def upto_ms(self, topic: str) -> int:
        """The commit time through which rows of a topic are in the balance."""
        return self.progress.upto_ms.get(topic, 0)


@dataclass(frozen=True)
class Standing:
    """What a log leads to: of appended results those since the opening; of current results all, and the parts, folded.

    release  frees what was cached; call it when all has been written or read
    """

    results: DataFrame
    state: DataFrame
    parts: Mapping[str, DataFrame]
    progress: Progress
    release: Callable[[], object]


def read_opening(spark: SparkSession, lake: Lake, node: Node) -> Opening:
    """The opening balance of a node.

    Raises: TerminalError when it was written by another description of the node.
    """
    name, operator = node.required_name, operator_of(node)
    entry = small_files.read_json(lake.opening(name))
    if entry is None:
        return Opening()
    if entry["fingerprint"] != node.fingerprint():
        raise TerminalError(
            f"Node '{name}': its opening balance was written by another description of it.",
            hint="Restore the description: the rows that the balance stands for are no longer in the log.",
        )
    progress, folder = Progress.from_json(entry["progress"]), entry["folder"]
    state = read_table(spark, f"{lake.openings(name)}/{folder}/{STATE}")
    if operator.appended:
        return Opening(progress, Held(None, state, _earlier(spark, lake, node, progress)))
    results = read_table(spark, f"{lake.openings(name)}/{folder}/{RESULTS}")
    parts = {part: read_table(spark, f"{lake.openings(name)}/{folder}/{part}") for part in operator.parts}
    return Opening(progress, Held(results, parts=parts))


def stand(
    spark: SparkSession, lake: Lake, node: Node, upto_ms: Mapping[str, int], opening: Opening
) -> Standing:
    """Fold the logs from the opening balance through a frontier."""
    operator, schemas, held = operator_of(node), node_schemas(spark, node), opening.held
    logs = {
        t.name: read_log(spark, lake, t, after_ms=opening.upto_ms(t.name), upto_ms=upto_ms.get(t.name, 0))
        for t in node.topics
    }
    folded = operator.fold(logs, upto_ms, held, opening.progress)
    if not isinstance(operator, CurrentOperator):
        nothing = local_frame(spark, [], schemas.results)
        state = folded.state.select(_columns(schemas.state.names))
        state = state if held.state is None else held.state.unionByName(state)
        results = nothing if folded.results is None else folded.results
        return Standing(results, state, {}, folded.progress, folded.release)
    now = Held(held.results, folded.state, parts=held.parts)
    results = _merged(held.results, operator.compacted(now, schemas.inputs), node.identity)
    changes = operator.compacted_parts(now)
    parts = {
        part: _merged(held.parts.get(part), rows, operator.parts[part]) for part, rows in changes.items()
    }
    return Standing(
        results.select(_columns(schemas.results.names)),
        folded.state.select(_columns(schemas.state.names)).limit(0),
        {part: rows.select(_columns(schemas.parts[part].names)) for part, rows in parts.items()},
        folded.progress,
        folded.release,
    )


def write_opening(spark: SparkSession, lake: Lake, node: Node, standing: Standing) -> None:
    """Make where a node stands its opening balance; the one before goes."""
    name, operator = node.required_name, operator_of(node)
    folder = uuid.uuid4().hex  # never one used before: Spark remembers what it has read by path
    schemas = node_schemas(spark, node)
    frames = {STATE: (operator.still_read(standing.state, standing.progress), schemas.state)}
    if not operator.appended:
        frames = {part: (rows, schemas.parts[part]) for part, rows in standing.parts.items()}
        frames |= {RESULTS: (standing.results, schemas.results), STATE: (standing.state, schemas.state)}
    for table, (rows, schema) in frames.items():
        path = f"{lake.openings(name)}/{folder}/{table}"
        opened = lakes.create(path, table_schema(schema))
        append_rows(lakes.TableWriter(opened, lakes.APPENDER), rows, {"writer": f"opening/{name}"})
    entry = {
        "folder": folder,
        "fingerprint": node.fingerprint(),
        "progress": standing.progress.to_json(),
    }
    small_files.write_json(lake.opening(name), entry)
    for other in small_files.names(lake.openings(name)):
        if other != folder:
            small_files.delete(f"{lake.openings(name)}/{other}")


def _earlier(
    spark: SparkSession, lake: Lake, node: Node, progress: Progress
) -> Callable[[Sequence[tuple[int, int]]], Mapping[str, DataFrame]]:
    """Rows of the logs that are in the balance, and are kept because something open at the cut asks for them again."""

    def read(stretches: Sequence[tuple[int, int]]) -> Mapping[str, DataFrame]:
        upto_ms = progress.upto_ms
        return {
            t.name: read_stretches(spark, lake, t, stretches, upto_ms.get(t.name, 0)) for t in node.topics
        }

    return read


def _merged(before: DataFrame | None, changes: DataFrame, identity: Sequence[str]) -> DataFrame:
    alive = changes.where(~F.col("__deleted")).drop("__deleted")
    if before is None:
        return alive
    untouched = before.join(changes.select(_columns(identity)), [*identity], "left_anti")
    return untouched.unionByName(alive)


def _columns(names: Sequence[str]) -> list[str]:
    return [quote(name) for name in names]
