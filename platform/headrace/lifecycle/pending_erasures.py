"""Erasures that are pending: nodes hold what was made of records that are erased.

An erasure computes those nodes anew that it is given. It may break off, and others in the lake may follow from the same log,
directly or through nodes. So each is noted in a file before anything is erased, and until an erasure from that topic has
computed it anew. No key stands in the file: a node that is computed anew from the log has nothing left of any key that was
erased from it.

Law: a node with rows that follow from the topic's log is computed anew, or pending. While it is pending no log that it reads
is cut, for its balance could not be computed again without the key.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.lake import small_files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.lake.paths import Lake

SUFFIX = ".json"


@dataclass(frozen=True)
class Pending:
    """A node that an erasure waits for. In: since_ms  when it was first noted, in ms since 1970."""

    node: str
    topic: str
    since_ms: int


def note_pending(lake: Lake, topic: str, nodes: Iterable[str]) -> None:
    """Note that an erasure from a topic's log waits for nodes; those that are noted already stay so."""
    for node in nodes:
        said = {"topic": topic, "since_ms": time.time_ns() // 1_000_000}
        small_files.write_json(_file(lake, topic, node), said, overwrite=False)


def has_followed(lake: Lake, topic: str, node: str) -> None:
    """A node was computed anew from a topic's log."""
    small_files.delete(_file(lake, topic, node))


def inherit_pending(lake: Lake, before: str, after: str) -> None:
    """A node's tables are about to be copied to another name: the erasures that wait for it wait for the copy, too."""
    for each in pending(lake):
        if each.node == before:
            note_pending(lake, each.topic, [after])


def pending(lake: Lake) -> list[Pending]:
    """The nodes that erasures wait for; one whose tables were removed since holds nothing."""
    return [
        Pending(node, topic, said["since_ms"])
        for topic in small_files.names(lake.erasures)
        for name in small_files.names(f"{lake.erasures}/{topic}")
        if (said := small_files.read_json(f"{lake.erasures}/{topic}/{name}")) is not None
        and small_files.exists(lake.description(node := name.removesuffix(SUFFIX)))
    ]


def _file(lake: Lake, topic: str, node: str) -> str:
    return f"{lake.erasures}/{topic}/{node}{SUFFIX}"
