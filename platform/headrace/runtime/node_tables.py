"""Read a node's tables and logs, as of one micro-batch."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description.fingerprint import differences
from headrace.errors import TerminalError
from headrace.log.columns import log_schema
from headrace.log.promise import read_promise
from headrace.operators import operator_of
from headrace.operators.operator import Held, Schemas
from headrace.operators.progress import Progress
from headrace.spark import files, tables
from headrace.spark.frames import local_frame
from headrace.spark.newest import newest_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node, Topic
    from headrace.runtime.lake import Lake


@dataclass(frozen=True)
class Base:
    """The result table; of current results at a version, with the micro-batch and the log that are folded into it.

    parts  the version of each table beside it; the fold writes them first, so they hold no less
    """

    path: str
    version: int | None
    batch: int
    upto_ms: Mapping[str, int]
    parts: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    def read(self, spark: SparkSession) -> DataFrame:
        """The table."""
        return tables.read(spark, self.path, self.version)

    def read_parts(self, spark: SparkSession) -> dict[str, DataFrame]:
        """The tables beside it, by name."""
        return {name: tables.read(spark, *at) for name, at in self.parts.items()}


def base_of(spark: SparkSession, lake: Lake, node: Node) -> Base:
    """The result table as of now."""
    path = lake.table(node.required_name)
    if operator_of(node).appended:
        return Base(path, None, 0, {})
    version = tables.latest_version(spark, path)
    paths = {part: lake.part(node.required_name, part) for part in operator_of(node).parts}
    parts = {part: (path, tables.latest_version(spark, path)) for part, path in paths.items()}
    folded = tables.last_commit(spark, path, f"fold/{node.required_name}", through=version)
    if folded is None:
        return Base(path, version, 0, {}, parts)
    return Base(path, version, folded.record["batch"], folded.record["upto_ms"], parts)


def results_writer(node: Node) -> str:
    """Who signs the commits that say how far the result table goes."""
    return f"{'node' if operator_of(node).appended else 'fold'}/{node.required_name}"


def snapshot(spark: SparkSession, lake: Lake, node: Node) -> tuple[Held, Progress]:
    """What the node's tables hold, and its progress; the base is read first, for the progress only moves on."""
    base, progress = base_of(spark, lake, node), read_progress(spark, lake, node)
    state = tables.read(spark, lake.state(node.required_name))
    state = state.where((F.col("__batch") > base.batch) & (F.col("__batch") <= progress.batch))
    return Held(base.read(spark), state, parts=base.read_parts(spark)), progress


def node_schemas(spark: SparkSession, node: Node) -> Schemas:
    """The columns of a node's result table and of its state table."""
    return operator_of(node).schemas(empty_logs(spark, node))


def empty_logs(spark: SparkSession, node: Node) -> dict[str, DataFrame]:
    """For each topic of a node a log without rows: enough to learn columns from."""
    return {topic.name: local_frame(spark, [], log_schema(topic)) for topic in node.topics}


def read_progress(spark: SparkSession, lake: Lake, node: Node) -> Progress:
    """How far a node has come.

    Raises: TerminalError when the state was written by another description of the node.
    """
    name = node.required_name
    commit = tables.last_commit(spark, lake.state(name), f"node/{name}")
    if commit is None:
        return Progress()
    if commit.record["fingerprint"] != node.fingerprint():
        raise TerminalError(
            f"Node '{name}': its state was written by another description of it.",
            detail=_what_changed(spark, lake, node, commit.record["fingerprint"]),
            hint="Restore the description, or give the changed node a new name: it is then built from the log.",
        )
    return Progress.from_json(commit.record["progress"])


def write_description(spark: SparkSession, lake: Lake, node: Node) -> None:
    """Note the rules of a node beside its state, so that a change of them can be told."""
    entry = {"fingerprint": node.fingerprint(), "rules": node.rules()}
    files.write_json(spark, lake.description(node.required_name), entry)


def _what_changed(spark: SparkSession, lake: Lake, node: Node, fingerprint: str) -> str:
    stored = files.read_json(spark, lake.description(node.required_name))
    if stored is None or stored["fingerprint"] != fingerprint:
        return f"stored {fingerprint[:12]}, described {node.fingerprint()[:12]}"
    described = json.loads(json.dumps(node.rules()))
    return f"stored -> described: {'; '.join(differences(stored['rules'], described))}"


def frontier_ms(spark: SparkSession, lake: Lake, topic: Topic) -> int:
    """`ingested_at` of the last commit of a topic's log, in ms; 0 when it has none."""
    commit = tables.last_commit(spark, lake.log(topic.name), f"log/{topic.name}")
    return 0 if commit is None else int(commit.record["ingested_at_ms"])


def settled_ms(spark: SparkSession, lake: Lake, topic: Topic) -> int:
    """No later row of a topic's log will lie at or before this commit time, in ms."""
    # The promise first: a commit may come in between, and lies beyond it.
    promised = read_promise(spark, lake.log(topic.name))
    return max(promised, frontier_ms(spark, lake, topic))


def read_log(
    spark: SparkSession, lake: Lake, topic: Topic, *, after_ms: int | None = None, upto_ms: int
) -> DataFrame:
    """Whole commits of a log, after one `ingested_at` and through another."""
    log = tables.read(spark, lake.log(topic.name))
    log = log.where(F.col("ingested_at") <= F.timestamp_millis(F.lit(upto_ms)))
    return log if not after_ms else log.where(F.col("ingested_at") > F.timestamp_millis(F.lit(after_ms)))


def read_increment(
    spark: SparkSession, lake: Lake, topic: Topic, *, after_ms: int | None, upto_ms: int
) -> DataFrame:
    """The same rows as `read_log` gives, at a cost that does not grow with the log where they are its newest."""
    rows = newest_rows(
        spark,
        lake.log(topic.name),
        log_schema(topic),
        f"log/{topic.name}",
        lambda record: int(record["ingested_at_ms"]),
        after=after_ms or 0,
        through=upto_ms,
    )
    return read_log(spark, lake, topic, after_ms=after_ms, upto_ms=upto_ms) if rows is None else rows


def read_logs(
    spark: SparkSession, lake: Lake, node: Node, upto_ms: Mapping[str, int]
) -> dict[str, DataFrame]:
    """For each topic of a node, the whole log through a frontier."""
    return {t.name: read_log(spark, lake, t, upto_ms=upto_ms.get(t.name, 0)) for t in node.topics}
