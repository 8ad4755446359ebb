"""Decisions of people about limits and lost records, while a life goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.description.clocks import WALL
from headrace.description.suppression import UntilTimeLimit
from headrace.errors import DescriptionError
from headrace.lifecycle.live_limits import limits_topic

if TYPE_CHECKING:
    from tests.lives.live import LivesDriver
    from tests.lives.story import Limit, Lose


class LimitSet(NamedTuple):
    """A limit of the wall clock that was set. In: topic  the log that has it; at_ms: its commit time; ms: 0 removes the limit"""

    topic: str
    at_ms: int
    ms: int


def set_limits(life: LivesDriver, step: Limit) -> None:
    """A person sets the limits of a node, or of all nodes with a time limit. Some cannot have them."""
    meant = life._names if step.node is None else life._names[step.node : step.node + 1]
    for name in meant:
        node = life._nodes[name]
        if not isinstance(node.suppressed_by, UntilTimeLimit):
            continue
        try:
            with life.undisturbed():
                life.set_limits(name, time_limit=step.ms, max_records=step.records)
        except DescriptionError:
            continue
        if node.suppressed_by.clock != WALL:
            continue
        topic = limits_topic(node).name
        at_ms = life._sequencers[topic].state.ingested_at_ms
        life.limits.setdefault(name, []).append(LimitSet(topic, at_ms, step.ms))


def lose(life: LivesDriver, step: Lose) -> None:
    """Records are lost before the log has them, and a person accepts that."""
    broker = life._brokers.get(step.topic)
    if broker is not None and step.partition in broker.next_offsets:
        first = life._sequencers[step.topic].state.next_offsets.get(step.partition, 0)
        end = broker.lose(step.partition, first, step.records)
        if end > first:
            lost = {step.partition: end}
            life._by_sequencer(step.topic, lambda sequencer: sequencer.accept_gap(lost))
