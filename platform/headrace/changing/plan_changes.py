"""Compare the description of a pipeline with what a lake holds. Nothing is changed, and Spark is not needed.

Law: a node is rebuilt only if that leads to what a fold of its whole log would lead to: none of the logs that it would read
was cut, or its opening balance tells what it needs of the rows that are gone; each topic's log fits its description, no node
that it reads is refused, and those that it reads by name are there. Everything else is refused with the reason.

A node of another pipeline is read as the lake has it (see `references`); its own pipeline's plan says how it changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headrace.changing.cut_nodes import NEW_NAME, ways_out, why_not_from_the_rest
from headrace.changing.plan import NEW, RENAMED, UNCHANGED, ChangePlan, LogRead, NodePlan, TopicPlan
from headrace.changing.plan_topics import RESTORE, plan_topic
from headrace.changing.rename_node import Obstacle, why_not_renamed
from headrace.description import OtherNodeError, is_of_kafka, is_unnamed, with_references, written_by
from headrace.description.remarks import remarks_of
from headrace.description.sink import CorrectableSink
from headrace.description.topology import steps_by_spark
from headrace.lake import open_table, small_files
from headrace.nodes.balances.older_rows import why_not_since
from headrace.nodes.balances.opening import cut_logs
from headrace.nodes.balances.rebuild_from_balance import NO_REBUILD, rebuild_from_balance
from headrace.nodes.descriptions.compare_rules import Changes, compare_rules, nodes_read
from headrace.nodes.descriptions.evolution import GOES_ON, REBUILT, REFUSED, by_policy, outcome_of
from headrace.nodes.descriptions.references import NodeAwaitedError, resolve_reference
from headrace.nodes.descriptions.renamed import has_to_be_renamed
from headrace.nodes.descriptions.topics import topics_of, upstream_first
from headrace.nodes.standing.state_commits import last_state_commit
from headrace.operators.registry import operator_for
from headrace.writing.delivery.redeliver import can_be_put_right

if TYPE_CHECKING:
    from headrace.description import Node, NodeReference, Topic
    from headrace.lake.paths import Lake
    from headrace.settings.kafka import KafkaSettings

NO_CHANGES = Changes()


@dataclass(frozen=True)
class StoredNode:
    """A node as a lake holds it.

    written_by  the fingerprint in the last commit of its state
    stored      the rules and remarks noted beside its state, with their fingerprint; None: none are
    """

    written_by: str
    stored: Mapping[str, Any] | None

    @property
    def rules(self) -> Mapping[str, Any] | None:
        """The rules by which its tables were written; None: they are not known."""
        known = self.stored is not None and self.stored["fingerprint"] == self.written_by
        return self.stored["rules"] if self.stored is not None and known else None

    def rekeyed(self, node: Node) -> Iterator[str]:
        """The sinks that hold rows of another identity than those of the node now, and go by it."""
        if self.rules is None or self.stored is None:
            return
        if tuple(self.stored["identity"]) != operator_for(node).identity:
            names = self.stored["remarks"]["sinks"]
            yield from (sink.name for sink in node.sinks if sink.name in names and can_be_put_right(sink))

    def is_interrupted(self, fingerprint: str) -> bool:
        """True if a change to the description with this fingerprint was broken off while it was swapped in."""
        return self.stored is not None and self.stored["fingerprint"] == fingerprint != self.written_by


def stored_node(lake: Lake, name: str) -> StoredNode | None:
    """A node as a lake holds it; None: nothing was written yet."""
    commit = last_state_commit(lake, name)
    if commit is None:
        return None
    stored = small_files.read_json(lake.description(name))
    return StoredNode(commit.record["fingerprint"], stored)


def plan_changes(lake: Lake, nodes: Sequence[Node], kafka: KafkaSettings | None = None) -> ChangePlan:
    """The plan for a pipeline.

    In:     nodes  all of the pipeline
            kafka  asked about records if a log has to be made anew from them; None: by the environment
    Raises: DescriptionError when the nodes do not fit together (see `topics_of`)
    """
    return _Planner(lake, nodes, kafka).plan()


class _Planner:
    def __init__(self, lake: Lake, nodes: Sequence[Node], kafka: KafkaSettings | None) -> None:
        self._kafka = kafka
        self._unfound = dict[str, NodeAwaitedError | OtherNodeError]()
        self._lake, self._nodes = lake, upstream_first([self._as_in_the_lake(lake, node) for node in nodes])
        self._topics = topics_of(nodes)
        self._plans: dict[str, NodePlan] = {}

    def _as_in_the_lake(self, lake: Lake, node: Node) -> Node:
        """The node with the generations of those that it reads by name, as far as these are there and as described."""

        def find(reference: NodeReference) -> NodeReference:
            try:
                return resolve_reference(lake, reference)
            except (NodeAwaitedError, OtherNodeError) as error:
                self._unfound[node.required_name] = error
                return reference

        return with_references(node, find)

    def plan(self) -> ChangePlan:
        for node in self._nodes:
            self._plans[node.required_name] = self._of_node(node)
        names = {node.required_name for node in self._nodes}
        there = small_files.names(f"{self._lake.root}/tables")
        undescribed = [name for name in there if name not in names and not is_unnamed(name)]
        listed = (each for name, each in self._plans.items() if not is_unnamed(name))
        by_spark = {node.required_name: steps_by_spark(node) for node in self._nodes}
        nodes = tuple(
            replace(each, readers=self._readers(each), by_spark=by_spark[each.node]) for each in listed
        )
        return ChangePlan(tuple(self._topic_plans.values()), nodes, tuple(undescribed))

    def _of_node(self, node: Node) -> NodePlan:
        name = node.required_name
        held = stored_node(self._lake, name)
        if (unfound := self._unfound.get(name)) is not None:
            return _of_unfound(name, held, unfound)
        if has_to_be_renamed(self._lake, node):
            return self._of_renamed(node)
        if held is None:
            why = self._why_not(node)
            return NodePlan(name, REFUSED if why[0] else NEW, reason=why[0], way_out=why[1])
        described = {"fingerprint": node.fingerprint(), "rules": json.loads(json.dumps(node.rules()))}
        stored = held.stored["fingerprint"] if held.stored is not None else held.written_by
        remarks = tuple(_remarks(held.stored, node))
        if {held.written_by, stored} == {described["fingerprint"]}:
            why = self._why_not_read(node)
            outcome = REFUSED if why[0] else GOES_ON if remarks else UNCHANGED
            return NodePlan(name, outcome, remarks=remarks, reason=why[0], way_out=why[1])
        return self._of_changed(node, held, described, remarks)

    def _of_renamed(self, node: Node) -> NodePlan:
        """The plan for it under its former name, if it can go on from there."""
        before = node.renamed_from
        assert before is not None
        obstacle = why_not_renamed(self._lake, node)
        if before in {each.required_name for each in self._nodes}:
            obstacle = Obstacle(f"'{before}' is a node of this pipeline")
        if obstacle is not None:
            return NodePlan(node.required_name, REFUSED, reason=obstacle.reason, way_out=obstacle.way_out)
        plan = self._of_node(replace(node, name=before, renamed_from=None))
        outcome = RENAMED if plan.outcome in (UNCHANGED, GOES_ON) else plan.outcome
        return replace(plan, node=node.required_name, outcome=outcome, renamed_from=before)

    def _of_changed(
        self, node: Node, known: StoredNode, described: Mapping[str, Any], remarks: tuple[str, ...]
    ) -> NodePlan:
        name, outcome = node.required_name, outcome_of(known.stored, known.written_by, described)
        changes = Changes() if known.rules is None else compare_rules(known.rules, described["rules"])
        plan = NodePlan(name, GOES_ON, changes, remarks, details_unknown=known.rules is None)
        if outcome == GOES_ON:
            return plan
        plan = replace(
            plan,
            interrupted=known.is_interrupted(described["fingerprint"]),
            sinks=tuple((sink.name, isinstance(sink, CorrectableSink)) for sink in node.sinks),
            rekeyed=tuple(known.rekeyed(node)),
        )
        reason, way_out = self._why_not(node, changes)
        if reason:
            return replace(plan, outcome=REFUSED, reason=reason, way_out=way_out)
        from_balance = bool(cut_logs(self._lake, node))
        reads = tuple(self._reads(node, known))
        rate = small_files.read_json(self._lake.rebuild_rate(name))
        rows = sum(read.rows for read in reads)
        seconds = rows * rate["seconds"] / rate["rows"] if rate and rate["rows"] else None
        return replace(
            plan,
            outcome=REBUILT,
            reads=reads,
            seconds=seconds,
            at_start=by_policy(node, outcome) == REBUILT,
            from_balance=from_balance,
        )

    def _why_not(self, node: Node, changes: Changes = NO_CHANGES) -> tuple[str, str]:
        """Why a node can be folded neither from its whole log nor from its balance, and the way out; empty: it can.

        In: changes  from the description that its tables are of
        """
        reason, way_out = self._why_not_read(node)
        if reason:
            return reason, way_out
        cut = cut_logs(self._lake, node) if stored_node(self._lake, node.required_name) else []
        rebuild = rebuild_from_balance(self._lake, node) if cut else NO_REBUILD
        if cut and not rebuild.suffices:
            why = why_not_from_the_rest(cut, changes, rebuild.why_not)
            return why, ways_out(self._lake, node, cut, changes)
        if why := why_not_since(self._lake, node):
            return why, "Apply it once stream time has reached that day plus grace, or name an earlier day."
        return "", ""

    def _why_not_read(self, node: Node) -> tuple[str, str]:
        for topic in node.topics:
            writer = written_by(topic)
            if writer is not None and self._plans[writer.required_name].outcome == REFUSED:
                upstream = self._plans[writer.required_name]
                if is_unnamed(upstream.node):
                    return upstream.reason, upstream.way_out
                return f"it reads '{upstream.node}', which is refused", f"Settle '{upstream.node}' first."
            if writer is not None and self._gives_part_of_log(writer):
                return (
                    f"rows of the logs of '{writer.required_name}' were cut off, and it would tell all anew",
                    f"{RESTORE}; or {NEW_NAME}.",
                )
            if is_of_kafka(topic) and self._topic_plans[topic.name].outcome == REFUSED:
                return (
                    f"the log of topic '{topic.name}' does not fit its description",
                    "Settle the topic first.",
                )
        return "", ""

    def _gives_part_of_log(self, node: Node) -> bool:
        """Whether a node begins another log for others, and cannot tell again what it gave before a cut."""
        found = self._plans[node.required_name]
        before = found.renamed_from
        if found.from_balance:
            return True
        return before is not None and small_files.read_json(self._lake.opening(before)) is not None

    def _logs(self, node: Node) -> Iterator[Topic]:
        """The logs from which a node is folded; a step without a name that is not there yet is folded, too."""
        for topic in node.topics:
            step = written_by(topic)
            if (
                step is None
                or not is_unnamed(step.required_name)
                or stored_node(self._lake, step.required_name)
            ):
                yield topic
            else:
                yield from self._logs(step)

    def _reads(self, node: Node, known: StoredNode) -> Iterator[LogRead]:
        before = {} if known.rules is None else nodes_read(known.rules)
        for topic in {each.name: each for each in self._logs(node)}.values():
            name, _, generation = topic.name.partition("@")
            uri = self._lake.log(topic.name)
            writer = written_by(topic)
            was = name if writer is None or writer.renamed_from is None else writer.renamed_from
            if generation and not open_table(uri).exists and was in before:
                uri = self._lake.log(f"{was}@{before[was]}")  # of about the same size
            log = open_table(uri)
            snapshot = log.snapshot() if log.exists else None
            words = "a step without a name" if is_unnamed(name) else name
            yield LogRead(words, snapshot.rows if snapshot else 0, snapshot.bytes if snapshot else 0)

    def _readers(self, plan: NodePlan) -> tuple[str, ...]:
        """The nodes that follow one, directly or through others."""
        if plan.outcome != REBUILT:
            return ()
        below: list[str] = []
        for name, other in self._plans.items():
            if {plan.node, *below} & {*other.changes.follows}:
                below.append(name)
        return tuple(below)

    @cached_property
    def _topic_plans(self) -> dict[str, TopicPlan]:
        return {name: plan_topic(self._lake, topic, self._kafka) for name, topic in self._topics.items()}


def _of_unfound(name: str, known: StoredNode | None, error: NodeAwaitedError | OtherNodeError) -> NodePlan:
    """The plan of a node that reads by its name one that is not there, or is not as described."""
    outcome = NEW if known is None and isinstance(error, NodeAwaitedError) else REFUSED
    reason = "; ".join(words.rstrip(".") for words in (error.message, error.detail) if words)
    return NodePlan(name, outcome, reason=reason, way_out=error.hint or f"{RESTORE}.")


def _remarks(stored: Mapping[str, Any] | None, node: Node) -> Iterator[str]:
    """The changes that alter no row; none if the lake does not hold the remarks."""
    before = {} if stored is None else stored.get("remarks") or {}
    after = remarks_of(node)
    for name, words in (
        ("description", "text"),
        ("owners", "owners"),
        ("throttle_ms", "throttle"),
        ("bound", "bound"),
    ):
        if name in before and before[name] != after[name]:
            yield f"{words}: {_shown(before[name])} -> {_shown(after[name])}"
    if "sinks" in before:
        yield from (
            f"sink {name} is new: it gets rows from now on"
            for name in _not_in(after["sinks"], before["sinks"])
        )
        yield from (f"sink {name} gets no more rows" for name in _not_in(before["sinks"], after["sinks"]))


def _not_in(names: Sequence[str], others: Sequence[str]) -> list[str]:
    return [name for name in names if name not in others]


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(of)}" for name, of in sorted(value.items()))
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value) or "none"
