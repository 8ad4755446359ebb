"""Answers about a node: results, open windows, updates, late records, the ledger."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from headrace.description import Topic, WindowedAggregate, quote, with_unnamed
from headrace.errors import DescriptionError
from headrace.fold.fates import DUPLICATE, FATES, KEPT, OPEN, USED
from headrace.log.history.views import dead_letters as log_dead_letters
from headrace.nodes.balances.opening import read_opening
from headrace.nodes.bound_operator import bound
from headrace.nodes.descriptions.references import resolve_references
from headrace.nodes.node_tables import base_of, read_progress, snapshot
from headrace.nodes.progress import Progress
from headrace.nodes.rows import row_frames, state_views
from headrace.nodes.rows.node_frames import NodeFrames, is_settled, shown_results
from headrace.nodes.rows.reader_frames import logs_and_unusable
from headrace.nodes.rows.state_frames import StateFrame
from headrace.observe.fates.records_by_fate import below_topic, once, records_behind
from headrace.observe.keyed_reads import KeyedReads
from headrace.sequence.log_columns import DEAD_LETTER, ERASED
from headrace.spark.frames import local_frame
from headrace.spark.lake_rows import read_table
from headrace.spark.session import pinned
from headrace.writing.fold_aside import stand

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, Row, SparkSession

    from headrace.description import Node
    from headrace.engine.steps.unusable import Unusable
    from headrace.lake.paths import Lake


class Views:
    """Reads the tables of a lake through Spark, each as of its node's last micro-batch."""

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        """Read this lake, with this session, or with one beside it that has the settings results depend on."""
        self._spark, self._lake = pinned(spark), lake
        self._keyed = KeyedReads(lake)

    def read(self, node: Node) -> DataFrame:
        """Read the node's results.

        Out: the columns of the node's table; one row for each of its identities. Suppressed windows are final; others
             are as of now. Totals, tables and joins are the current rows
        """
        node = resolve_references(self._lake, node)
        held, progress = snapshot(self._spark, self._lake, node)
        return without_internal(shown_results(node, held, progress))

    def get(self, node: Node, key: Any) -> dict[str, Any] | None:
        """Read the current row of one key, without Spark (see `KeyedReads.get`)."""
        return self._keyed.get(node, key)

    def open_windows(self, node: WindowedAggregate) -> DataFrame:
        """Read the windows that are not closed yet, with their values so far; columns and grain as `read`.

        Raises: DescriptionError when the node has no windows.
        """
        held, progress = snapshot(self._spark, self._lake, node)
        assert held.state is not None
        windows = state_views.open_windows(bound(self._spark, node), StateFrame(held.state), progress.clock)
        if windows is None:
            raise DescriptionError(f"Node '{node.required_name}' has no windows.", hint="Read its table.")
        return without_internal(windows)

    def late(self, node: Node) -> DataFrame:
        """Read the late records of the node and of its steps without a name: one row for each record and closed window.

        Raises: DescriptionError when nothing can be late
        """
        node = resolve_references(self._lake, node)
        steps = [step for step in with_unnamed([node]) if step is not node]
        told = [row_frames.late(step, *self._logs(step)) for step in steps]
        frames = [frame for frame in told if frame is not None]
        own = row_frames.late(node, *self._logs(node))
        if own is None and not frames:
            raise row_frames.nothing_late(node)
        frames = frames if own is None else [own, *frames]
        return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)

    def store(self, node: Node, store: str) -> DataFrame:
        """Read the entries of a processor's store.

        Out:    the columns of the group, of the key and of the value; one row for each entry
        Raises: DescriptionError when the node has no such store.
        """
        node = resolve_references(self._lake, node)
        held, progress = snapshot(self._spark, self._lake, node)
        assert held.state is not None
        return state_views.entries(bound(self._spark, node), StateFrame(held.state), store, progress.clock)

    def dead_letters(self, of: Topic | Node, nodes: Iterable[Node] = ()) -> DataFrame:
        """Read the records that a topic, or a node, could not use.

        In:  of     of a node: those that it counts, and those of its steps without a name
             nodes  of a topic: nodes whose own dead letters are wanted, too; those of other topics are left out
        Out: topic, partition, offset, timestamp, reason, key, value, headers, ingested_at, node; one row for each record
             and, where `node` is not null, for each node that cannot use it
        """
        if isinstance(of, Topic):
            frames = [log_dead_letters(read_table(self._spark, self._lake.log(of.name)))]
            frames += [below_topic(self.records(node, DEAD_LETTER), of) for node in nodes]
        else:
            frames = [self.records(of, DEAD_LETTER)]
        return once(frames)

    def records(self, node: Node, fate: str) -> DataFrame:
        """Read the records behind a count, without the fate (see `records_behind`)."""
        return records_behind(self._spark, self._lake, node, fate).drop("fate")

    def ledger(self, node: Node) -> DataFrame:
        """Read the fate of every record that Kafka delivered.

        Out: topic, partition, fate, records; one row for each fate and partition. `erased` and `duplicate` have a row
             only if there are such records
        Law: over the fates, `records` sums to the records delivered. `open` is counted in the state table. `used` counts
             the records that were kept and are no longer open; the checks compare it with the results
        """
        node = resolve_references(self._lake, node)
        held, progress = snapshot(self._spark, self._lake, node)
        rows = ledger_rows(fates_of(node, held, progress))
        return local_frame(self._spark, rows, "topic STRING, partition INT, fate STRING, records BIGINT")

    def recompute(self, node: Node) -> DataFrame:
        """Fold the node's results from its log, beside its tables, as far as the stream has read it.

        Where rows of the log were cut off, the fold begins with the opening balance, and rows that were final at the cut
        come from the table.

        Out: columns and grain as `read`
        """
        node = resolve_references(self._lake, node)
        progress, opening = read_progress(self._lake, node), read_opening(self._lake, node)
        standing = stand(self._spark, self._lake, node, progress.upto_ms)
        results = standing.results
        if node.has_days and not opening.is_at_the_beginning:
            base = base_of(self._lake, node).read(self._spark)
            results = base.where(is_settled(node, opening.progress)).unionByName(results)
        held = NodeFrames(results, standing.state if node.has_days else None)
        try:
            return without_internal(shown_results(node, held, standing.progress)).localCheckpoint()
        finally:
            standing.release()

    def _logs(self, node: Node) -> tuple[Mapping[str, DataFrame], Sequence[Unusable]]:
        progress = read_progress(self._lake, node)
        return logs_and_unusable(self._spark, self._lake, node, progress.upto_ms)


def fates_of(
    node: Node, frames: NodeFrames, progress: Progress
) -> Mapping[tuple[str, int], Mapping[str, int]]:
    """Count, for each topic and partition, the records of each fate as of a snapshot."""
    open_rows = None
    if frames.state is not None:
        of = bound(frames.state.sparkSession, node)
        open_rows = state_views.open_records(of, StateFrame(frames.state), progress.clock)
    return counted_fates(progress, [] if open_rows is None else open_rows.collect())


def counted_fates(
    progress: Progress, open_rows: Iterable[Mapping[str, Any] | Row]
) -> Mapping[tuple[str, int], Mapping[str, int]]:
    """Count, for each topic and partition, the records of each fate. In: open_rows  see `state_views.open_records`."""
    still: Counter[tuple[str, int]] = Counter()
    for row in open_rows:
        still[row["__topic"], row["__partition"]] += row["__records"]
    fates = {}
    for topic, partitions in progress.records.items():
        for number, known in partitions.items():
            waiting = still[topic, int(number)]
            counts = {**known, OPEN: waiting, USED: known.get(KEPT, 0) - waiting}
            fates[topic, int(number)] = {fate: counts.get(fate, 0) for fate in FATES}
    return fates


def ledger_rows(fates: Mapping[tuple[str, int], Mapping[str, int]]) -> list[tuple[str, int, str, int]]:
    """The rows of a ledger (see `Views.ledger`)."""
    return [
        (topic, partition, fate, counts[fate])
        for (topic, partition), counts in fates.items()
        for fate in FATES
        if counts[fate] or fate not in (DUPLICATE, ERASED)
    ]


def without_internal(frame: DataFrame) -> DataFrame:
    """Drop the columns that are not for users."""
    return frame.select(*(F.col(quote(name)) for name in frame.columns if not name.startswith("__")))
