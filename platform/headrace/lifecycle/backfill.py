"""Backfill: recompute from the log beside the stream's results, compare, and swap in only what differs.

Law: the recomputation is the stream's own fold, of the whole log through the node's frontier, beside the node's tables.
Equal rows are left alone; one MERGE changes just the differing rows, so that readers of the change feed see no more.

- appended results are compared by day. The stream only appends rows that lie beyond the frontier, which the swap never
  touches. If such a commit comes first, the merge is done again on the newer version, at most twenty times. The stream
  itself is never refused;
- where rows of the log were cut off, the fold starts from the node's opening balance, and rows that were final then are
  not compared: the log no longer tells them;
- rows that are older than the node's description (`since=`) are not compared (see `nodes.balances.older_rows`);
- current results have no days: their base is compared with the log as far as it is folded into it. The changes since
  stay where they are, and the stream does not fold them while a backfill runs;
- a fold that was killed, or broke off, is the next one's to go on with (see `writing.fold_aside`); one for `plan` is not.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from contextlib import suppress
from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace import lake as lakes
from headrace.description import quote
from headrace.description.clocks import WALL
from headrace.errors import TerminalError
from headrace.lifecycle.backfills.backfill_plan import STAGES, BackfillPlan, DayVerdict
from headrace.lifecycle.backfills.compare_rows import compare_rows, differing_rows, example_rows, examples_of
from headrace.lifecycle.backfills.sink_corrections import SinkVerdict, correct_sinks
from headrace.lifecycle.following import nodes_following
from headrace.log.clock import SystemClock
from headrace.nodes.balances.older_rows import is_made
from headrace.nodes.balances.opening import Opening, read_opening
from headrace.nodes.days import day_of_row, first_ms_of
from headrace.nodes.descriptions.references import resolve_references
from headrace.nodes.node_tables import Base, base_of, read_logs, read_progress, results_writer, snapshot
from headrace.nodes.rows.current_results import pending
from headrace.nodes.rows.node_frames import is_settled
from headrace.nodes.rows.sink_rows import identity_of
from headrace.operators.registry import operator_for
from headrace.spark.on_demand import session_of
from headrace.spark.rows.comparable import comparable_rows
from headrace.spark.rows.merge import exchange
from headrace.spark.rows.same_rows import rows_not_of, rows_of
from headrace.spark.session import pinned
from headrace.writing.delivery.right_rows import right_rows_of_results, right_rows_of_table
from headrace.writing.fold_aside import Standing, stand
from headrace.writing.leases.lease import Lease, LeaseLostError
from headrace.writing.leases.lease_waits import take_lease_patiently

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake

DAY_MS = 86_400_000
PATIENCE_SECONDS = 60  # for the stream to end the fold of current results that is under way


class Backfill:
    """Recomputes some days of a node; the stream may run meanwhile."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        node: Node,
        days: Sequence[dt.date] | None = None,
        *,
        whole: bool = False,
        standing: Standing | None = None,
    ) -> None:
        """Prepare; `days` are UTC days of the rows (of `window_start`), None is every day; current results have none.

        In:     whole     True: current results are brought to where the node stands, and changes in its state count no
                          more. Nothing may write meanwhile
                standing  what the log leads to where the node stands, if the caller has folded it; None: it is folded here
        Raises: TerminalError when the node has never run.
        """
        node = resolve_references(lake, node)
        self._spark, self._lake, self.node = pinned(session_of(spark)), lake, node
        if not lakes.exists(lake.table(node.required_name)):
            raise TerminalError(
                f"Node '{node.required_name}' has not run yet: there is nothing to compare or to swap.",
                hint="Start its stream; it reads its log from the beginning.",
            )
        self.progress = read_progress(lake, node)
        if not self.node.has_days:
            days = ()
        self._chosen = None if days is None else tuple(sorted(set(days)))
        self.sinks: tuple[SinkVerdict, ...] = ()  # what the last swap made of them
        self._whole = whole and not self.node.has_days
        self._computed = standing
        self._resumes = False  # True while this process holds the lease
        self._on_folded: Callable[[int, int | None], object] = lambda done, of: None

    @cached_property
    def days(self) -> tuple[dt.date | None, ...]:
        """The days chosen; without a choice those that have rows, recomputed or stored; None is the whole table."""
        return self._days(lambda: {*self._by_day(self._recomputed), *self._by_day(self._stored())})

    def _days(self, with_rows: Callable[[], Iterable[dt.date | None]]) -> tuple[dt.date | None, ...]:
        """See `days`. In: with_rows  the days that have rows; asked if none was chosen."""
        if not self.node.has_days:
            return (None,)
        return tuple(sorted(day for day in with_rows() if day)) if self._chosen is None else self._chosen

    def plan(self) -> BackfillPlan:
        """The plan of `run`."""
        files = self._log_rows().groupBy(F.input_file_name().alias("file")).count()
        counted = files.agg(
            F.coalesce(F.sum("count"), F.lit(0)).alias("rows"), F.count("*").alias("files")
        ).first()
        log_rows, log_files = (counted["rows"], counted["files"]) if counted is not None else (0, 0)
        return BackfillPlan(
            self.node.required_name,
            self.days,
            dict(self._upto_ms),
            self.progress.closed_ms,
            log_rows,
            log_files,
            self._stored().count(),
            self.node.fingerprint()[:12],
            tuple(nodes_following(self._lake, [f"{self.node.required_name}@"])),
        )

    def run(
        self,
        *,
        swap: bool = True,
        on_stage: Callable[[str], None] = lambda stage: None,
        on_folded: Callable[[int, int | None], object] = lambda done, of: None,
        before_swap: Callable[[DataFrame], None] | None = None,
        lease: Lease | None = None,
        correct: bool = True,
    ) -> list[DayVerdict]:
        """Recompute, compare, and with `swap` replace what differs, all days in one commit.

        Sinks that can be corrected are put right before it: a backfill that dies in between finds the same again.

        In:     on_folded    called before the first increment of the log and after each: how many of how many records
                             are folded
                before_swap  called with the rows that differ (ONLY_IN: `log` or `table`); verdicts give no examples then
                lease        of the node's backfills, if the caller holds it
                correct      False: sinks keep what they have
        Raises: LeaseTakenError when another backfill of the node is running; TransientError when a sink's store is away.
        """
        name = self.node.required_name
        held = lease or self._take_lease(name)
        self._resumes, self._on_folded = True, on_folded
        try:
            self._drop_outdated_base()
            on_stage(STAGES[0])
            recomputed, stored = self._recomputed, self._stored()
            on_stage(STAGES[1])
            found = compare_rows(recomputed, stored, self._day())
            self.days = self._days(lambda: found.days)
            try:
                different = self._by_day(found.differing.persist()) if found.odd else Counter()
                examples = self._examples(found.differing) if different and before_swap is None else {}
                swapped = swap and (bool(different) or self._whole)
                if before_swap is not None:
                    before_swap(found.differing)
                if swapped:
                    on_stage(STAGES[2])
                    held.check()
                    if correct and self.node.sinks:
                        self.sinks = self._correct_sinks(recomputed, found.differing)
                        held.check()
                    self._swap(recomputed, found.differing, held)
            finally:
                if found.odd:
                    found.differing.unpersist()
            with suppress(LeaseLostError):  # else another process may be reading it
                held.check()
                self._release()
        finally:
            vars(self).pop("_standing", None)  # what lies there after an error stays: see `stand`
            self._resumes = False
            if lease is None:
                held.release()
        return [
            DayVerdict(
                day,
                equal=not different[day],
                rows_recomputed=found.recomputed[day],
                rows_stored=found.stored[day],
                rows_differing=different[day],
                first_differences=tuple(examples.get(day, ())),
                swapped=swapped and bool(different[day]),
            )
            for day in self.days
        ]

    def rehearse(self) -> None:
        """Plan to compare no rows, and run nothing: Spark refuses here what it would refuse in `run`."""
        none = comparable_rows(self._stored().limit(0))
        example_rows(differing_rows(none, none), self._day(), identity_of(self.node, none))

    @property
    def _recomputed(self) -> DataFrame:
        return self._standing.results.where(self._in_days())

    @cached_property
    def _standing(self) -> Standing:
        """The rows that the log leads to, in files beside the node's tables until `_release`."""

        def folded(done: int) -> None:
            self._on_folded(done, self.progress.all_records)

        fold = partial(stand, self._spark, self._lake, self.node, self._upto_ms)
        return self._computed or fold(resumes=self._resumes, on_folded=folded)

    def _release(self) -> None:
        """Let go of what was folded, as far as it was."""
        if "_standing" in vars(self):
            self._standing.release()
            del self._standing

    def _drop_outdated_base(self) -> None:
        """Forget a base that was looked at for the plan, if it has been folded further since."""
        known = vars(self).get("_base")
        if known is not None and known != base_of(self._lake, self.node):
            self._release()
            del self._base

    @cached_property
    def _opening(self) -> Opening:
        return read_opening(self._lake, self.node)

    @cached_property
    def _base(self) -> Base:
        return base_of(self._lake, self.node)

    @property
    def _upto_ms(self) -> Mapping[str, int]:
        """How far the log is folded into what is compared."""
        here = self.node.has_days or self._whole
        return self.progress.upto_ms if here else self._base.upto_ms

    def _take_lease(self, name: str) -> Lease:
        """The stream folds current results under the same lease, for a second or two."""
        patience = PATIENCE_SECONDS if not self.node.has_days else 0
        folder = self._lake.lease(f"backfill/{name}")
        return take_lease_patiently(self._spark, folder, f"Backfill of '{name}'", SystemClock(), patience)

    def _logs(self) -> dict[str, DataFrame]:
        return read_logs(self._spark, self._lake, self.node, self._upto_ms)

    def _log_rows(self) -> DataFrame:
        by_commit = operator_for(self.node).by_commit or self.node.clock == WALL
        time = F.col("ingested_at" if by_commit else "timestamp").alias("timestamp")
        rows = reduce(
            lambda left, right: left.unionByName(right), (f.select(time) for f in self._logs().values())
        )
        if self._chosen is None or not self.node.has_days:
            return rows
        if not self._chosen:
            return rows.limit(0)
        after_ms = first_ms_of(self.node, self._chosen[-1] + dt.timedelta(days=1))
        until_ms = after_ms + self.node.longest_wait_ms + self.node.longest_wall_wait_ms
        first_ms = first_ms_of(self.node, self._chosen[0])
        return rows.where(F.unix_millis("timestamp").between(first_ms, until_ms))

    def _stored(self) -> DataFrame:
        """The rows that the stream wrote for these days, as far as the frontier of this backfill goes."""
        stored = self._table()
        wanted = self._in_days() & is_settled(self.node, self.progress) & is_made(self.node)
        if self.node.has_days and not self._opening.is_at_the_beginning:
            wanted = wanted & ~is_settled(self.node, self._opening.progress)
        return stored.where(wanted)

    def _table(self) -> DataFrame:
        return self._base.read(self._spark)

    def _day(self) -> Expr:
        column = self.node.day_column
        return F.lit(None).cast("date") if column is None else day_of_row(self.node)

    def _in_days(self) -> Expr:
        if self._chosen is None or not self.node.has_days:
            return F.lit(True)
        return self._day().isin(list(self._chosen))

    def _by_day(self, frame: DataFrame) -> Counter[dt.date | None]:
        counted = frame.groupBy(self._day().alias("day")).count().collect()
        return Counter({row["day"]: row["count"] for row in counted})

    def _examples(self, differing: DataFrame) -> Mapping[dt.date | None, Sequence[str]]:
        return examples_of(differing, self._day(), identity_of(self.node, differing))

    def _correct_sinks(self, recomputed: DataFrame, differing: DataFrame) -> tuple[SinkVerdict, ...]:
        """Let the sinks hold what the table holds after the swap."""
        node, identity = self.node, identity_of(self.node, differing)
        if not self.node.has_days:
            held, progress = snapshot(self._spark, self._lake, node)
            through_ms = progress.frontier_ms(self.node)
            if held.state is not None and not self._whole:  # of what has changed since, sinks have later rows
                differing = rows_not_of(differing, pending(held.state, held.folded), node.key)
            right = right_rows_of_table(node, self._standing.state, differing, through_ms)
            return correct_sinks(self._lake, node, right, through_ms)
        through_ms = self.progress.frontier_ms(self.node)
        stays = rows_not_of(self._base.read(self._spark), differing, identity)
        comes = rows_of(recomputed, differing, identity)
        after = stays.unionByName(comes, allowMissingColumns=True)
        right = right_rows_of_results(node, after, differing, through_ms)
        return correct_sinks(self._lake, node, right, through_ms)

    def _swap(self, recomputed: DataFrame, differing: DataFrame, lease: Lease) -> None:
        """One MERGE: every copy of a differing window goes, the recomputed one comes.

        In: lease  the lease of the node's backfills, which is looked at behind the fence: this process may have been paused
        """
        identity = identity_of(self.node, differing)
        windows = differing.select(*(F.col(quote(name)) for name in identity)).distinct()
        come = rows_of(recomputed, windows, identity).withColumn("__insert", F.lit(True))
        go = windows.withColumn("__insert", F.lit(False))
        changes = come.unionByName(go, allowMissingColumns=True)
        name = self.node.required_name
        writer = results_writer(self.node)
        table = lakes.open_table(self._lake.table(name))
        days = {"days": [str(day) for day in self.days if day]}
        record = {"writer": f"backfill/{name}", **days, **lakes.carried(table, [writer])}
        if self._whole:  # as if all of the state's changes had been folded (see `Bases`)
            folded = {"batch": self.progress.batch, "upto_ms": dict(self.progress.upto_ms)}
            record = {"writer": writer, **folded}
        maintainer = lakes.TableWriter(table, lakes.MAINTAINER, carries=[writer], mends=True)
        lease.check()
        exchange(maintainer, changes, identity, record)


def verify(
    spark: SparkSession,
    lake: Lake,
    node: Node,
    days: Sequence[dt.date] | None = None,
    *,
    on_stage: Callable[[str], None] = lambda stage: None,
    on_folded: Callable[[int, int | None], object] = lambda done, of: None,
) -> list[DayVerdict]:
    """Recompute and compare; change nothing. In: see `Backfill.run`."""
    return Backfill(spark, lake, node, days).run(swap=False, on_stage=on_stage, on_folded=on_folded)
