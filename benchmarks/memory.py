"""Peak memory of a catch-up: values that compress a hundredfold, and one key that has half of all records.

`make bench ARGS="--memory"` or `python -m benchmarks.memory`. Each description runs in a process of its own, once, because
a JVM gives little memory back. The sizes are those of the catch-up alone: the result is checked afterwards.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.described import MEMORY
from benchmarks.workbench import workbench
from headrace.errors import TerminalError

COLUMNS = (
    "description",
    "records/s",
    "JVM, MiB",
    "Python workers, MiB",
    "driver's Python, MiB",
    "written, MiB",
)


def main(
    records: Annotated[int, typer.Option(help="Records of each topic, about.")] = 1_000_000,
    only: Annotated[str, typer.Option(help="Parts of names, as in 'notes,batches'; all of them.")] = "",
    one: Annotated[str, typer.Option(hidden=True, help="The name of the one to run in this process.")] = "",
) -> None:
    """Measure resident sizes."""
    if one:
        print(json.dumps(_measured(one, records)))
        return
    table = Table(title=f"Highest resident sizes, catch-up of {records:,} records in a new JVM")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "description" else "right")
    for description in MEMORY:
        if any(part.strip() in description.name for part in only.split(",")):
            figures = _in_a_process_of_its_own(description.name, records)
            table.add_row(description.name, *(f"{figure:,.0f}" for figure in figures))
    Console(width=130).print(table)


def _measured(name: str, records: int) -> list[float]:
    description = next(each for each in MEMORY if each.name == name)
    with workbench(records) as bench:
        found = bench.run(description, description.node.required_name, backfill=False).measured
    highest = found.highest
    return [found.records_per_second, highest.jvm, highest.workers, highest.driver, found.written_mib]


def _in_a_process_of_its_own(name: str, records: int) -> list[float]:
    command = [sys.executable, "-m", "benchmarks.memory", "--one", name, "--records", str(records)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise TerminalError(f"{name} failed.", detail=done.stdout[-2000:])
    figures: list[float] = json.loads(done.stdout.splitlines()[-1])
    return figures


if __name__ == "__main__":
    typer.run(main)
