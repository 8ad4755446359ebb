"""Report the table of current results when the stream has folded changes into it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from dagster import AssetMaterialization

from headrace import lake as lakes
from headrace.nodes.node_tables import base_of
from headrace.orchestration.carry import materialize
from headrace.orchestration.keys import DATA_VERSION_TAG, stream_key, table_key

if TYPE_CHECKING:
    from dagster import AssetExecutionContext
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.orchestration.pipeline import Pipeline


class CurrentTable:
    """The table of one node whose rows are revised; it belongs to no day."""

    def __init__(
        self,
        context: AssetExecutionContext,
        pipeline: Pipeline,
        node: Node,
        spark: SparkSession,
        lake: Lake,
        *,
        every_seconds: float,
    ) -> None:
        """Nothing is read before the first `report`; then at most once in `every_seconds`."""
        self._context, self._node, self._spark, self._lake = context, node, spark, lake
        self._key = table_key(node)
        self._version = pipeline.versions()[stream_key(node)]
        self._checks = pipeline.checks()[self._key]
        self._every_seconds = every_seconds
        self._due_at = 0.0
        self._batch = 0

    def report(self, *, last: bool = False) -> None:
        """Report what was folded since the last call, when it is time or the stream ends. Never raises."""
        if not last and time.monotonic() < self._due_at:
            return
        self._due_at = time.monotonic() + self._every_seconds
        try:
            if lakes.exists(self._lake.table(self._node.required_name)):
                self._report()
        except Exception as error:
            self._context.log.warning(f"{self._key.to_user_string()}: not reported yet: {error}")

    def _report(self) -> None:
        base = base_of(self._spark, self._lake, self._node)
        if base.batch == self._batch:
            return
        self._batch = base.batch
        rows = base.read(self._spark).count()
        folded = AssetMaterialization(
            self._key,
            description="The changes were folded into the table.",
            metadata={"rows": rows, "dagster/row_count": rows, "written by": "the stream"},
            tags={DATA_VERSION_TAG: self._version},
        )
        materialize(self._context, folded, self._checks)
