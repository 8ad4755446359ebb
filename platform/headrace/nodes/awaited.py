"""The topics that a lookup waits for before it looks anything up (`complete_first`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.operators.registry import operator_for

if TYPE_CHECKING:
    from collections.abc import Collection

    from headrace.description import Node


def awaited_topics(node: Node, complete: Collection[str]) -> tuple[str, ...]:
    """The topics of its table that are not read to where they ended at the first start; none: it waits for no topic.

    In: complete  those that are, as far as the node has read (see `Progress`)
    """
    return tuple(topic for topic in operator_for(node).waits.complete if topic not in complete)
