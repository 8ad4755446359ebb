"""What a person asks of a node: results, open windows, updates, late records, the ledger."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import WindowedAggregate, quote
from headrace.log.columns import DEAD_LETTER, ERASED
from headrace.log.views import dead_letters as log_dead_letters
from headrace.operators import operator_of
from headrace.operators.operator import Held, Schemas
from headrace.operators.progress import Progress
from headrace.operators.rows import FATES, KEPT, OPEN, USED
from headrace.runtime.node_tables import base_of, node_schemas, read_logs, read_progress, snapshot
from headrace.runtime.opening import Opening, read_opening, stand
from headrace.spark.frames import local_frame
from headrace.spark.lake_rows import read_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node, Topic
    from headrace.runtime.lake import Lake


class Views:
    """Reads what a node has written, as of its last micro-batch."""

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        """Read with this session, below this lake."""
        self._spark, self._lake = spark, lake
        self._known: dict[
            str, Schemas
        ] = {}  # by fingerprint: a user's sink, and so a node, need not be hashable

    def read(self, node: Node) -> DataFrame:
        """The node's results: final windows if suppressed, else every window as of now; the current totals.

        Out: the columns of the node's table; one row for each of its identities
        """
        held, progress = snapshot(self._spark, self._lake, node)
        return without_internal(operator_of(node).read(held, progress, self._schemas(node).inputs))

    def open_windows(self, node: WindowedAggregate) -> DataFrame:
        """The windows that are not closed yet, with their values so far; columns and grain as `read`.

        Raises: DescriptionError when the node has no windows.
        """
        held, progress = snapshot(self._spark, self._lake, node)
        assert held.state is not None
        windows = operator_of(node).open_windows(held.state, progress, self._schemas(node).inputs)
        return without_internal(windows)

    def updates(self, node: Node) -> DataFrame:
        """Raw updates, conflated per micro-batch: what each row was worth after each that touched it.

        Out: the columns of `read`, `__batch` (micro-batch; null on the last word about a closed window); to fold them
             take each identity's row with the highest `__batch`, nulls last. Of suppressed windows upkeep puts the
             updates of many micro-batches together.
        Law: they fold to the same rows however the log was cut; the rows in between depend on the cuts.
        """
        held, progress = snapshot(self._spark, self._lake, node)
        updates = operator_of(node).updates(held, progress, self._schemas(node).inputs)
        return updates.select(*(F.col(quote(name)) for name in (*node.columns, "__batch")))

    def late(self, node: Node) -> DataFrame:
        """Late records: one row for each record and closed window (see `late_records`)."""
        return operator_of(node).late(self._decided(node))

    def dead_letters(self, topic: Topic, nodes: Iterable[Node] = ()) -> DataFrame:
        """Records that the topic, or one of these nodes (then named in `node`), could not use; one row each."""
        log = read_table(self._spark, self._lake.log(topic.name))
        frames = [log_dead_letters(log)]
        for node in nodes:
            dead = self._decided(node).where(
                (F.col("__fate") == DEAD_LETTER) & (F.col("__topic") == topic.name)
            )
            position = {"topic": "__topic", "partition": "__partition", "offset": "__offset"}
            unusable = dead.select(
                *(F.col(source).alias(name) for name, source in position.items()),
                F.col("__reason").alias("node_reason"),
                F.lit(node.required_name).alias("node_name"),
            )
            own = log.where(F.col("kind") != DEAD_LETTER).join(unusable, list(position))
            frames.append(
                own.select(
                    *("topic", "partition", "offset", "timestamp"),
                    F.col("node_reason").alias("reason"),
                    (
                        F.to_json("key").cast("binary") if topic.key_columns else F.lit(None).cast("binary")
                    ).alias("key"),
                    F.to_json("value").cast("binary").alias("value"),
                    *("headers", "ingested_at"),
                    F.col("node_name").alias("node"),
                )
            )
        return reduce(lambda left, right: left.unionByName(right), frames)

    def ledger(self, node: Node) -> DataFrame:
        """Where every record that Kafka delivered ended up.

        Out: topic, partition, fate, records; one row for each fate and partition (of `erased` only if something was)
        Law: over the fates, `records` sums to the records delivered. `open` is counted in the state table; `used` is
             what was kept and is no longer open, to be compared with what the results say (see the checks).
        """
        held, progress = snapshot(self._spark, self._lake, node)
        fates = fates_of(node, held, progress)
        rows = [
            (topic, partition, fate, counts[fate])
            for (topic, partition), counts in fates.items()
            for fate in FATES
            if counts[fate] or fate != ERASED
        ]
        return local_frame(self._spark, rows, "topic STRING, partition INT, fate STRING, records BIGINT")

    def recompute(self, node: Node) -> DataFrame:
        """The node's results, computed from the whole log in one go, as far as the stream has read it.

        Where rows of the log were cut off, from the opening balance and the rest; what was final at the cut is that.
        """
        progress, operator = read_progress(self._spark, self._lake, node), operator_of(node)
        opening = read_opening(self._spark, self._lake, node)
        if not opening.is_at_the_beginning:
            return self._recompute_from(opening, node, progress)
        logs = read_logs(self._spark, self._lake, node, progress.upto_ms)
        folded = operator.fold(logs, progress.upto_ms, Held(), Progress())
        nothing = local_frame(self._spark, [], self._schemas(node).results)
        held = Held(nothing if folded.results is None else folded.results, folded.state)
        return without_internal(operator.read(held, folded.progress, self._schemas(node).inputs))

    def _recompute_from(self, opening: Opening, node: Node, progress: Progress) -> DataFrame:
        operator = operator_of(node)
        standing = stand(self._spark, self._lake, node, progress.upto_ms, opening)
        results = standing.results
        if operator.appended:
            base = base_of(self._spark, self._lake, node).read(self._spark)
            results = base.where(operator.settled(opening.progress)).unionByName(results)
        held = Held(results, standing.state if operator.appended else None)
        return without_internal(operator.read(held, standing.progress, self._schemas(node).inputs))

    def _schemas(self, node: Node) -> Schemas:
        described = node.fingerprint()
        if described not in self._known:
            self._known[described] = node_schemas(self._spark, node)
        return self._known[described]

    def _decided(self, node: Node) -> DataFrame:
        progress = read_progress(self._spark, self._lake, node)
        return operator_of(node).decide(read_logs(self._spark, self._lake, node, progress.upto_ms))


def fates_of(node: Node, held: Held, progress: Progress) -> Mapping[tuple[str, int], Mapping[str, int]]:
    """For each topic and partition the records that met each fate, as of a snapshot."""
    open_rows = None if held.state is None else operator_of(node).open_records(held.state, progress)
    still: dict[tuple[str, int], int] = {}
    if open_rows is not None:
        counted = open_rows.groupBy("__topic", "__partition").agg(F.sum("__records").alias("records"))
        still = {(r["__topic"], r["__partition"]): r["records"] for r in counted.collect()}
    fates = {}
    for topic, partitions in progress.records.items():
        for number, known in partitions.items():
            waiting = still.get((topic, int(number)), 0)
            counts = {**known, OPEN: waiting, USED: known.get(KEPT, 0) - waiting}
            fates[topic, int(number)] = {fate: counts.get(fate, 0) for fate in FATES}
    return fates


def without_internal(frame: DataFrame) -> DataFrame:
    """Only the columns that belong to users."""
    return frame.select(*(F.col(quote(name)) for name in frame.columns if not name.startswith("__")))
