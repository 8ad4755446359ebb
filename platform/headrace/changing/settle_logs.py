"""Let logs promise as far as tables have read that a change lets be read in one order with others.

A log that no node read so before has promised nothing. While its topic is silent, it would hold the rebuild back for ever.

Law: a promise is that of the log's only writer. If a stream writes the log, the change is registered as a reader, and the
stream promises; else this process writes it for a moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.log.sequencer import Sequencer
from headrace.nodes.descriptions.topics import topics_below, with_nodes_read
from headrace.nodes.node_tables import settled_ms
from headrace.writing.leases.lease import LeaseTakenError, take_lease
from headrace.writing.leases.readers import asked_by, register

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.description import Node, Topic
    from headrace.log.site import Site
    from headrace.writing.leases.readers import Asked


def settle_logs(site: Site, node: Node, nodes: Sequence[Node], through_ms: int) -> None:
    """Let each log of Kafka's that a node reads, directly or by others, be settled through a commit time.

    In: nodes  all of the pipeline, as described now
    """
    for topic in topics_below([node]):
        if settled_ms(site.lake, topic) < through_ms:
            asked = asked_by(topic, nodes)
            for each in with_nodes_read(node):
                if each.required_name in asked.readers:
                    register(site.lake, topic, each.required_name, asked)
            _promise(site, topic, asked, through_ms)


def _promise(site: Site, topic: Topic, asked: Asked, through_ms: int) -> None:
    """Promise it, unless somebody else writes the log."""
    folder, who = site.lake.lease(f"log/{topic.name}"), f"Log '{topic.name}'"
    try:
        lease = take_lease(site.spark, folder, who, site.clock, orphan_seconds=0)
    except LeaseTakenError:
        return
    try:
        Sequencer(
            site.spark,
            topic,
            site.lake.log(topic.name),
            site.clock,
            longest_wait_ms=asked.longest_wait_ms,
            wall_waits=asked.wall_waits,
        ).promise(through_ms)
    finally:
        lease.release()
