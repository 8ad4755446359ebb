"""Sinks switched off: the rows that they would get are written to a file, one line each.

Law: in a process with the variable no node has a sink of its own, so nothing can be delivered anywhere else.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.description.ddl import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.description.sink import Delivery, Sink

VARIABLE = "HEADRACE_PRINT_SINKS"
ROWS_MAX = 20


@dataclass(frozen=True)
class PrintedSink:
    """Stands for a sink, under its name. In: file  where lines are appended."""

    name: str
    file: str

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        """Append the first rows of a delivery as JSON, and how many there are."""
        shown = rows.select(*map(quote, delivery.columns), "__deleted")
        lines = [f"{self.name} <- {delivery.node}: {row}" for row in shown.limit(ROWS_MAX).toJSON().collect()]
        if len(lines) == ROWS_MAX and (more := shown.count() - ROWS_MAX) > 0:
            lines.append(f"{self.name} <- {delivery.node}: and {more:,} rows more")
        with Path(self.file).open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)


def printed_if_asked(sinks: Sequence[Sink]) -> tuple[Sink, ...]:
    """The sinks; with the variable in the environment a `PrintedSink` in the place of each."""
    file = os.environ.get(VARIABLE)
    if not file:
        return tuple(sinks)
    return tuple(each if isinstance(each, PrintedSink) else PrintedSink(each.name, file) for each in sinks)
