"""Sinks switched off: the rows that they would get are written to a file, one line each.

Law: in a process with the variable no node has a sink of its own, so nothing can be delivered anywhere else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.description.ddl import quote
from headrace.description.python_rows import python_rows

if TYPE_CHECKING:
    import pyarrow as pa
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
        first = shown.limit(ROWS_MAX).toArrow()
        self._print(first, shown.count() if first.num_rows == ROWS_MAX else first.num_rows, delivery)

    def deliver_table(self, rows: pa.Table, delivery: Delivery) -> None:
        """The same of few rows, in this process (see `TableSink`)."""
        first = rows.select([*delivery.columns, "__deleted"]).slice(0, ROWS_MAX)
        self._print(first, rows.num_rows, delivery)

    def _print(self, first: pa.Table, count: int, delivery: Delivery) -> None:
        lines = [f"{self.name} <- {delivery.node}: {_json(row)}" for row in python_rows(first)]
        if count > ROWS_MAX:
            lines.append(f"{self.name} <- {delivery.node}: and {count - ROWS_MAX:,} rows more")
        with Path(self.file).open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)


def _json(row: Mapping[str, Any] | Exception) -> str:
    if isinstance(row, Exception):
        return f"a row with a value that Python does not have: {row}"
    there = {name: value for name, value in row.items() if value is not None}
    return json.dumps(there, ensure_ascii=False, separators=(",", ":"), default=str)


def printed_if_asked(sinks: Sequence[Sink]) -> tuple[Sink, ...]:
    """The sinks; with the variable in the environment a `PrintedSink` in the place of each."""
    file = os.environ.get(VARIABLE)
    if not file:
        return tuple(sinks)
    return tuple(each if isinstance(each, PrintedSink) else PrintedSink(each.name, file) for each in sinks)
