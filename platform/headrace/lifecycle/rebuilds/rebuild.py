"""Rebuild a node from the log beside its tables, and swap it in when it has caught up.

Where rows of the log were cut off, and the node's balance tells what it needs of them, it begins with that (see
`from_balance`). Until the swap the old tables stay as they are, and whoever wrote them may go on. The rebuild reads as far
as they have read, and no further (see `meeting_point`). If a log that it reads gets another past, it begins anew (see
`pasts`). A swap, in this order:
  1. the tables are taken over, so that nobody who wrote them before commits any more. Only then the rebuild looks again: it
     must hold its leases, and the tables must stand where they stood. A process that was paused may have lost both. Then
     sinks are put right, and it looks once more;
  2. the new rules are noted beside the state: from here on nobody takes the tables for those of the old description. The
     leases are looked at once more: whoever takes one later reads the new rules;
  3. the node's table of records that it cannot use gains what the rebuild has found;
  4. the results are replaced, in one commit; Delta keeps the versions before;
  5. the state is replaced, in one commit with the new fingerprint and progress: the node is the new one.
A crash on the way is noticed when the node is opened (see `evolution`), and the swap is done again.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from headrace import lake as lakes
from headrace.description import output_name
from headrace.errors import TerminalError, TransientError
from headrace.lake import small_files
from headrace.lake.care.swap import replace_table
from headrace.lifecycle.rebuilds.former import drop_former, keep_former
from headrace.lifecycle.rebuilds.from_balance import begin_from_balance, bring_balance, settle_balance
from headrace.lifecycle.rebuilds.meeting_point import (
    drop_standing,
    is_behind,
    is_beyond,
    keep_standing,
    meeting_point,
    place,
    standing,
)
from headrace.lifecycle.rebuilds.pasts import NotedPasts
from headrace.lifecycle.rebuilds.takeover import take_over
from headrace.log.site import Site
from headrace.nodes.balances.older_rows import keep_older_rows, mark_since, why_not_since
from headrace.nodes.balances.opening import cut_logs, drop_opening
from headrace.nodes.balances.rebuild_from_balance import rebuild_from_balance, rebuild_place
from headrace.nodes.descriptions.evolution import REBUILT, REFUSED, OtherDescriptionError
from headrace.nodes.node_tables import (
    log_is_as_described,
    read_progress,
    results_writer,
    write_description,
)
from headrace.nodes.standing.planned import VOID
from headrace.nodes.standing.state_commits import last_state_commit, records_folded
from headrace.nodes.unusable_table import UnusableTable
from headrace.writing.delivery.redeliver import can_be_put_right, put_right
from headrace.writing.leases.lease import LeaseTakenError, require_leases, take_lease
from headrace.writing.leases.lease_waits import take_lease_patiently
from headrace.writing.node_runner import NodeRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.lifecycle.rebuilds.takeover import TakenOver
    from headrace.log.clock import Clock
    from headrace.writing.leases.lease import Lease

logger = structlog.get_logger(__name__)

PATIENCE_SECONDS = 60.0  # for a backfill of the node to end


class Rebuild:
    """A node that is rebuilt. Exactly one may be open for a node: it holds a lease until it is closed.

    Sinks that can be corrected, and say what they hold, are put right before results and state are replaced, by a process
    that holds the node: one that was overtaken corrects none. A correction that was broken off is done again; newer rows
    that a sink was given since stay. Other sinks hold what the old description gave, until somebody redelivers.
    """

    def __init__(
        self,
        site: Site,
        node: Node,
        *,
        is_read: bool = False,
        correct: bool = True,
        kept_until_ms: int | None = None,
    ) -> None:
        """Begin, or go on where one of the same description stopped.

        In:     is_read        whether other nodes read what it gives: its new log is written along with it
                correct        whether sinks are put right
                kept_until_ms  how long the tables that it replaces are kept; None: they are not
        Raises: TransientError while another process rebuilds the node.
        """
        spark, lake, clock = site.spark, site.lake, site.clock
        self._spark, self._lake, self._node = spark, lake, node
        self._clock, self._on_step = clock, site.on_step
        self._correct, self._kept_until_ms = correct, kept_until_ms
        name = node.required_name
        self._target = rebuild_place(lake, node)
        try:
            self._lease = take_lease(spark, lake.lease(f"rebuild/{name}"), f"Rebuild of '{name}'", clock)
        except LeaseTakenError as error:
            hint = "A stream tries again by itself; run a command again once that process has ended."
            raise TransientError(str(error), hint=hint) from error
        self._is_read, self._pasts = is_read, NotedPasts(lake, self._target, node)
        self.is_fresh = not self._pasts.hold()  # nothing was built before, or of other logs
        if not self.is_fresh:
            self.runner = self._runner()
            self.is_fresh = is_beyond(self._bounds(), self.runner.progress.upto_ms)
        if self.is_fresh:
            self._remove()
            self._drop_outdated_log()
            self.runner = self._runner()

    def _runner(self) -> NodeRunner:
        """It delivers nothing, but stops where sinks can be put right: at one log commit of all topics."""
        begin_from_balance(self._spark, self._lake, self._target, self._node)
        if self.is_fresh:
            self._pasts.note()
        alone = replace(self._node, sinks=())
        return NodeRunner(self._spark, alone, self._target, is_read=self._is_read, bounds=self._bounds)

    def _bounds(self) -> Mapping[str, int]:
        before_ms = standing(self._lake, self._node)
        if before_ms is None:
            return {}
        return meeting_point(before_ms, self._topics)

    @property
    def _topics(self) -> list[str]:
        return [topic.name for topic in self._node.topics]

    def advance(self) -> bool:
        """Fold what the tables have read beyond it; False when there is nothing new.

        Raises: TransientError when a log that it reads has got another past; nothing of it is kept then
        """
        self._lease.check()
        self._require_same_pasts()
        return self.runner.advance_packed()

    @property
    def records(self) -> int:
        """How many records it has folded."""
        return self.runner.progress.all_records

    @property
    def records_before(self) -> int | None:
        """Records already in the tables to be replaced; None: there are no tables."""
        return records_folded(self._lake, self._node.required_name)

    @property
    def scratch(self) -> Lake:
        """Where its tables lie."""
        return self._target

    @property
    def meets_at_ms(self) -> int:
        """The commit time through which it reads: there it meets the tables that it is to replace."""
        return max(self._bounds().values(), default=0)

    @property
    def is_behind(self) -> bool:
        """True while it has read less than the tables that it is to replace: a swap would take them back in time."""
        before_ms = standing(self._lake, self._node)
        return before_ms is not None and is_behind(before_ms, self.runner.progress.upto_ms, self._topics)

    def swap(self, node_lease: Lease) -> None:
        """Put it in the place of the node's tables.

        In:     node_lease  the node's lease, which the caller holds
        Raises: TransientError while it is behind them, or when somebody has written them meanwhile; LeaseLostError when
                somebody has taken a lease. Nothing is swapped then
        """
        stood = place(self._lake, self._node)
        if self.is_behind:
            raise TransientError(
                f"Node '{self._node.required_name}': its rebuild has read less than the tables that it is to replace.",
                hint="It goes on when the logs that it reads go on.",
            )
        lake, name = self._lake, self._node.required_name
        folder, clock = lake.lease(f"backfill/{name}"), self._clock
        lease = take_lease_patiently(self._spark, folder, f"Swap of '{name}'", clock, PATIENCE_SECONDS)
        leases = (node_lease, self._lease, lease)
        try:
            if not self.runner.node.has_days:
                self.runner.maintain()  # the base then says how far it goes
            self.keep_older_rows()  # sinks keep them, too
            require_leases(leases)
            self._on_step("before swap")
            if self._kept_until_ms is not None:
                keep_former(lake, name, self._node.fingerprint(), self._kept_until_ms)
                self._on_step("after kept")
            writers = take_over(lake, name)
            self._require_unmoved(stood, leases)
            if self._correct:
                self._correct_sinks()
                self._on_step("after sinks")
                self._require_unmoved(stood, leases)
            keep_standing(lake, self._node)
            unmoved = partial(self._require_unmoved, stood, leases)
            bring_balance(self._spark, lake, self._target, self._node, unmoved)
            write_description(lake, self._node)
            self._on_step("after rules")
            self._require_unmoved(stood, leases)
            self._replace_tables(writers)
        finally:
            lease.release()
        drop_standing(lake, self._node)
        settle_balance(lake, self._target, name)
        self._remove()

    def _require_unmoved(self, stood: object, leases: Iterable[Lease]) -> None:
        """Raise TransientError if the tables or a log were written since. Behind the fence nobody writes them afterwards."""
        require_leases(leases)
        self._require_same_pasts()
        if place(self._lake, self._node) != stood:
            raise TransientError(
                f"Node '{self._node.required_name}': another process has written its tables during the swap.",
                hint="Nothing is swapped in, and what is built stays. Run headrace apply again; a stream tries by itself.",
            )

    def _require_same_pasts(self) -> None:
        if not self._pasts.hold():
            self._remove()  # it may hold a key that was erased
            raise TransientError(
                f"Node '{self._node.required_name}': rows of a log that it reads have changed while it was rebuilt.",
                hint="Nothing is swapped in. Run headrace apply again: it begins anew; a stream tries by itself.",
            )

    def _replace_tables(self, writers: TakenOver) -> None:
        spark, lake, name = self._spark, self._lake, self._node.required_name
        if small_files.read_json(lake.opening(name)) is not None:  # of the description before
            drop_former(lake, name)  # nobody can go back to it without its balance
            if not small_files.exists(self._target.opening(name)):
                drop_opening(lake, name)
        UnusableTable(spark, lake, self._node).gain(UnusableTable(spark, self._target, self._node))
        signed = results_writer(self._node)
        plan = small_files.read_json(
            lake.plan(name)
        )  # of the description before; `keep_standing` noted what it tells
        results = writers.maintainer if signed.startswith("fold/") else writers.appender
        self._replace(self._target.table(name), results, signed)
        mark_since(self._node, results)
        self._on_step("after results")
        self._replace(self._target.state(name), writers.state, f"node/{name}", {VOID: plan})
        if small_files.read_json(lake.plan(name)) == plan:  # not that of a stream which has gone on
            small_files.delete(lake.plan(name))

    def _remove(self) -> None:
        """Delete what is built so far."""
        assert self._target.nodes is not None
        self._pasts.drop()  # first: what follows is not whole any more
        small_files.delete(self._target.nodes)
        lakes.forget(self._target.nodes)

    def keep_older_rows(self) -> None:
        """Take over the rows from before the day of `since`, as far as the node has one; once is enough."""
        keep_older_rows(self._spark, self._lake, self._target, self._node, results_writer(self._node))

    def close(self) -> None:
        """Give the lease back; what is built so far stays."""
        self._lease.release()

    def _drop_outdated_log(self) -> None:
        """Remove the log that an earlier generation of the same description gave; logs may have been mended since."""
        replaced = last_state_commit(self._lake, self._node.required_name)
        if replaced is not None and replaced.record["fingerprint"] != self._node.fingerprint():
            uri = self._lake.log(output_name(self._node))
            small_files.delete(uri)
            lakes.forget(uri)

    def _correct_sinks(self) -> None:
        for sink in self._node.sinks:
            if can_be_put_right(sink):
                put_right(self._spark, self._target, self._node, sink)
            else:
                name = self._node.required_name
                logger.warning("a sink keeps what the old description gave", node=name, sink=sink.name)

    def _replace(
        self, source: str, swapper: lakes.TableWriter, writer: str, facts: Mapping[str, Any] | None = None
    ) -> None:
        commit = lakes.last_commit(lakes.open_table(source), writer)
        batch = {"batch": self.runner.progress.batch, "upto_ms": dict(self.runner.progress.upto_ms)}
        record = {"writer": writer, **batch} if commit is None else dict(commit.record)
        if writer == f"node/{self._node.required_name}" and "progress" not in record:
            record |= batch  # of appended results: through this micro-batch they are there, also if it closed nothing
        replace_table(swapper, lakes.open_table(source), record | dict(facts or {}))


def rebuild_due(
    spark: SparkSession,
    node: Node,
    lake: Lake,
    clock: Clock,
    *,
    on_step: Callable[[str], None] = lambda step: None,
) -> Rebuild | None:
    """The rebuild of a node whose tables are another description's; None: they are its own, or it has none.

    Raises: OtherDescriptionError when they cannot be rebuilt under the same name.
    """
    try:
        read_progress(lake, node)
    except OtherDescriptionError as error:
        if error.outcome != REBUILT:
            raise
        _require_described_logs(node, lake)
        _require_whole_logs(node, lake)
        return Rebuild(Site(spark, lake, clock, on_step), node)
    return None


def _require_described_logs(node: Node, lake: Lake) -> None:
    for topic in node.topics:
        if not log_is_as_described(lake, topic):
            raise OtherDescriptionError(
                node.required_name, REFUSED, f"The log of '{topic.name}' has to be written again before."
            )


def _require_whole_logs(node: Node, lake: Lake) -> None:
    if why := why_not_since(lake, node):
        raise TerminalError(
            f"Node '{node.required_name}': it cannot be rebuilt yet, for {why}.",
            hint="Restore the description until stream time has reached that day plus grace, or name an earlier day.",
        )
    cut = cut_logs(lake, node)
    if cut and not rebuild_from_balance(lake, node).suffices:
        raise TerminalError(
            f"Node '{node.required_name}': it cannot be rebuilt, because older rows of its log were cut off.",
            detail=f"Opening balances stand for those of {', '.join(cut)}, and were struck by the old description.",
            hint="Restore the description, or give the changed node a new name: it is then built from the rest of the log.",
        )
