"""Names: asset keys, run tags and the names of ops."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING

from dagster import AssetKey

from headrace.lifecycle.maintenance import RUN_HOURS_MAX
from headrace.nodes.descriptions.asset_names import stream_name

if TYPE_CHECKING:
    from headrace.description import Node, Topic

STREAM_TAG = "headrace/stream"  # on every stream run; dagster.yaml allows one run for each of its values
SHUTDOWN_TAG = (
    "headrace/stopped_by"  # on runs canceled because Dagster itself goes down: they come back with it.
    # Its value may be the time, in seconds since 1970, until which Dagster takes to do so.
)
BACKFILL_POOL = "headrace_backfills"  # of all backfills; dagster.yaml says how many run at once
ADVANCING = "stream_is_advancing"  # the check of logs and running queries
DATA_VERSION_TAG = "dagster/data_version"
# Dagster ends a run that lasts longer: so no reader is older than half the least retention of maintenance.
ENDS = {"dagster/max_runtime": str(round(RUN_HOURS_MAX * 3600))}


def log_key(topic: Topic) -> AssetKey:
    """`log/<topic>`: the topic's log."""
    return AssetKey(["log", topic.name])


def stream_key(node: Node) -> AssetKey:
    """`stream/<node>_stream`: the running query. The graph shows the last part, so it is not the table's name."""
    return stream_named(node.required_name)


def stream_named(node: str) -> AssetKey:
    """Give the key of a running query by the node's name: see `stream_key`."""
    return key_of(stream_name(node))


def key_of(query: str) -> AssetKey:
    """The asset of a query, by the name that runtimes and metrics have for it."""
    return AssetKey(query.split("/"))


def query_of(key: AssetKey) -> str:
    """The name that runtimes and metrics have for the query of an asset."""
    return key.to_user_string()


def table_key(node: Node) -> AssetKey:
    """`<node>`: the Delta table of results, by day."""
    return AssetKey([node.required_name])


def final_key(node: Node) -> AssetKey:
    """`final/<node>`: the days or hours of a node that are final."""
    return AssetKey(["final", node.required_name])


def op_name(*parts: str) -> str:
    """A legal name of an op; names that differ only in what is not legal stay different."""
    raw = "_".join(parts)
    legal = re.sub(r"\W", "_", raw, flags=re.ASCII)
    return legal if legal == raw else f"{legal}_{zlib.crc32(raw.encode()):08x}"
