"""Retention: rows of a log that are older than a date are cut off, and every node keeps its balance at the cut.

Law: no table changes. Each node that reads the topic first writes its opening balance (see `balances.opening`); what the
rest of the log leads to from there is what the whole log would have led to. So backfills, checks and books go on from
the balance, and a node that has no balance yet is not left without rows: the cut is refused.

Control rows of the older part stay: they say what people did. So does where the log stood (see `cut_commits`). The
balance holds all that is open at the cut, such as the events of an open batch. The last log commit always stays: the
sequencer goes on from it.

Streams may run: what a balance stands for was read long ago, and the log's writer only adds rows. No backfill or rebuild
runs meanwhile, for it might have read a part of what goes. Current results have to be in their table as far as the cut; a
stream that has not folded them so far hands the node over for a moment (see `headrace.writing.leases.handover`).

Balances are written before rows go. A balance stands for the rows through its commit time whether they are gone or not, so
a retention that was broken off left everything right, and may be run again.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace import lake as lakes
from headrace.description import with_unnamed
from headrace.errors import TerminalError
from headrace.lake import small_files
from headrace.lake.care.alter import rewritable
from headrace.lifecycle.forsaken_logs import may_read
from headrace.lifecycle.log_repair.repair_mark import repair_owed
from headrace.lifecycle.pending_erasures import pending
from headrace.log.clock import SystemClock
from headrace.log.commit_row import CommitRow, is_commit_row
from headrace.log.deadlines import Deadlines, waits_now
from headrace.log.history.chain import require_whole_chain
from headrace.log.history.cut_commits import CutCommits, note_commits, write_standing
from headrace.log.recovery import commits_during
from headrace.nodes.balances.cuts import day_after, note_cut
from headrace.nodes.balances.opening import read_opening, write_opening
from headrace.nodes.descriptions.references import resolve_all_references
from headrace.nodes.descriptions.topics import is_read, names_of, wall_waits
from headrace.nodes.node_tables import base_of, frontier_ms, read_progress, undescribed
from headrace.nodes.unusable_table import UnusableTable
from headrace.operators.registry import operator_for
from headrace.sequence.log_columns import CONTROL, IDLE, RECORD, log_schema
from headrace.spark.lake_rows import read_table, rewrite
from headrace.spark.one_task import arrow_schema
from headrace.spark.session import pipeline_session
from headrace.writing.fold_aside import stand
from headrace.writing.leases.handover import handed_over
from headrace.writing.leases.lease_waits import nothing_rebuilds
from headrace.writing.leases.readers import asked_in, can_be_read, readers_of
from headrace.writing.node_logs.node_log import log_reached_ms
from headrace.writing.node_runner import NodeRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column as Expr
    from pyspark.sql import SparkSession

    from headrace.description import Node, Topic
    from headrace.lake.paths import Lake
    from headrace.log.clock import Clock
    from headrace.sequence.log_state import LogState

PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Cut:
    """The rows that were cut off a log.

    at_ms     the commit time through which nodes keep a balance; None: nothing was older
    rows      how many rows went
    balances  the nodes that wrote one
    unknown   nodes of the lake that were not given: if they read the topic, they have lost its older rows
    since     the first day of which no record went; None: no record did
    """

    topic: str
    at_ms: int | None
    rows: int = 0
    balances: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    since: dt.date | None = None

    def __str__(self) -> str:
        """In a few sentences."""
        if self.at_ms is None:
            return f"log/{self.topic}: nothing is older."
        words = f"log/{self.topic}: {self.rows:,} rows through {_moment(self.at_ms)} cut off."
        words += f" Opening balances: {', '.join(self.balances)}." if self.balances else ""
        if self.balances:
            words += (
                " These cannot be rebuilt from the whole log any more: a change that needs other records, or aggregates "
                "which they do not have, needs a new name"
                + (f", or of tumbling windows since='{self.since}' or a later day." if self.since else ".")
            )
        if self.unknown:
            words += f" Not described here, and without a balance: {', '.join(self.unknown)}."
        return words


class Retention:
    """Cuts one topic's log."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        nodes: Sequence[Node],
        topic: Topic,
        *,
        clock: Clock | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """In: nodes  all that there are; patience_seconds: for a stream's fold of current results to end."""
        self._spark, self._lake, self._topic = pipeline_session(spark), lake, topic
        self._described = {node.required_name for node in with_unnamed(nodes)}
        self._all = with_unnamed(resolve_all_references(lake, nodes))
        self._nodes = [node for node in self._all if topic in node.topics]
        self._clock, self._patience_seconds = clock or SystemClock(), patience_seconds

    def run(
        self,
        before_ms: int,
        *,
        on_stage: Callable[[str], None] = lambda stage: None,
        on_folded: Callable[[int, int | None], object] = lambda done, of: None,
    ) -> Cut:
        """Cut off the log commits before a moment.

        In:     on_folded  called after each increment of a balance: how many of a node's records it stands for; of how many
                           is not known
        Raises: LeaseTakenError while a backfill, rebuild or maintenance of these tables runs;
                TerminalError, before anything is changed, when a node needs what would go, or the log has lost commits.
        """
        with nothing_rebuilds(
            self._spark, self._lake, names_of(self._nodes), self._clock, self._patience_seconds
        ):
            at_ms = self._last_commit_before(before_ms)
            if at_ms is None:
                return Cut(self._topic.name, None)
            self._require_unneeded(at_ms)
            require_whole_chain(read_table(self._spark, self._lake.log(self._topic.name)), self._topic.name)
            for node in self._nodes:
                on_stage(f"Strikes the balance of {node.required_name}.")
                self._balance(node, at_ms, lambda done: on_folded(done, None))
            on_stage("Cuts off the rows.")
            highest_ms = note_cut(self._lake, self._topic, at_ms, self._highest_event_ms(at_ms))
            after = self._standing(at_ms)
            note_commits(self._lake.log(self._topic.name), self._cut_commits(after))
            names = tuple(node.required_name for node in self._nodes)
            unknown = tuple(undescribed(self._lake, self._described))
            rows = self._delete(after)
            self._forget_unusable(at_ms)
            return Cut(self._topic.name, at_ms, rows, names, unknown, day_after(highest_ms))

    def _last_commit_before(self, before_ms: int) -> int | None:
        """The last commit to be cut, never the log's last; None: there is none, or the log is cut there already."""
        path = self._lake.log(self._topic.name)
        if not lakes.exists(path):
            return None
        last_ms = min(before_ms, frontier_ms(self._lake, self._topic))
        at = F.unix_millis("ingested_at")
        older = read_table(self._spark, path).where(
            (at < last_ms) & ((F.col("kind") != CONTROL) | is_commit_row())
        )
        row = older.agg(
            F.max(F.when(F.col("kind") != CONTROL, at)).alias("last_ms"),
            F.min(at).alias("first_ms"),
            F.count("offset").alias("records"),
        ).first()
        assert row is not None
        is_cut_there = not row["records"] and row["first_ms"] == row["last_ms"]
        return None if is_cut_there else row["last_ms"]

    def _require_unneeded(self, at_ms: int) -> None:
        reasons = [text for node in self._nodes if (text := self._need(node, at_ms))]
        names = {node.required_name for node in self._nodes}
        reasons += [
            f"{each.node} still holds what was erased from '{each.topic}': run headrace erase again for that key, with the "
            "pipeline of the node. A balance could not be computed again without the key."
            for each in pending(self._lake)
            if each.topic == self._topic.name or each.node in names
        ]
        reasons += [
            f"{name} of another pipeline reads it, too: give its nodes, or remove {self._lake.readers(self._topic.name)}/"
            f"{name}.json if it is gone."
            for name in readers_of(self._lake, self._topic.name)
            if name not in self._described and lakes.exists(self._lake.table(name))
            if may_read(self._lake, name, self._topic.name, self._clock)
        ]
        if reasons:
            raise TerminalError(
                f"Topic '{self._topic.name}': its log cannot be cut at {_moment(at_ms)}, because nodes need these rows.",
                detail="\n".join(reasons),
                hint="Let these nodes read on, or cut earlier; a node that cannot be cut yet needs the whole log.",
            )

    def _need(self, node: Node, at_ms: int) -> str:
        """Why a node needs rows at or before the cut; empty: it does not, once its balance is struck."""
        name, why = node.required_name, operator_for(node).uncuttable
        if why:
            return f"{name} needs the log from its start: {why}."
        if (topic := repair_owed(self._lake, name)) is not None:
            return f"{name} is not computed again since the log of '{topic}' was repaired: run headrace repair {topic}."
        if not lakes.exists(self._lake.state(name)):
            return f"{name} needs the log from its start: it has not run yet."
        if small_files.names(self._lake.rebuilds(name)):
            folder = self._lake.rebuilds(name)
            return f"{name} needs the log from its start: it is rebuilt in {folder}; let that end, or remove the folder."
        read_ms = read_progress(self._lake, node).upto_ms.get(self._topic.name, 0)
        if read_ms < at_ms:
            since = f"what came after {_moment(read_ms)}" if read_ms else "the log from its start"
            return f"{name} needs {since}: it has read no further."
        return ""

    def _balance(self, node: Node, at_ms: int, on_folded: Callable[[int], object]) -> None:
        """Write the node's balance at the cut."""
        base, topic = base_of(self._lake, node), self._topic.name
        # The node's log is written before rows go: afterwards the stream times of their commits are not known. A crash may
        # have left it behind, and a node that others ask for, or will read once they run, may have none yet.
        asked = is_read(node, self._all) or bool(readers_of(self._lake, f"{node.required_name}@"))
        tells = asked and can_be_read(self._lake, node)
        reached_ms = log_reached_ms(self._lake, node)
        untold = tells if reached_ms is None else reached_ms < at_ms
        # A backfill compares what is folded, and cannot look behind the balance.
        unfolded = not node.has_days and base.upto_ms.get(topic, 0) < at_ms
        if untold or unfolded:
            self._settle(node, tells=tells)
        opening = read_opening(self._lake, node)
        if opening.upto_ms(self._topic.name) < at_ms:
            upto_ms = {t.name: at_ms for t in node.topics}  # it reads them in one order
            standing = stand(self._spark, self._lake, node, upto_ms, resumes=True, on_folded=on_folded)
            write_opening(self._spark, self._lake, node, standing.source, standing.progress)
            standing.release()

    def _settle(self, node: Node, *, tells: bool) -> None:
        """Let the node's table and its log hold what it has read. In: tells  whether it needs a log."""
        names = [node.required_name]
        with handed_over(self._spark, self._lake, names, self._clock, what="headrace retain"):
            runner = NodeRunner(self._spark, node, self._lake, is_read=tells)
            runner.finish()
            if runner.unfolded:
                runner.settle()

    def _delete(self, after: LogState) -> int:
        path, writer = self._lake.log(self._topic.name), f"log/{self._topic.name}"
        gone, table = self._gone(after.ingested_at_ms), lakes.open_table(path)
        rows = read_table(self._spark, path).where(gone & ~is_commit_row()).count()
        schema = arrow_schema(log_schema(self._topic))

        def delete(maintainer: lakes.TableWriter) -> None:
            left = write_standing(path, schema, self._topic.name, after)
            record = {"writer": f"retention/{writer}", **lakes.carried(table, [writer])}
            with rewritable(maintainer, record):
                rewrite(self._spark, maintainer, gone, record, more=left)

        lakes.as_maintainer(table, delete, carries=[writer])  # the upkeep of a stream may come between
        return rows

    def _highest_event_ms(self, through_ms: int) -> int | None:
        """The highest event time of the records that go; None: there are none."""
        records = read_table(self._spark, self._lake.log(self._topic.name)).where(self._gone(through_ms))
        row = (
            records.where(F.col("kind") == RECORD).agg(F.unix_millis(F.max("timestamp")).alias("ms")).first()
        )
        return None if row is None else row["ms"]

    def _standing(self, at_ms: int) -> LogState:
        """Where the log stands at the cut."""
        log = read_table(self._spark, self._lake.log(self._topic.name))
        row = log.where(is_commit_row() & (F.unix_millis("ingested_at") == at_ms)).select("control").first()
        assert row is not None
        return CommitRow.from_json(row["control"]).after

    def _cut_commits(self, after: LogState) -> CutCommits:
        """The commits that go from which somebody may still wait for the wall clock."""
        asked = asked_in(self._lake, self._topic.name).wall_waits
        waits = waits_now([*wall_waits(self._topic, self._all), *asked], after.limits_ms)
        path, known_ms = self._lake.log(self._topic.name), Deadlines(waits).known_ms
        return CutCommits(after.ingested_at_ms, *commits_during(path, after, known_ms))

    def _forget_unusable(self, through_ms: int) -> None:
        """Forget the rows that the nodes could not use: they are in their balances, and nobody folds them again."""
        older = F.unix_millis("ingested_at") <= F.lit(through_ms)
        for node in self._nodes:
            UnusableTable(self._spark, self._lake, node).forget((F.col("topic") == self._topic.name) & older)

    @staticmethod
    def _gone(through_ms: int) -> Expr:
        """Rows that say what people did stay; the chain of commits begins with the last one that is cut."""
        older = F.col("ingested_at") <= F.timestamp_millis(F.lit(through_ms))
        is_idle = F.get_json_object("control", "$.action") == IDLE  # the cut leaves one if that is still so
        return older & ((F.col("kind") != CONTROL) | is_commit_row() | F.coalesce(is_idle, F.lit(False)))


def _moment(ms: int) -> str:
    at = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=ms)
    return f"{at.replace(tzinfo=None).isoformat(sep=' ', timespec='milliseconds')} UTC"
