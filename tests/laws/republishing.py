"""Services that consume, transform and republish, in plain Python; they crash and send again from an earlier offset.

Each names what it read at the end of the source chain, and numbers the outputs of one input when it makes several.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.oracle.guard_oracle import Entry


@dataclass(frozen=True)
class Message:
    """A record on its way: its chain, and which output of the pipeline it is, whatever it was sent with."""

    chain: tuple[Entry, ...]
    identity: tuple[int, ...]


Partitions = dict[int, list[Message]]


def root_topic(records: dict[int, int], first_offset: int = 0) -> dict[int, dict[int, Message]]:
    """The records of a root topic by partition and offset."""
    return {
        partition: {first_offset + n: Message((), (partition, n)) for n in range(number)}
        for partition, number in records.items()
    }


def by_offset(topic: Partitions) -> dict[int, dict[int, Message]]:
    """A topic's records by partition and offset."""
    return {partition: dict(enumerate(messages)) for partition, messages in topic.items()}


def republish(
    name: str,
    topic: dict[int, dict[int, Message]],
    outputs: Callable[[Message], int | None],
    partitions: int,
    random: Random,
    crashes: int,
) -> Partitions:
    """What a service makes of a topic: a task for each of its partitions, which crashes and goes back now and then.

    In:  outputs  how many of an input; None: one, without an ordinal
    Out: by target partition, in order; the tasks are mixed in any order
    """
    sent = {
        partition: _task(name, partition, of, outputs, random, crashes) for partition, of in topic.items()
    }
    result: Partitions = defaultdict(list)
    while any(sent.values()):
        task = random.choice([partition for partition, left in sent.items() if left])
        message = sent[task].pop(0)
        result[sum(message.identity) % partitions].append(message)
    return dict(result)


def _task(
    name: str,
    partition: int,
    records: dict[int, Message],
    outputs: Callable[[Message], int | None],
    random: Random,
    crashes: int,
) -> list[Message]:
    sent: list[Message] = []
    units = []
    for offset, message in records.items():
        number = outputs(message)
        place = (name, partition, offset)
        if number is None:
            units.append([Message((*message.chain, place), message.identity)])
        else:
            units.append(
                [Message((*message.chain, (*place, n)), (*message.identity, n)) for n in range(number)]
            )
    start = 0
    for _ in range(crashes):
        if not units:
            break
        reached = random.randrange(start, len(units))  # it dies inside this unit …
        for unit in units[start:reached]:
            sent += unit
        sent += units[reached][: random.randint(0, len(units[reached]))]
        start = random.randint(0, reached)  # … and begins again at its last committed offset
    for unit in units[start:]:
        sent += unit
    return sent
