"""The names of logs and running queries: those of their assets in Dagster, in the command line and in metrics alike."""

from __future__ import annotations

LOG, STREAM = "log", "stream"
SUFFIX = (
    "_stream"  # Dagster's graph shows the last part of a name alone, so that part is not the table's name
)


def asset_name(kind: str, name: str) -> str:
    """`log/<topic>` of a topic's log; `stream/<node>_stream` of the query that writes a node's table."""
    return f"{kind}/{name}{SUFFIX if kind == STREAM else ''}"


def stream_name(node: str) -> str:
    """The name of the query that writes a node's table."""
    return asset_name(STREAM, node)


def name_in(asset: str) -> str:
    """The topic, or the node, of an asset's name."""
    kind, _, name = asset.partition("/")
    return name.removesuffix(SUFFIX) if kind == STREAM else name
