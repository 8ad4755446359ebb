"""Read a node's tables and logs, as of one micro-batch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from headrace.description import is_of_kafka, output_of
from headrace.description.remarks import remarks_of
from headrace.engine.slices.log_slices import LogSlice
from headrace.errors import TerminalError
from headrace.fold.changes.collect import RESULTS
from headrace.lake import last_commit, open_table, require_own_rows, small_files
from headrace.log.commit_row import without_commit_rows
from headrace.log.decisions.promise import read_promise
from headrace.log.history.added_columns import added_columns_due
from headrace.log.history.raw_records import is_read_otherwise
from headrace.nodes.descriptions.compare_rules import compare_rules
from headrace.nodes.descriptions.evolution import GOES_ON, OtherDescriptionError, by_policy, outcome_of
from headrace.nodes.progress import Progress
from headrace.nodes.rows.current_results import current
from headrace.nodes.rows.node_frames import NodeFrames
from headrace.operators.registry import operator_for
from headrace.spark.lake_rows import read_table

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node, Topic
    from headrace.lake import LakeTable
    from headrace.lake.paths import Lake


@dataclass(frozen=True)
class Base:
    """The result table; of current results at a version, with the micro-batch and the log that are folded into it."""

    path: str
    version: int | None
    batch: int
    upto_ms: Mapping[str, int]

    def read(self, spark: SparkSession) -> DataFrame:
        """The table."""
        return read_table(spark, self.path, self.version)


def base_of(lake: Lake, node: Node) -> Base:
    """The result table as of now."""
    path = lake.table(node.required_name)
    return Base(path, None, 0, {}) if node.has_days else current_base(path, node.required_name)


def current_base(path: str, name: str) -> Base:
    """The table of a node's current results as of now. Spark is not needed."""
    version = open_table(path).version
    folded = last_commit(open_table(path), f"fold/{name}", through=version)
    if folded is None:
        return Base(path, version, 0, {})
    return Base(path, version, folded.record["batch"], folded.record["upto_ms"])


def undescribed(lake: Lake, names: Collection[str]) -> list[str]:
    """The nodes that have tables here and are not among these."""
    return sorted(set(small_files.names(f"{lake.root}/tables")) - set(names))


def results_writer(node: Node) -> str:
    """The writer of the commits that say how far the result table goes."""
    return f"{'node' if node.has_days else 'fold'}/{node.required_name}"


def snapshot(spark: SparkSession, lake: Lake, node: Node) -> tuple[NodeFrames, Progress]:
    """The content of the node's tables, and its progress.

    The base is read first, because the progress only moves on. The state is read as of the version with that progress,
    because later its rows may be merged with later ones.
    """
    base, path = base_of(lake, node), lake.state(node.required_name)
    version = open_table(path).version
    progress = read_progress(lake, node, through=version)
    return NodeFrames(base.read(spark), read_table(spark, path, version), base.batch, base.version), progress


def rows_before(spark: SparkSession, lake: Lake, name: str) -> DataFrame:
    """The rows of a node's tables, whatever description wrote them: current results with the changes since the base."""
    path, state = lake.table(name), open_table(lake.state(name))
    if RESULTS not in state.columns.names:
        return read_table(spark, path, open_table(path).version)
    base = current_base(path, name)
    return current(NodeFrames(base.read(spark), read_table(spark, state.uri, None), base.batch, base.version))


def read_progress(lake: Lake, node: Node, *, through: int | None = None) -> Progress:
    """How far a node has come (see `progress_of`)."""
    return progress_of(lake, node, through=through)


def progress_of(lake: Lake, node: Node, *, through: int | None = None) -> Progress:
    """How far a node has come, or had as of a version of its state. Spark is not needed.

    Raises: OtherDescriptionError when the tables were written by another description of the node, and cannot go on.
    """
    name = node.required_name
    commit = last_commit(open_table(lake.state(name)), f"node/{name}", through=through)
    if commit is None:
        return Progress()
    written_by, stored = commit.record["fingerprint"], stored_description(lake, node)
    known = {written_by, written_by if stored is None else stored["fingerprint"]}
    if known != {node.fingerprint()}:
        described = description_of(node)
        outcome = by_policy(node, outcome_of(stored, written_by, described))
        if outcome != GOES_ON:
            raise OtherDescriptionError(name, outcome, _what_changed(stored, written_by, described))
    return Progress.from_json(commit.record["progress"])


def write_description(lake: Lake, node: Node) -> None:
    """Note the rules of a node beside its state, its rows' identity, and what it gives by name: a change is seen by them."""
    small_files.write_json(
        lake.description(node.required_name), description_of(node) | {"output": output_of(node)}
    )


def note_description(lake: Lake, node: Node) -> None:
    """The same, if it is due: before a new node's first commit, or when the state goes on under other rules or remarks."""
    commit = last_commit(open_table(lake.state(node.required_name)), f"node/{node.required_name}")
    written = commit is None or commit.record["fingerprint"] == node.fingerprint()
    if written and stored_description(lake, node) != description_of(node) | {"output": output_of(node)}:
        write_description(lake, node)


def stored_description(lake: Lake, node: Node) -> Mapping[str, Any] | None:
    """The rules and remarks noted beside a node's state, with the fingerprint and what it gives by name; None: none are."""
    stored: Mapping[str, Any] | None = small_files.read_json(lake.description(node.required_name))
    return stored


def description_of(node: Node) -> dict[str, Any]:
    """The rules of a node with their fingerprint, its rows' identity, and remarks, as they are noted beside its state."""
    rules: dict[str, Any] = json.loads(json.dumps(node.rules()))
    identity = [*operator_for(node).identity]
    return {
        "fingerprint": node.fingerprint(),
        "rules": rules,
        "identity": identity,
        "remarks": remarks_of(node),
    }


def _what_changed(stored: Mapping[str, Any] | None, written_by: str, described: Mapping[str, Any]) -> str:
    known = stored is not None and stored["fingerprint"] == written_by
    changes = compare_rules(stored["rules"], described["rules"]).lines if known and stored else ()
    if not changes:
        return f"stored {written_by[:12]}, described {described['fingerprint'][:12]}"
    return f"stored -> described: {'; '.join(changes)}"


def frontier_ms(lake: Lake, topic: Topic, *, recent: bool = False) -> int:
    """`ingested_at` of the last commit of a topic's log, in ms; 0 when it has none. In: recent  see `last_commit`."""
    commit = last_commit(open_table(lake.log(topic.name)), f"log/{topic.name}", recent=recent)
    return 0 if commit is None else int(commit.record["ingested_at_ms"])


def settled_ms(lake: Lake, topic: Topic) -> int:
    """No later row of a topic's log will lie at or before this commit time, in ms."""
    # The promise first: a commit may come in between, and lies beyond it.
    promised = read_promise(lake.log(topic.name))
    return max(promised, frontier_ms(lake, topic))


def require_log_reaches(lake: Lake, name: str, topic: Topic, progress: Progress) -> None:
    """Refuse to go on where a node has read beyond the end of a log.

    Raises: TerminalError: commits that the node has read are gone, and their records would come again in later ones
    """
    read_ms, end_ms = progress.upto_ms.get(topic.name, 0), settled_ms(lake, topic)
    if read_ms > end_ms:
        raise TerminalError(
            f"Node '{name}' has read the log of '{topic.name}' beyond its end: the log has lost commits.",
            detail=f"It has read through commit time {read_ms}, and the log ends at {end_ms} (ms since 1970).",
            hint=f"Stop the stream and run: headrace repair {topic.name}.",
        )


def log_is_as_described(lake: Lake, topic: Topic) -> bool:
    """Whether the rows of a topic's log are those that its description tells; else `headrace apply` writes them again.

    Another description of a node has another log.
    """
    if not is_of_kafka(topic):
        return True
    log = open_table(lake.log(topic.name))
    commit = last_commit(log, f"log/{topic.name}")
    if commit is None:
        return True
    if is_read_otherwise(lake, topic):
        return False
    if added_columns_due(log, topic):
        return False
    # Other columns may come, and are null in older rows. Where others are there in their place, they have another name.
    has = {field.name for field in log.schema.field("value").type}
    described = {column.name for column in topic.value_columns}
    return not (has - described and described - has)


def require_log_as_described(lake: Lake, name: str, topic: Topic) -> None:
    """Refuse to go on with a log that was written again by another description of its topic.

    Raises: TerminalError
    """
    if not log_is_as_described(lake, topic):
        raise TerminalError(
            f"Node '{name}': the log of '{topic.name}' was written by another description of the topic.",
            hint="Run `headrace plan` to see what happens to it, then `headrace apply`; or restore the description.",
        )


def require_state_reaches(results: LakeTable, writer: str, name: str, progress: Progress) -> None:
    """Refuse to go on where a node's results go further than its state: rows of theirs would come again.

    In:     writer  who signs the commits of the results (see `results_writer`)
    Law:    results are written before the state: they are ahead of it by one micro-batch at most, which is repeated
    Raises: TerminalError: the state's folder was put back to an earlier moment, and that of the results was not
    """
    commit = last_commit(results, writer)
    batch = progress.batch if commit is None else int(commit.record["batch"])
    if batch > progress.batch + 1:
        raise TerminalError(
            f"Node '{name}': its results go further than its state, which has lost commits.",
            detail=f"The results hold micro-batch {batch}, and the state ends with {progress.batch}.",
            hint="Put the files of both tables back to the same moment, or delete both: they are built from the log.",
        )


def read_log(
    spark: SparkSession, lake: Lake, topic: Topic, *, after_ms: int | None = None, upto_ms: int
) -> DataFrame:
    """Whole commits of a log, after one `ingested_at` and through another, without commit rows."""
    log = read_table(spark, lake.log(topic.name))
    log = without_commit_rows(log).where(F.col("ingested_at") <= F.timestamp_millis(F.lit(upto_ms)))
    return log if not after_ms else log.where(F.col("ingested_at") > F.timestamp_millis(F.lit(after_ms)))


def slices_of(
    lake: Lake, node: Node, after_ms: Mapping[str, int], upto_ms: Mapping[str, int]
) -> dict[str, LogSlice]:
    """The same rows of each topic of a node, as tasks read them.

    Raises: ForeignCommitError when somebody else has changed rows of a log: what was folded of it could not be undone
    """
    slices = {
        topic.name: LogSlice.of(lake.log(topic.name), after_ms.get(topic.name, 0), upto_ms[topic.name])
        for topic in node.topics
    }
    for each in slices.values():
        require_own_rows(open_table(each.uri))
    return slices


def read_logs(
    spark: SparkSession, lake: Lake, node: Node, upto_ms: Mapping[str, int]
) -> dict[str, DataFrame]:
    """For each topic of a node, the whole log through a frontier."""
    return {t.name: read_log(spark, lake, t, upto_ms=upto_ms.get(t.name, 0)) for t in node.topics}
