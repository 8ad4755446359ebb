"""The size of what an answer reads, asked before it reads, and who reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace import lake as lakes
from headrace.errors import TerminalError
from headrace.explain.keyed_evidence import KeyedEvidence
from headrace.lifecycle import oracle_check
from headrace.lifecycle.oracle_check import LOCAL_BYTES, bytes_of
from headrace.nodes.bound_operator import bound
from headrace.operators.key_scope import reads_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.lifecycle.evidence.oracle_evidence import Evidence

KEYED_BYTES = 2 << 30  # of the files of logs and tables of which this process reads the rows of a key


def read_evidence(spark: SparkSession, lake: Lake, node: Node) -> Evidence:
    """The evidence for some keys of a node: this process reads it whole if it is small, else part by part; else Spark."""
    if LOCAL_BYTES < bytes_of(lake, node) <= KEYED_BYTES and not reads_all(node):
        of = bound(spark, node)
        if not of.rows.computed.feeds:
            return KeyedEvidence.read(spark, lake, node, of)
    return oracle_check.read_evidence(spark, lake, node)


def require_small(lake: Lake, node: Node, *, large: bool, hint: str, keyed: bool = False) -> None:
    """Refuse a node that has not run, and one whose logs and tables are too large to be read without Spark.

    In:     large  whether any size may be read; hint: what Spark would do
            keyed  whether the rows of some keys are enough
    Raises: TerminalError
    """
    name = node.required_name
    if not lakes.exists(lake.table(name)):
        raise TerminalError(
            f"Node '{name}' has not run yet: it has no row.", hint="Start its stream, then ask again."
        )
    size, most = bytes_of(lake, node), KEYED_BYTES if keyed and not reads_all(node) else LOCAL_BYTES
    if size > most and not large:
        raise TerminalError(
            f"Node '{name}': its logs and tables have {size / (1 << 20):,.0f} MiB. "
            f"Without Spark {most >> 20:,} MiB are read.",
            hint=f"Add --large: {hint}",
        )
