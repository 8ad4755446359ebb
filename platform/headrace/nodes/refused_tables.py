"""The tables of the rows that a node's sinks have refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace import lake as lakes
from headrace.lake import small_files

if TYPE_CHECKING:
    from headrace.lake.paths import Lake


def refused_tables(lake: Lake, node: str) -> dict[str, str]:
    """Their places, by the sink's name; also of sinks that the node has had. Files beside them say what `hr.each` sent."""
    paths = {sink: lake.refused(node, sink) for sink in small_files.names(lake.refused(node, "").rstrip("/"))}
    return {sink: path for sink, path in paths.items() if lakes.exists(path)}
