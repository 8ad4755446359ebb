"""Take a node's tables over from whoever wrote them, before their rows are replaced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.lake import APPENDER, MAINTAINER, TableWriter, open_table

if TYPE_CHECKING:
    from headrace.lake.paths import Lake


@dataclass(frozen=True)
class TakenOver:
    """The new writers of a node: of its state, and for each role of its results."""

    state: TableWriter
    appender: TableWriter
    maintainer: TableWriter


def take_over(lake: Lake, name: str) -> TakenOver:
    """Let nobody commit any more who wrote state or results of a node before.

    The state comes first. A node that is opened looks at its results before it takes its state (see `Bases`), so one that
    was opened earlier merges nothing into the results that come. Which kind of results the table holds does not matter.
    """
    state, results = open_table(lake.state(name)), open_table(lake.table(name))
    carries = writers_of(name)
    return TakenOver(
        state=TableWriter(state, APPENDER, carries=[f"node/{name}"], mends=True),
        appender=TableWriter(results, APPENDER, carries=carries, mends=True),
        maintainer=TableWriter(results, MAINTAINER, carries=carries, mends=True),
    )


def writers_of(name: str) -> tuple[str, str]:
    """The writers that say how far results go: those of current results, and of appended ones."""
    return f"fold/{name}", f"node/{name}"
