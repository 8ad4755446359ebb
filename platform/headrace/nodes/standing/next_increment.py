"""Through which commit time of each topic a node's next micro-batch goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.engine.slices.increments import reach
from headrace.nodes.node_tables import frontier_ms, settled_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.description import Node
    from headrace.lake.paths import Lake

Marks = dict[str, int]  # by topic


def next_increment(
    lake: Lake, node: Node, done_ms: Mapping[str, int], bounds: Mapping[str, int]
) -> Marks | None:
    """As far as the logs go, or a task can hold; a node of several topics reads them as far as all are settled.

    In:  done_ms  how far each topic of the node is read
         bounds   of some topics commit times beyond which nothing is read
    Out: None: there is nothing new
    """
    ends = {topic.name: frontier_ms(lake, topic, recent=True) for topic in node.topics}
    frontiers = {name: max(done_ms[name], min(ms, bounds.get(name, ms))) for name, ms in ends.items()}
    if all(frontiers[name] <= ms for name, ms in done_ms.items()):
        return None
    if not node.reads_together:
        return {name: reach(lake, done_ms, {name: ms}) for name, ms in frontiers.items()}
    settled = min([*(settled_ms(lake, topic) for topic in node.topics), *bounds.values()])
    if settled <= min(done_ms.values()):
        return None
    return dict.fromkeys(done_ms, reach(lake, done_ms, dict.fromkeys(done_ms, settled)))


def next_towards(
    lake: Lake, node: Node, done_ms: Mapping[str, int], upto_ms: Mapping[str, int]
) -> Marks | None:
    """The same towards a place that the node's tables have reached, whether the logs go so far or have lost commits.

    In:  upto_ms  of topics that are not named nothing is read
    Out: None: it is reached
    """
    last_ms = {name: max(ms, upto_ms.get(name, 0)) for name, ms in done_ms.items()}
    left_ms = {name: ms for name, ms in last_ms.items() if done_ms[name] < ms}
    if not left_ms:
        return None
    through_ms = reach(lake, done_ms, left_ms)
    return {name: max(ms, min(through_ms, last_ms[name])) for name, ms in done_ms.items()}
