"""The loop of a node as far as others have a say in it: nodes that it reads by their names, and a person who pauses it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headrace.description import references_of
from headrace.nodes.references import Generations, NodeAwaitedError
from headrace.streams.pausable_loop import PausableLoop
from headrace.writing.readers import can_be_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.errors import HeadraceError
    from headrace.lake.paths import Lake

LOOK_FOR_NODES_EVERY_SECONDS = 0.5


class ReadingLoop(PausableLoop):
    """A loop that begins once the nodes are there that its node reads by name.

    node         with the generations of these nodes, once they are found
    can_be_told  whether a node of another pipeline reads it by name, and can
    remark       what there is to say of the nodes that it reads by name
    """

    def __init__(self, spark: SparkSession, lake: Lake, node: Node, generations: Generations) -> None:
        """In: generations  of nodes that are read by name, shared by all nodes of a session."""
        super().__init__()
        self._spark, self._lake = spark, lake
        self.name, self.node, self._described = node.required_name, node, node
        self._generations, self._found = generations, not references_of(node)
        self.can_be_told = False
        self.remark: HeadraceError | None = None
        self._behind = True  # whether the logs may hold rows that are not folded

    def find_nodes(self) -> bool:
        """Whether the nodes that it reads by name are there, as they are described. Never raises."""
        if self._found or self.finished or time.monotonic() < self._retry_at:
            return self._found
        try:
            self.node = self._generations.of(self._described)
        except NodeAwaitedError as error:
            self.remark, self._retry_at = error, time.monotonic() + LOOK_FOR_NODES_EVERY_SECONDS
            return False
        except Exception as error:
            self._failed(error)
            return False
        self.name, self._found, self.remark = self.node.required_name, True, None
        return True

    def look_at_generations(self) -> None:
        """See whether a node that it reads by name was rebuilt since."""
        if self._found and self._described is not self.node:
            self.remark = self._generations.outdated(self.node)

    @property
    def state(self) -> str:
        """Also `waiting` while a node that it reads by name is not there."""
        known = super().state
        awaits = isinstance(self.remark, NodeAwaitedError) and known == "restarting"
        return "waiting" if awaits else known

    def look_at_readers(self, *, is_read_by_name: bool) -> None:
        """See whether nodes of other pipelines can read it. In: is_read_by_name  whether any asks for that."""
        self.can_be_told = is_read_by_name and can_be_read(self._lake, self.node)
