"""Readers: each running node says in the lake what it asks of the logs that it reads, for whoever writes these.

A node of another pipeline may wait for stream time, for the wall clock, or for promises of the log that it reads. Its
requests are a file `readers/log/<topic>/<node>.json`, or `readers/node/<node>/<reader>.json` where it reads a node by
its name. The run that writes the log looks every few seconds.

Law: no result depends on when a reader is seen: it asks for ticks, promises, and for a log of a node, which begins with the
node's first row whenever it is begun.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from headrace import lake as lakes
from headrace.description import output_name, output_of
from headrace.description.clocks import WallWait
from headrace.lake import small_files
from headrace.lake.notices import Names, recent_names
from headrace.log.deadlines import as_wait
from headrace.nodes.balances.opening import read_opening
from headrace.nodes.descriptions.topics import (
    longest_wait_ms,
    nodes_below,
    ordered_logs,
    waiting_before,
    wall_waits,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.description import Node, Topic
    from headrace.lake.paths import Lake

SUFFIX = ".json"


@dataclass(frozen=True)
class Asked:
    """Requests of a log's readers to the run that writes it.

    longest_wait_ms  how long they wait for stream time
    wall_waits       how long they wait for the wall clock after a record
    ordered          whether some read it in one order with others, so that it has to promise how far it is settled
    readers          their names
    """

    longest_wait_ms: int = 0
    wall_waits: tuple[WallWait | int, ...] = ()
    ordered: bool = False
    readers: tuple[str, ...] = ()

    def __or__(self, other: Asked) -> Asked:
        """The requests of both."""
        return Asked(
            max(self.longest_wait_ms, other.longest_wait_ms),
            tuple(dict.fromkeys((*self.wall_waits, *other.wall_waits))),
            self.ordered or other.ordered,
            tuple(dict.fromkeys((*self.readers, *other.readers))),
        )

    def behind(self, nodes: int) -> Asked:
        """The same requests behind so many nodes that wait, too."""
        waits = (replace(each, after=each.after + nodes) for each in map(as_wait, self.wall_waits))
        return replace(self, wall_waits=tuple(waits))


def asked_by(topic: Topic, nodes: Sequence[Node]) -> Asked:
    """The requests of one pipeline's nodes to a log that they read."""
    readers = tuple(node.required_name for node in nodes if topic.name in {each.name for each in node.topics})
    return Asked(
        longest_wait_ms(topic, nodes),
        wall_waits(topic, nodes),
        topic.name in ordered_logs(nodes),
        readers,
    )


def register(lake: Lake, topic: Topic, reader: str, asked: Asked) -> None:
    """Say in the lake that a node reads a log, if it does not say so already."""
    path = f"{lake.readers(topic.name)}/{reader}{SUFFIX}"
    said = {
        "longest_wait_ms": asked.longest_wait_ms,
        "wall_waits": [asdict(wait) for wait in asked.wall_waits if isinstance(wait, WallWait)],
        "ordered": asked.ordered,
    }
    if small_files.read_json(path) != said:
        small_files.write_json(path, said)


def readers_of(lake: Lake, topic: str, names: Names = small_files.names) -> list[str]:
    """The nodes that read a log, as the lake says: that of a topic, or `<node>@` for what a node gives."""
    return [name.removesuffix(SUFFIX) for name in names(lake.readers(topic)) if name.endswith(SUFFIX)]


def read_by_name(lake: Lake) -> frozenset[str]:
    """The nodes that others read by name, as the lake says."""
    return frozenset(recent_names(lake.readers("@")))


def asked_in(lake: Lake, topic: str, names: Names = small_files.names) -> Asked:
    """The requests of a log's readers, as the lake has them."""
    asked = Asked()
    for reader in readers_of(lake, topic, names):
        said = small_files.read_json(f"{lake.readers(topic)}/{reader}{SUFFIX}")
        if said is not None:
            asked |= _asked(said, reader)
    return asked


def asked_through(topic: Topic, nodes: Sequence[Node], of_nodes: Mapping[str, Asked]) -> Asked:
    """Requests to a topic's log: those of nodes that read nodes of a pipeline by name.

    In: of_nodes  what they ask of each node, by its name
    """
    before = waiting_before(topic, nodes)
    below = {node.required_name: before.get(output_name(node), 0) for node in nodes_below(topic, nodes)}
    asked = reduce(or_, (of_nodes[name].behind(n) for name, n in below.items() if name in of_nodes), Asked())
    beyond = {name: each.longest_wait_ms for name, each in of_nodes.items()}
    return replace(asked, longest_wait_ms=longest_wait_ms(topic, nodes, beyond))


def _asked(answer: dict[str, Any], reader: str) -> Asked:
    waits = tuple(WallWait(**wait) for wait in answer["wall_waits"])
    return Asked(answer["longest_wait_ms"], waits, answer["ordered"], (reader,))


def can_be_read(lake: Lake, node: Node) -> bool:
    """Whether others can read a node by its name: it gives rows for good, and its log tells all of them, or can yet."""
    if "refusal" in output_of(node):
        return False
    return lakes.exists(lake.log(output_name(node))) or read_opening(lake, node).is_at_the_beginning
