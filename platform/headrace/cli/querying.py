"""`headrace sql` and `headrace get`: what a lake holds, asked without Spark."""

from __future__ import annotations

import csv
import sys
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.console.deployment import USUAL, Deployment
from headrace.cli.console.telling import for_programs, json_line, report
from headrace.local.servers import lifeline

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from headrace.observe.tail import TailRow

EVERY_SECONDS = 0.5


class Output(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def answer_query(
    query: Annotated[str | None, typer.Argument(help="SQL; without it the tables are listed.")] = None,
    output: Annotated[Output, typer.Option(help="json: as --json.")] = Output.TABLE,
    rows: Annotated[int, typer.Option(min=1, help="With --output table: how many are shown.")] = 100,
    deployment: Deployment = USUAL,
) -> None:
    """Answer SQL over the lake with DuckDB: <node>, open_windows.<node>, logs.<topic>. Streams may run meanwhile."""
    from headrace.observe.sql import LakeSql

    deployment.require_lake()
    with LakeSql(deployment.lake, deployment.nodes) as sql:
        if query is None:
            for name in sql.names:
                report(name, table=name)
            return
        found = sql.query(query)
    _print(found, Output.JSON if for_programs() else output, rows)


@dataclass(frozen=True)
class TimeRange:
    """The times of the rows that `get` prints."""

    first: Annotated[str | None, typer.Option("--from", help="Windows and rows from this time on.")] = None
    last: Annotated[str | None, typer.Option("--to", help="Windows and rows before this time.")] = None


ANY_TIME = TimeRange()


def get_row(
    node: Annotated[str, typer.Argument(help="A node, such as totals, a table, a join or windows.")],
    key: Annotated[list[str], typer.Argument(help="The values of its key, in the order of its columns.")],
    group: TimeRange = ANY_TIME,
    null: Annotated[str | None, typer.Option(help="The text that stands for null among the values.")] = None,
    deployment: Deployment = USUAL,
) -> None:
    """Print the rows of one key as JSON: a current row, or windows, batches and records of a time (default: all).

    Open windows are among them, with "__final": false. Exits 1 if there is none. Streams may run meanwhile.
    """
    from headrace.observe.keyed_reads import KeyedReads

    of = deployment.node(node)
    deployment.require_lake()
    values = [None if value == null else value for value in key]
    reads = KeyedReads(deployment.lake)
    has_one = of.day_column is None or (of.has_windows and len(key) == len(of.key))
    if has_one and group == ANY_TIME:
        row = reads.get(of, values)
        rows = [] if row is None else [row]
    else:
        rows = reads.fetch(of, values, group.first, group.last)
    if not rows:
        report(f"Node '{node}' has no row for the key {', '.join(key)}.", node=node, key=key, row=None)
        sys.exit(1)
    for row in rows:
        report(json_line(row), row)


def _print(table: pa.Table, output: Output, rows: int) -> None:
    if output is Output.JSON:
        for row in table.to_pylist():
            report(json_line(row), row)
    elif output is Output.CSV:
        writer = csv.writer(sys.stdout)
        writer.writerow(table.column_names)
        writer.writerows(row.values() for row in table.to_pylist())
    else:
        for line in _lines(table, rows):
            report(line)


def _lines(table: pa.Table, rows: int) -> list[str]:
    shown = [[*map(_cell, row.values())] for row in table.slice(0, rows).to_pylist()]
    cells = [table.column_names, *shown]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(t.ljust(w) for t, w in zip(row, widths, strict=True)).rstrip() for row in cells]
    lines.insert(1, "  ".join("─" * width for width in widths))
    more = table.num_rows - len(shown)
    return [*lines, *([f"… and {more:,} rows more (--rows)"] if more else [])]


def _cell(value: Any) -> str:
    return "null" if value is None else str(value)


def tail_node(
    node: Annotated[str, typer.Argument(help="The node whose rows are shown.")],
    rows: Annotated[int, typer.Option("--rows", "-n", min=0, help="Rows of the last commits first.")] = 10,
    follow: Annotated[bool, typer.Option(help="Go on until Ctrl-C.")] = True,
    deployment: Deployment = USUAL,
) -> None:
    """Show rows of a node's table as commits add, change or remove them. It starts no Spark."""
    from headrace.observe.tail import Tail

    described = deployment.node(node)
    deployment.require_lake()
    tail = Tail(deployment.lake, described)
    _show(tail.newest(rows))
    if follow:
        lifeline.hear_signals()
    while follow:
        _show(tail.news())
        time.sleep(EVERY_SECONDS)


def _show(rows: Iterable[TailRow]) -> None:
    for each in rows:
        values = "  ".join(f"{name}={value}" for name, value in each.row.items())
        report(f"{'-' if each.gone else '+'} {values}", {"gone": each.gone, **each.row})
