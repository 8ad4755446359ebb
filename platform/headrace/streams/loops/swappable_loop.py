"""A loop over a node whose tables others may swap while the process runs: by a change, its undoing, or an erasure.

The process has one description of the node for as long as it lives. The loop hands the node over (see
`headrace.writing.leases.handover`), and opens it again:

| the tables then are those of | the loop |
| --- | --- |
| its own description | goes on |
| another one, and were its own before | waits: it has no code to go on with, and never takes tables back |
| another one, and never were its own | does what `on_change` says, for its code may be the newer; once applied it goes on |
| given up for those of another name, or not copied to the new one yet | waits (see `headrace.nodes.descriptions.renamed`) |
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headrace.description import references_of
from headrace.lake import open_table
from headrace.lifecycle.log_repair.repair_mark import require_repaired
from headrace.nodes.descriptions.evolution import OtherDescriptionError
from headrace.nodes.descriptions.references import Generations, NodeAwaitedError
from headrace.nodes.descriptions.renamed import why_not_by_this_name
from headrace.nodes.node_tables import read_progress
from headrace.nodes.standing.lake_facts import LakeFacts
from headrace.nodes.standing.waits import waits_of
from headrace.streams.loops.supervised_loop import SupervisedLoop
from headrace.streams.status.stream_status import measured
from headrace.writing.leases.handover import HandoverWait, WaitsError
from headrace.writing.leases.readers import can_be_read
from headrace.writing.rate_limited import RateLimited

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.errors import HeadraceError
    from headrace.lake.paths import Lake
    from headrace.log.clock import Clock
    from headrace.nodes.standing.waits import Wait

DESCRIPTION_READ_EVERY_SECONDS = 3.0  # while the tables are another description's
WAITS_READ_EVERY_SECONDS = 10.0
LOOK_FOR_NODES_EVERY_SECONDS = 0.5


class PausableLoop(SupervisedLoop):
    """A loop that keeps all that it has opened while it rests, and begins no work.

    paused  True: it rests
    """

    paused = False

    def pause(self, *, paused: bool) -> None:
        """Let it rest, or go on: the micro-batch under way ends, and no other begins."""
        wakes, self.paused = self.paused and not paused, paused
        if wakes:
            self.check_now()

    @property
    def state(self) -> str:
        """Also `paused` while a person lets it rest."""
        known = super().state
        return "paused" if self.paused and known == "running" else known


class ReadingLoop(PausableLoop):
    """A loop that begins once the nodes are there that its node reads by name.

    node         with the generations of these nodes, once they are found
    has_readers  whether a node of another pipeline reads it by name, and can
    remark       what there is to say of the nodes that it reads by name
    """

    def __init__(self, spark: SparkSession, lake: Lake, node: Node, generations: Generations) -> None:
        """In: generations  of nodes that are read by name, shared by all nodes of a session."""
        super().__init__()
        self._spark, self._lake = spark, lake
        self.name, self.node, self._described = node.required_name, node, node
        self._generations, self._resolved = generations, not references_of(node)
        self.has_readers = False
        self.remark: HeadraceError | None = None
        self._behind = True  # whether the logs may hold rows that are not folded

    def find_nodes(self) -> bool:
        """Whether the nodes that it reads by name are there, as they are described. Never raises."""
        if self._resolved or self.finished or time.monotonic() < self._retry_at:
            return self._resolved
        try:
            self.node = self._generations.of(self._described)
        except NodeAwaitedError as error:
            self.remark, self._retry_at = error, time.monotonic() + LOOK_FOR_NODES_EVERY_SECONDS
            return False
        except Exception as error:
            self._failed(error)
            return False
        self.name, self._resolved, self.remark = self.node.required_name, True, None
        return True

    def look_at_generations(self) -> None:
        """See whether a node that it reads by name was rebuilt since."""
        if self._resolved and self._described is not self.node:
            self.remark = self._generations.outdated(self.node)

    @property
    def state(self) -> str:
        """Also `waiting` while a node that it reads by name is not there."""
        known = super().state
        awaits = isinstance(self.remark, NodeAwaitedError) and known == "restarting"
        return "waiting" if awaits else known

    def look_at_readers(self, *, is_read_by_name: bool) -> None:
        """See whether nodes of other pipelines can read it. In: is_read_by_name  whether any asks for that."""
        self.has_readers = is_read_by_name and can_be_read(self._lake, self.node)


class SwappableLoop(ReadingLoop):
    """The loop of one node.

    has_run  True once the node's tables were those that this process describes
    """

    has_run = False

    def __init__(
        self, spark: SparkSession, lake: Lake, node: Node, clock: Clock, generations: Generations
    ) -> None:
        """Closed at first."""
        super().__init__(spark, lake, node, generations)
        self._clock = clock
        self._handover = HandoverWait(lake, self.name, clock)
        self._applied = RateLimited(self._has_own_tables, DESCRIPTION_READ_EVERY_SECONDS)
        self._waits = RateLimited(lambda: waits_of(node, LakeFacts(lake)), WAITS_READ_EVERY_SECONDS)

    def waits(self) -> list[Wait] | None:
        """The waits of the node's rows; looked up every few seconds."""
        return self._waits()

    def hand_over(self) -> None:
        """Let go of the node after the micro-batch under way, if somebody still asks for it; it is opened again later."""
        if self.running and not self._ends and self._handover.is_asked:
            self.let_go_soon(WaitsError(f"Node '{self.name}' is handed over: somebody has asked for it."))

    def require_free(self) -> None:
        """Called before the node's lease is taken.

        Raises: WaitsError while the node is handed over, or a repair owes it; or when its tables have become another
                description's, or another name's
        """
        self._handover.check()
        require_repaired(self._lake, self.name)
        self._require_own_name()
        self._require_own_tables()

    def require_own_tables(self) -> None:
        """Called under the lease: tables may have been swapped just before it was free.

        Raises: WaitsError when the tables were those of this process, and are another description's or name's now
        """
        self._handover.over()
        require_repaired(self._lake, self.name)
        self._require_own_name()
        # This process may know a maintainer from before a swap, whose rows are gone.
        open_table(self._lake.table(self.name)).maintainer = None
        self._require_own_tables()

    def mended(self) -> bool:
        """Whether the changed description that this process has was applied since."""
        if not isinstance(self.error, OtherDescriptionError):
            return False
        applied, _ = measured(self._applied)
        return bool(applied)

    def _require_own_name(self) -> None:
        if why := why_not_by_this_name(self._lake, self.node):
            raise WaitsError(why)

    def _require_own_tables(self) -> None:
        if self.has_run and not self._has_own_tables():
            raise WaitsError(
                f"Node '{self.name}' waits: a change was applied or undone, and the code of this run describes another "
                "version of it.",
                hint="Restart the run with the code whose description was applied.",
            )

    def _has_own_tables(self) -> bool:
        """Whether the node's tables are those that this process describes."""
        for uri in (self._lake.table(self.name), self._lake.state(self.name)):
            open_table(uri).schema_changed()
        try:
            read_progress(self._lake, self.node)
        except OtherDescriptionError:
            return False
        return True
