"""Apply the changed description of a pipeline: rebuild what changed and what follows it, compare, swap in.

Logs whose columns have changed are written again first (see `lifecycle.log_repair.rewrite_log`).

Law: afterwards each node's tables equal a fold of its logs by the described node, as far as the former tables had read
them. Until its swap a node's tables do not change, and streams of the old description may write them.

1. Build: each changed node is folded from the log beside its tables, in bounded increments, each node before those that read
   it. The lake keeps the tables built so far: an act that was broken off goes on from there.
2. Compare the rows before and after, as far as both have read.
3. Swap: a running stream hands the nodes over (see `writing.leases.handover`). The new tables fold the increments that the
   stream folded during the build. The act is noted, and the former tables are kept. Each node is swapped in behind the
   fence (see `lifecycle.rebuilds.rebuild`), before the nodes that read it.
4. Sinks get the rows that were asked for, and the nodes go back to their stream. A stream with the new code goes on where
   the former tables stood. A stream with the old code waits (see `streams.loops.swappable_loop`).
"""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from functools import cached_property
from typing import TYPE_CHECKING

from headrace import lake as lakes
from headrace.changing.acts import DONE, Act, ChangedNode, acts_under_way, begin_act, write_act
from headrace.changing.applied import Applied
from headrace.changing.changed_logs import ChangedLogs
from headrace.changing.comparing.compare_generations import Differences, compare_generations
from headrace.changing.lease_conflicts import unless_others_write
from headrace.changing.plan_changes import plan_changes, stored_node
from headrace.changing.rename_node import rename_node, require_renamable
from headrace.changing.requirements import ALL, DIFFERENCES, NOTHING, require_applicable, require_emittable
from headrace.changing.settle_logs import settle_logs
from headrace.description import is_unnamed, output_name, written_by
from headrace.errors import TerminalError, TransientError
from headrace.lake import small_files
from headrace.lifecycle.log_repair.repair_mark import require_repaired
from headrace.lifecycle.rebuilds.rebuild import Rebuild
from headrace.log.history.writings import written_again
from headrace.log.site import Site
from headrace.nodes.descriptions.references import require_logs, resolve_all_references
from headrace.nodes.descriptions.topics import is_read, topics_of, upstream_first
from headrace.nodes.node_tables import rows_before
from headrace.nodes.standing.state_commits import last_state_commit
from headrace.spark.lake_rows import read_table
from headrace.spark.session import pipeline_session
from headrace.writing.delivery.redeliver import redeliver
from headrace.writing.leases.handover import PATIENCE_SECONDS, handed_over
from headrace.writing.node_runner import NodeRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from headrace.changing.plan import ChangePlan
    from headrace.description import Node
    from headrace.settings.kafka import KafkaSettings
    from headrace.writing.leases.lease import Lease

KEPT_HOURS = 168.0
HOUR_MS = 3_600_000
WHO = "headrace apply"
CATCH_UP_SECONDS = 60.0  # for logs to be settled as far as the tables before have read them
LOOK_SECONDS = 1.0


class ApplyChanges:
    """One act. The pipeline's streams may run meanwhile.

    on_folded  called after each increment: how many records of a node are folded, and of how many
    """

    def __init__(
        self,
        site: Site,
        nodes: Sequence[Node],
        *,
        emit: str = NOTHING,
        kept_hours: float = KEPT_HOURS,
        kafka: KafkaSettings | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """Plan it; nothing is changed.

        In:     nodes    all of the pipeline, as described now
                kafka    for logs that are made anew from Kafka; None: those of the environment
                emit     what sinks get: "none"; "differences": those that can be corrected are put right; "all": every row
                patience_seconds  how long a stream may take to hand a node over
        Raises: TerminalError when the plan refuses a node, a sink cannot take what is asked for, or the act was begun with
                another `emit`; NodeAwaitedError while a node that a changed one reads by name has no log
        """
        lake, self._spark, self._clock = site.lake, pipeline_session(site.spark), site.clock
        self._lake, self._emit, self._on_step, self._kafka = lake, emit, site.on_step, kafka
        self._kept_until_ms = self._clock.now_ms() + round(kept_hours * HOUR_MS)
        self._patience_seconds = patience_seconds
        self.on_folded: Callable[[int, int | None], object] = lambda done, of: None
        self.plan: ChangePlan = plan_changes(lake, nodes, kafka)
        require_applicable(self.plan)
        self._nodes = upstream_first(resolve_all_references(lake, nodes))
        found = {node.required_name for node in self._nodes}
        self._readers = [*self._nodes, *(node for node in nodes if node.required_name not in found)]
        rebuilt = {each.node: each for each in self.plan.rebuilt}
        self._changed = [node for node in self._nodes if node.required_name in rebuilt]
        for node in self._changed:
            require_logs(lake, node)
            require_emittable(node, emit, rebuilt[node.required_name].rekeyed)
        self._act_before = self._broken_off()
        self._written_again = {*(self._act_before.written_again if self._act_before else ())}
        self._rows = {each.node: sum(read.rows for read in each.reads) for each in self.plan.rebuilt}

    def run(self, *, on_stage: Callable[[str], None] = lambda stage: None) -> Applied:
        """Rename, build, compare, swap, and let sinks have what was asked for.

        Raises: TerminalError when all is built and somebody does not hand a node over: run it again, what is built stays.
        """
        names = [node.required_name for node in self._changed]
        with ExitStack() as stack:
            rebuilds = self._begun(stack, on_stage)
            self._build(rebuilds, on_stage)
            differences = self._differences(rebuilds, on_stage)
            self._build(rebuilds, on_stage, again=True)  # what came while rows were compared
            leases = stack.enter_context(self._alone(names, ask=True))
            self._catch_up(rebuilds, on_stage)
            act = self._noted(differences)
            for name, rebuild in rebuilds.items():
                on_stage(f"Swaps in {name}.")
                rebuild.swap(leases[name])
            act = self._deliver(act)
            if act.nodes:
                write_act(self._lake, replace(act, state=DONE))
        told = tuple((each.node, Differences(**each.differences)) for each in act.nodes)
        renamed = tuple(each.node for each in self.plan.renamed)
        rewritten = tuple(each.topic for each in self.plan.rewritten)
        return Applied(told, act.kept_until_ms, renamed, rewritten, act.written_again)

    def build(self, *, on_stage: Callable[[str], None] = lambda stage: None) -> None:
        """Only build; `run` goes on from there."""
        with ExitStack() as stack:
            self._build(self._begun(stack, on_stage), on_stage)

    def _begun(self, stack: ExitStack, on_stage: Callable[[str], None]) -> dict[str, Rebuild]:
        """The rebuilds, by node, once nodes have their new names."""
        self._rewrite_logs(on_stage)
        described = {node.required_name: node for node in self._nodes}
        for each in self.plan.renamed:
            assert each.renamed_from is not None
            with self._alone([each.renamed_from, each.node], ask=True) as leases:
                require_renamable(self._lake, described[each.node])
                rename_node(self._lake, each.renamed_from, each.node, leases.values())
        self._written_again |= {*self._logs_written_again()}
        rebuilds = {}
        for node in self._changed:
            rebuilds[node.required_name] = rebuild = self._opened(node)
            stack.callback(rebuild.close)
        return rebuilds

    def _rewrite_logs(self, on_stage: Callable[[str], None]) -> None:
        """Write the logs again whose columns are others now; nodes are rebuilt from these."""
        topics = topics_of(self._readers)
        logs = ChangedLogs(self._spark, self._lake, self._readers, self._clock, self._kafka, self._on_step)
        for each in self.plan.rewritten:
            on_stage(f"Writes the log of {each.topic} again.")
            logs.write(topics[each.topic], each)

    def _logs_written_again(self) -> Iterator[str]:
        """The topics whose logs are others than those from which the tables before were folded."""
        for node in self._changed:
            commit = last_state_commit(self._lake, node.required_name)
            yield from () if commit is None else written_again(self._lake, commit.record)

    def _opened(self, node: Node) -> Rebuild:
        return Rebuild(
            Site(self._spark, self._lake, self._clock, self._on_step),
            node,
            is_read=is_read(node, self._nodes),
            correct=self._emit == DIFFERENCES,
            kept_until_ms=None if self._written_again else self._kept_until_ms,
        )

    def _catch_up(self, rebuilds: dict[str, Rebuild], on_stage: Callable[[str], None]) -> None:
        """Come to where the tables stand; a log that is not settled so far yet is waited for."""
        deadline = time.monotonic() + CATCH_UP_SECONDS
        site = Site(self._spark, self._lake, self._clock)
        for node in self._changed:
            settle_logs(site, node, self._nodes, rebuilds[node.required_name].meets_at_ms)
        self._build(rebuilds, on_stage, again=True)
        while behind := [name for name, each in rebuilds.items() if each.is_behind]:
            if time.monotonic() >= deadline:
                raise TransientError(
                    f"Nothing is swapped in: the rebuilds of {', '.join(behind)} have read less than the old tables.",
                    hint="A log that they read is not settled so far. Run headrace apply again when it has gone on.",
                )
            time.sleep(LOOK_SECONDS)
            self._build(rebuilds, on_stage, again=True)

    def _build(
        self, rebuilds: dict[str, Rebuild], on_stage: Callable[[str], None], *, again: bool = False
    ) -> None:
        """Fold what the tables before have read, each node before those that read it."""
        for node in self._needed:
            name = node.required_name
            if not again:
                on_stage(
                    f"Folds the log of {name} into new tables." if name in rebuilds else f"Folds {name}."
                )
            began = time.monotonic()
            if name in rebuilds:
                of = rebuilds[name].records_before
                while rebuilds[name].advance():
                    self._on_step("after increment")
                    self.on_folded(rebuilds[name].records, of)
                if rebuilds[name].is_fresh and not again:
                    self._measure(name, time.monotonic() - began)
            else:
                self._run(node)

    @cached_property
    def _needed(self) -> list[Node]:
        """The changed nodes, and those that have to run for them: their logs are read, and are not there at first."""
        changed = {node.required_name for node in self._changed}
        wanted = set(changed)
        for node in reversed(self._nodes):
            if node.required_name in wanted:
                above = [writer for topic in node.topics if (writer := written_by(topic))]
                wanted |= {each.required_name for each in above if self._has_to_run(each)}
        return [node for node in self._nodes if node.required_name in wanted]

    def _has_to_run(self, node: Node) -> bool:
        """Whether a node that is read has to fold first: a step without a name, or one that nobody has read so far."""
        given = output_name(node)
        return (
            is_unnamed(node.required_name)
            or lakes.last_commit(lakes.open_table(self._lake.log(given)), f"log/{given}") is None
        )

    def _run(self, node: Node) -> None:
        """Let a node fold all that its log holds, unless a stream does so."""
        name = node.required_name
        told = lakes.exists(self._lake.log(output_name(node)))
        with ExitStack() as stack:
            try:
                stack.enter_context(self._alone([name], ask=not told))
            except TerminalError:
                if told:
                    return
                raise
            require_repaired(self._lake, name)
            runner = NodeRunner(self._spark, node, self._lake, is_read=True)
            while runner.advance_packed():
                pass

    def _measure(self, name: str, seconds: float) -> None:
        if rows := self._rows.get(name):
            small_files.write_json(self._lake.rebuild_rate(name), {"rows": rows, "seconds": seconds})

    @contextmanager
    def _alone(self, names: Sequence[str], *, ask: bool) -> Iterator[Mapping[str, Lease]]:
        """No stream writes these nodes meanwhile; the leases, by node.

        In: ask  whether a stream that does is asked to hand them over
        """
        patience = self._patience_seconds if ask else 0.0
        with ExitStack() as stack:
            held = handed_over(
                self._spark,
                self._lake,
                names,
                self._clock,
                what=WHO if ask else None,
                patience_seconds=patience,
            )
            with unless_others_write(f"{', '.join(names)}: cannot be swapped in or renamed"):
                leases = stack.enter_context(held)
            yield leases

    def _differences(
        self, rebuilds: dict[str, Rebuild], on_stage: Callable[[str], None]
    ) -> dict[str, ChangedNode]:
        """Tell the outcome for each node's rows. Notes of an act that was broken off stay."""
        found = {}
        for node in self._changed:
            name = node.required_name
            held = stored_node(self._lake, name)
            assert held is not None
            noted = () if self._act_before is None else self._act_before.nodes
            known = next((each for each in noted if each.node == name), None)
            if held.is_interrupted(node.fingerprint()) and known is not None:
                found[name] = known  # its results may be the new ones already
                continue
            on_stage(f"Compares the rows of {name}.")
            rebuilds[name].keep_older_rows()
            differences = asdict(self._compared(node, rebuilds[name]))
            found[name] = ChangedNode(name, held.written_by, node.fingerprint(), differences)
        return found

    def _noted(self, differences: dict[str, ChangedNode]) -> Act:
        """The act, durable before the first swap. One that was broken off goes on."""
        act = self._act_before or Act(self._clock.now_ms(), self._emit, self._kept_until_ms)
        act = replace(act, written_again=tuple(sorted(self._written_again)))
        for each in differences.values():
            act = act.with_node(each)
        if not differences:
            return act
        return write_act(self._lake, act) if self._act_before else begin_act(self._lake, act)

    def _broken_off(self) -> Act | None:
        """The act that was broken off, if it is this one.

        Raises: TerminalError when it gives sinks something else
        """
        described = {node.required_name: node.fingerprint() for node in self._nodes}
        ours = [
            act
            for act in acts_under_way(self._lake, described)
            if all(described.get(each.node) == each.after for each in act.nodes)
        ]
        for act in ours:
            if act.emit != self._emit:
                raise TerminalError(
                    f"This change was begun with emit={act.emit!r}, and interrupted: it cannot go on with {self._emit!r}.",
                    hint=f"Finish it with --emit {act.emit}. Afterwards headrace redeliver gives sinks all rows again.",
                )
        return ours[0] if ours else None

    def _compared(self, node: Node, rebuild: Rebuild) -> Differences:
        name, runner = node.required_name, rebuild.runner
        if not runner.node.has_days:
            runner.maintain()
        before = rows_before(self._spark, self._lake, name)
        after = read_table(self._spark, rebuild.scratch.table(name))
        commit = lakes.last_commit(lakes.open_table(self._lake.state(name)), f"node/{name}")
        assert commit is not None
        reached = [
            min(upto_ms.values(), default=0)
            for upto_ms in (commit.record.get("progress", {}).get("upto_ms", {}), runner.progress.upto_ms)
        ]
        return compare_generations(before, after, node.key, min(reached))

    def _deliver(self, act: Act) -> Act:
        """Let sinks have all rows, if that was asked for; what they got before a crash changes nothing."""
        by_name = {node.required_name: node for node in self._nodes}
        for each in act.nodes:
            node = by_name[each.node]
            if each.delivered:
                continue
            if act.emit == ALL and node.sinks:
                redeliver(self._spark, self._lake, node)
            act = write_act(self._lake, act.with_node(replace(each, delivered=True)))
        return act
