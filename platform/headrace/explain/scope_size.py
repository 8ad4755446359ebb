"""The size of what an answer reads, asked before it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace import lake as lakes
from headrace.errors import TerminalError
from headrace.lifecycle.oracle_check import LOCAL_BYTES, bytes_of

if TYPE_CHECKING:
    from headrace.description import Node
    from headrace.lake.paths import Lake


def require_small(lake: Lake, node: Node, *, large: bool, hint: str) -> None:
    """Refuse a node that has not run, and one whose logs and tables are too large to be read without Spark.

    In:     large  whether any size may be read; hint: what Spark would do
    Raises: TerminalError
    """
    name = node.required_name
    if not lakes.exists(lake.table(name)):
        raise TerminalError(
            f"Node '{name}' has not run yet: it has no row.", hint="Start its stream, then ask again."
        )
    size = bytes_of(lake, node)
    if size > LOCAL_BYTES and not large:
        raise TerminalError(
            f"Node '{name}': its logs and tables have {size / (1 << 20):,.0f} MiB. "
            f"Without Spark {LOCAL_BYTES >> 20} MiB are read.",
            hint=f"Add --large: {hint}",
        )
