"""The content of a node's tables as of a micro-batch, as frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class NodeFrames:
    """Tables of a node.

    results  rows of the result table
    state    rows of the state table; None: there is none yet
    folded   of results that are revised: the micro-batch through which changes are in `results`
    version  of the result table; None: the newest
    """

    results: DataFrame
    state: DataFrame | None = None
    folded: int = 0
    version: int | None = None
