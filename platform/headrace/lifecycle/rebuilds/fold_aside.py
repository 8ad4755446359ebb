"""Nodes that are folded from their logs wholly aside from their tables, while streams write these.

Law: what is folded aside is what a fold of the logs as they are now gives, as far as the tables have read them. A node that
reads another one reads what that one gives aside, and nothing of what its tables have told.

The tables stay as they are until somebody compares, with the nodes handed over (see `headrace.writing.leases.handover`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace import lake as lakes
from headrace.engine.state_files import StateSource
from headrace.errors import TransientError
from headrace.lake import small_files
from headrace.lifecycle.rebuilds.meeting_point import standing
from headrace.nodes.balances.opening import Standing
from headrace.nodes.bound_operator import bound
from headrace.nodes.descriptions.topics import is_read
from headrace.nodes.operator_frames import operator_of
from headrace.nodes.unusable_table import UnusableTable
from headrace.spark.lake_rows import rows_of_files
from headrace.writing.node_runner import NodeRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake


class FoldedAside:
    """Nodes in one folder of their own. Exactly one may be open for a node."""

    def __init__(self, spark: SparkSession, lake: Lake, nodes: Sequence[Node], folder: str) -> None:
        """Begin anew; what an earlier one has left there goes.

        In: nodes  upstream first; all that read another of these, and all of these that are read
        """
        self._spark, self._lake, self._nodes, self._folder = spark, lake, nodes, folder
        names = frozenset(node.required_name for node in nodes)
        self.lake = replace(lake, nodes=folder, aside=names)
        self.remove()
        self._runners = {node.required_name: self._runner(node) for node in nodes}

    def _runner(self, node: Node) -> NodeRunner:
        """It delivers nothing, and stops where the node's tables stand."""

        def bounds() -> Mapping[str, int]:
            before_ms = standing(self._lake, node)
            return dict.fromkeys((topic.name for topic in node.topics), 0) if before_ms is None else before_ms

        alone = replace(node, sinks=())
        return NodeRunner(
            self._spark,
            alone,
            self.lake,
            is_read=is_read(node, self._nodes),
            bounds=bounds,
        )

    def advance(self, on_node: Callable[[str], None] = lambda name: None) -> None:
        """Fold what the tables have read beyond it, in bounded increments, each node before those that read it."""
        for name, runner in self._runners.items():
            on_node(name)
            while runner.advance_packed():
                pass

    def standing(self, node: Node) -> Standing:
        """The rows and the state to which the logs of a node lead where its tables stand.

        Raises: TransientError when it was not folded so far
        """
        name, of, operator = node.required_name, bound(self._spark, node), operator_of(node)
        before_ms, now_ms = standing(self._lake, node) or {}, self._runners[name].progress.upto_ms
        if any(now_ms.get(topic.name, 0) != before_ms.get(topic.name, 0) for topic in node.topics):
            raise TransientError(
                f"Node '{name}' was folded aside through {dict(now_ms)}, and its tables stand at {dict(before_ms)}.",
                hint="A log that it reads is not settled so far. Run it again: it does what is missing.",
            )
        source = StateSource.committed(lakes.open_table(self.lake.state(name)))
        state = rows_of_files(self._spark, source.uri, source.files, of.state)
        if operator.appended:
            table = lakes.open_table(self.lake.table(name))
            results = rows_of_files(self._spark, table.uri, table.snapshot().files, of.results)
        else:
            results = operator.current_of(state)
        unusable = UnusableTable(self._spark, self.lake, node).read()
        return Standing(results, state, source, self._runners[name].progress, unusable, release=lambda: None)

    def remove(self) -> None:
        """Delete all of it."""
        small_files.delete(self._folder)
        lakes.forget(self._folder)
