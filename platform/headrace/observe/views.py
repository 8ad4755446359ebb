"""Answers about a node: results, open windows, updates, late records, the ledger."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from headrace.description import WindowedAggregate, quote
from headrace.fold.fates import FATES, KEPT, OPEN, USED
from headrace.log.views import dead_letters as log_dead_letters
from headrace.nodes.held import Held
from headrace.nodes.node_tables import base_of, read_progress, snapshot
from headrace.nodes.opening import read_opening, stand
from headrace.nodes.operator_frames import operator_of
from headrace.nodes.progress import Progress
from headrace.nodes.references import all_found_in, found_in
from headrace.nodes.unusable_table import logs_and_unusable
from headrace.observe.keyed_reads import KeyedReads
from headrace.sequence.log_columns import DEAD_LETTER, ERASED
from headrace.spark.frames import local_frame
from headrace.spark.lake_rows import read_table
from headrace.spark.session import pinned

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node, Topic
    from headrace.engine.unusable import Unusable
    from headrace.lake.paths import Lake


class Views:
    """Reads what a node has written, as of its last micro-batch."""

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        """Read below this lake, with this session or one beside it that has the settings results depend on."""
        self._spark, self._lake = pinned(spark), lake
        self._keyed = KeyedReads(lake)

    def read(self, node: Node) -> DataFrame:
        """The node's results: final windows if suppressed, else every window as of now; the current totals.

        Out: the columns of the node's table; one row for each of its identities
        """
        node = found_in(self._lake, node)
        held, progress = snapshot(self._spark, self._lake, node)
        return without_internal(operator_of(node).read(held, progress))

    def get(self, node: Node, key: Any) -> dict[str, Any] | None:
        """The current row of one key, without Spark (see `KeyedReads.get`)."""
        return self._keyed.get(node, key)

    def open_windows(self, node: WindowedAggregate) -> DataFrame:
        """The windows that are not closed yet, with their values so far; columns and grain as `read`.

        Raises: DescriptionError when the node has no windows.
        """
        held, progress = snapshot(self._spark, self._lake, node)
        assert held.state is not None
        windows = operator_of(node).open_windows(held.state, progress)
        return without_internal(windows)

    def updates(self, node: Node) -> DataFrame:
        """Raw updates, conflated per micro-batch: what each row was worth after each that touched it.

        Out: the columns of `read`, `__batch` (micro-batch; null on the last word about a closed window); to fold them
             take each identity's row with the highest `__batch`, nulls last. For suppressed windows, upkeep puts the
             updates of many micro-batches together.
        Law: they fold to the same rows however the log was cut; the rows in between depend on the cuts.
        """
        node = found_in(self._lake, node)
        held, progress = snapshot(self._spark, self._lake, node)
        updates = operator_of(node).updates(held, progress)
        return updates.select(*(F.col(quote(name)) for name in (*node.columns, "__batch")))

    def late(self, node: Node) -> DataFrame:
        """Late records: one row for each record and closed window (see `late_records`)."""
        node = found_in(self._lake, node)
        return operator_of(node).late(*self._logs(node))

    def store(self, node: Node, store: str) -> DataFrame:
        """The entries of a processor's store, as of the node's last micro-batch.

        Out:    the columns of the group, of the key and of the value; one row per entry
        Raises: DescriptionError when the node has no such store.
        """
        node = found_in(self._lake, node)
        held, progress = snapshot(self._spark, self._lake, node)
        assert held.state is not None
        return operator_of(node).entries(held.state, store, progress)

    def dead_letters(self, topic: Topic, nodes: Iterable[Node] = ()) -> DataFrame:
        """Records that the topic, or one of these nodes (then named in `node`), could not use; one row each."""
        log = read_table(self._spark, self._lake.log(topic.name))
        frames = [log_dead_letters(log)]
        for node in all_found_in(self._lake, [*nodes]):
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
        node = found_in(self._lake, node)
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
        """The node's results, folded from the log beside its tables, as far as the stream has read it.

        Where rows of the log were cut off, from the opening balance and the rest; what was final at the cut is that.
        """
        node = found_in(self._lake, node)
        progress, operator = read_progress(self._spark, self._lake, node), operator_of(node)
        opening = read_opening(self._spark, self._lake, node)
        standing = stand(self._spark, self._lake, node, progress.upto_ms, opening)
        results = standing.results
        if operator.appended and not opening.is_at_the_beginning:
            base = base_of(self._spark, self._lake, node).read(self._spark)
            results = base.where(operator.settled(opening.progress)).unionByName(results)
        held = Held(results, standing.state if operator.appended else None)
        try:
            return without_internal(operator.read(held, standing.progress)).localCheckpoint()
        finally:
            standing.release()

    def _logs(self, node: Node) -> tuple[Mapping[str, DataFrame], Sequence[Unusable]]:
        progress = read_progress(self._spark, self._lake, node)
        return logs_and_unusable(self._spark, self._lake, node, progress.upto_ms)

    def _decided(self, node: Node) -> DataFrame:
        return operator_of(node).decide(*self._logs(node))


def fates_of(node: Node, held: Held, progress: Progress) -> Mapping[tuple[str, int], Mapping[str, int]]:
    """For each topic and partition the records that met each fate, as of a snapshot."""
    open_rows = None if held.state is None else operator_of(node).open_records(held.state, progress)
    still: Counter[tuple[str, int]] = Counter()
    for row in [] if open_rows is None else open_rows.collect():
        still[row["__topic"], row["__partition"]] += row["__records"]
    fates = {}
    for topic, partitions in progress.records.items():
        for number, known in partitions.items():
            waiting = still[topic, int(number)]
            counts = {**known, OPEN: waiting, USED: known.get(KEPT, 0) - waiting}
            fates[topic, int(number)] = {fate: counts.get(fate, 0) for fate in FATES}
    return fates


def without_internal(frame: DataFrame) -> DataFrame:
    """Only the columns that belong to users."""
    return frame.select(*(F.col(quote(name)) for name in frame.columns if not name.startswith("__")))
