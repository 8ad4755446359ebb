"""Report a table when the stream has added rows to it, or has folded changes into it.

The first rows are reported within seconds, so that a table with rows is not shown as never materialized; then the table is
reported at most once in an interval. A table whose rows belong to days also has a partition for each complete day (see
`completed`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from dagster import AssetMaterialization

from headrace import lake as lakes
from headrace.nodes.node_tables import base_of
from headrace.orchestration.events.carry import materialize
from headrace.orchestration.events.completed import Tries
from headrace.orchestration.keys import DATA_VERSION_TAG, stream_key, table_key

if TYPE_CHECKING:
    from dagster import AssetExecutionContext

    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.orchestration.pipeline import Pipeline


FIRST_LOOK_SECONDS = 5.0  # between looks until the table has rows


class CurrentTable:
    """The table of one node, as a whole."""

    def __init__(
        self,
        context: AssetExecutionContext,
        pipeline: Pipeline,
        node: Node,
        lake: Lake,
        *,
        every_seconds: float,
    ) -> None:
        """Nothing is read before the first `report`; then at most once in `every_seconds`."""
        self._context, self._node, self._lake = context, node, lake
        self._key = table_key(node)
        self._version = pipeline.versions()[stream_key(node)]
        self._checks = pipeline.checks()[self._key]
        self._every_seconds = every_seconds
        self._due_at = 0.0
        self._reported = (0, 0)  # batch, and rows
        self._tries = self._new_tries()

    def report(self, *, last: bool = False) -> None:
        """Report what was folded since the last call, when it is time or the stream ends. Never raises."""
        if last:
            self._new_tries().report(self._report)
        elif time.monotonic() >= self._due_at:
            self._tries.report(self._report)

    def _new_tries(self) -> Tries:
        return Tries(self._context, f"{self._key.to_user_string()}: its rows")

    def _report(self) -> None:
        now = time.monotonic()
        if lakes.exists(self._lake.table(self._node.required_name)):
            self._report_new()
        self._due_at = now + (self._every_seconds if any(self._reported) else FIRST_LOOK_SECONDS)

    def _report_new(self) -> None:
        uri = self._lake.table(self._node.required_name)
        revised = self._node.day_column is None
        batch = base_of(self._lake, self._node).batch if revised else 0
        rows = lakes.open_table(uri).snapshot().rows
        if (batch, rows) == self._reported:
            return
        folded = AssetMaterialization(
            self._key,
            description="The changes were folded into the table."
            if revised
            else "Rows were added to the table.",
            metadata={"rows": rows, "dagster/row_count": rows, "written by": "the stream"},
            tags={DATA_VERSION_TAG: self._version},
        )
        materialize(self._context, folded, self._checks)
        self._reported = (batch, rows)
