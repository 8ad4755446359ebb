"""The operations that people and Kafka do to a lake, each as what happens to a life; and the commands that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.changing.apply_changes import ApplyChanges
from headrace.changing.roll_back import roll_back
from headrace.lifecycle.corrections import Correction
from headrace.lifecycle.log_repair.repair import Repair
from headrace.lifecycle.maintenance import Maintenance
from headrace.lifecycle.redrive import Redrive
from headrace.log.site import Site
from headrace.operators.registry import operator_for
from headrace.settings.kafka import KafkaSettings
from headrace.spark.brokers.topic_limits import TopicLimits
from headrace.spark.kafka import KafkaTopic
from headrace.streams.pausing import pause, resume, wishes
from headrace.writing.delivery.redeliver import redeliver
from tests.lake.lost_commits import overwrite, versions
from tests.matrix.kinds import AFTER, EVENTS, PLACES, READERS, nodes
from tests.matrix.life import BEGIN_MS, STEP_MS, Life
from tests.matrix.stores import KeyedStore
from tests.runtime.odd_headers import cluster

if TYPE_CHECKING:
    from headrace.description import Node

NOWHERE = KafkaSettings(bootstrap_servers="localhost:1")


@dataclass(frozen=True)
class Operation:
    """An operation, between the second and the third of four steps.

    does     what it does to a life
    commands the commands of `headrace` that it stands for
    changes  whether tables differ from those of a life without it: then they are those of a new lake with the same logs
    oracle   whether the oracle is asked, too: the log is one that no other life has
    sinks    whether sinks hold just the rows of the tables afterwards; False: rows of before, too
    left     the steps that are left after it
    begins   what is different from the beginning
    first    the kinds that are there from the beginning; None: all
    spark    whether it needs a session
    """

    does: Callable[[Life], None]
    commands: tuple[str, ...] = ()
    changes: bool = False
    oracle: bool = False
    sinks: bool = True
    left: Sequence[int] = (3, 4)
    begins: Callable[[Life], None] = lambda life: None
    first: Collection[str] | None = None
    spark: bool = True


def rename(life: Life) -> None:
    """First the nodes that read others, then all."""
    apply(life, nodes(renamed=READERS))
    apply(life, nodes(renamed=life.kinds.keys()))


def apply(life: Life, made: Mapping[str, Node]) -> None:
    ApplyChanges(Site(life.spark, life._lake, life._clock), life.described(made), kafka=NOWHERE).run()
    life.become(made)


def change(life: Life) -> None:
    """Sinks get the rows that were read before by `redeliver`."""
    apply(life, nodes(left_out=AFTER))
    deliver_again(life)


def change_and_go_back(life: Life) -> None:
    before = life.kinds
    apply(life, nodes(left_out=AFTER))
    roll_back(life.spark, life._lake, life._clock)
    life.become(before)


def deliver_again(life: Life) -> None:
    """A store that only takes rows gets revised ones as they change, and none of these again."""
    for kind, store in life.stores.items():
        node = life._nodes[life.kinds[kind].required_name]
        if isinstance(store, KeyedStore) or node.day_column is not None:
            redeliver(life.spark, life._lake, node)


def retain(life: Life) -> None:
    """The first commit of each topic goes."""
    for kind, node in life.kinds.items():
        assert not operator_for(node).uncuttable, kind
    for topic in sorted(life._topics):
        if topic in (EVENTS.name, PLACES.name):
            assert life.retain(topic, BEGIN_MS + 2 * STEP_MS).rows


def erase(life: Life) -> None:
    life.erase(EVENTS.name, "b")
    life.become()
    deliver_again(life)


def redrive(life: Life) -> None:
    """The dead letter goes through a broker of librdkafka's own, corrected, and comes back."""
    with cluster() as bootstrap, pytest.MonkeyPatch.context() as patch:
        patch.setattr(KafkaTopic, "limits", lambda _: TopicLimits())  # that broker does not tell them
        Producer({"bootstrap.servers": bootstrap}).list_topics(EVENTS.name, timeout=10)  # it makes the topic
        dead = [row for row in life.log(EVENTS.name) if row["kind"] == "dead_letter"]
        corrected = Correction({"value": b'{"value": 4, "place": "south"}'})
        kafka = KafkaSettings(bootstrap_servers=bootstrap)
        places = {(row["partition"], row["offset"]): corrected for row in dead}
        sent = Redrive(life.spark, life._lake, EVENTS, kafka).run(corrections=places)
        assert sent.sent == len(dead) == 1
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
        consumer.assign([TopicPartition(EVENTS.name, 0, 0)])
        (message,) = consumer.consume(1, 10)
        consumer.close()
    headers: Any = dict(message.headers() or [])
    life.pipe(
        EVENTS.name,
        key=message.key(),
        value=message.value(),
        timestamp_ms=message.timestamp()[1],
        headers=headers,
    )


def repair(life: Life) -> None:
    """Another program has overwritten the second of three commits of the events."""
    life.steps(3)
    log = life._lake.log(EVENTS.name)
    overwrite(log, versions(log, f"log/{EVENTS.name}")[1])
    done = [*Repair(life.spark, life._lake, [*life._nodes.values()], EVENTS, NOWHERE).run()]
    assert any("put back" in each.done for each in done)
    life.become()


def rest(life: Life) -> None:
    """A step passes while all nodes rest."""
    for name in life._nodes:
        pause(life._lake, name)
    life.steps(3, nodes=sorted(life._nodes.keys() - wishes(life._lake).paused))
    for name in life._nodes:
        assert resume(life._lake, name)


def set_limits(life: Life) -> None:
    for node in life.kinds.values():
        life.set_limits(node.required_name, time_limit="1 minute")


def maintain(life: Life) -> None:
    [*Maintenance(life._session, life._lake, [*life._nodes.values()], clock=life._clock).run()]
    life.become()


def add_nodes(life: Life) -> None:
    life.become(life.made)


def use_another_partition(life: Life) -> None:
    life.partition = lambda step: step % 2


def silence_places(life: Life) -> None:
    life.silent = frozenset({PLACES.name})


def nothing(life: Life) -> None:
    """What is different began with the life."""


OPERATIONS: Mapping[str, Operation] = {
    "rename": Operation(rename, ("apply",)),
    "retain": Operation(retain, ("retain",)),
    "erase": Operation(erase, ("erase",), changes=True, sinks=False),
    "apply": Operation(change, ("plan", "apply", "redeliver"), changes=True, sinks=False),
    "rollback": Operation(change_and_go_back, ("rollback",)),
    "redrive": Operation(redrive, ("redrive",), changes=True),
    "repair": Operation(repair, ("repair",), left=(4,)),
    "pause": Operation(rest, ("pause", "resume"), left=(4,), spark=False),
    "set-limits": Operation(set_limits, ("set-limits",), changes=True, oracle=True, spark=False),
    "maintain": Operation(maintain, ("maintain",), spark=False),
    "new node": Operation(add_nodes, changes=True, first=("StreamJoin",), spark=False),
    "added partition": Operation(use_another_partition, changes=True, oracle=True, spark=False),
    "empty topic": Operation(nothing, changes=True, oracle=True, begins=silence_places, spark=False),
}
OTHER_COMMANDS = {
    "set-trigger": "It says how often a stream looks at its logs. No row depends on that (`tests/runtime/test_scheduling.py`).",
    "rebuild": "It folds a changed node beside its tables, as `apply` does; the stream swaps it in when it starts again.",
    "accept-gap": "It moves the offsets of a log, which a broker has lost (`tests/broker/test_lost_offsets.py`).",
    "mirror": "It names the table's files in a catalog, and reads the lake alone (`tests/mirror`).",
    "backup": "It only reads the lake, at any step of a commit (`tests/backup/test_backup.py`).",
    "restore": "It fills an empty lake, on which each kind of a pipeline goes on (`tests/backup/test_backup.py`).",
    "reset-guard": "It moves what a replay guard knows; nodes read its verdicts (`tests/runtime/test_guards.py`).",
}
