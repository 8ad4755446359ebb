"""What each description costs: records per second of a warm catch-up, and of its backfill, beside plain tumbling windows.

`make bench ARGS="--descriptions"` or `python -m benchmarks.descriptions`. `--lake s3` puts the lake on an S3 server that
runs on this machine, and shares its cores. All descriptions share one JVM. They run in rounds, one after the other; the
first round warms up and is not counted. So each ratio is to plain tumbling windows of the same round. What is checked: all
rows, against SQL or plain Python over whole topics, the number of records, and the backfill. A wrong result has no speed.

The large join has 1,000,000 rows with 500,000 records: its topics begin with one record for each row.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.described import DESCRIPTIONS, PLAIN, Description
from benchmarks.workbench import Outcome, Workbench, workbench

COLUMNS = (
    "description",
    "records",
    "rows out",
    "records/s",
    "in and out/s",
    "CPU s / million",
    "of tumbling",
    "backfill records/s",
    "of catch-up",
)
Rounds = Mapping[str, list[Outcome]]


def main(
    records: Annotated[int, typer.Option(help="Records of each topic, about.")] = 500_000,
    runs: Annotated[int, typer.Option(help="Rounds that count, after one that does not.")] = 2,
    lake: Annotated[
        str, typer.Option(help="The lake's URI; 's3': a server on this machine; default: the disk.")
    ] = "",
    only: Annotated[str, typer.Option(help="Parts of names, as in 'hopping,guard'; all of them.")] = "",
) -> None:
    """Measure descriptions: catch-up and backfill, each result checked."""
    console, found, failed = Console(width=150), defaultdict[str, list[Outcome]](list), dict[str, str]()
    chosen = _chosen(only)
    with workbench(records, lake) as bench:
        for number in range(runs + 1):
            for description in chosen:
                if description.name not in failed:
                    _run(console, bench, description, number, found, failed)
    console.print(
        _table(chosen, found, failed, f"{records:,} records, lake on {bench.root.partition(':')[0]}")
    )
    sys.exit(1 if failed else 0)


def _chosen(only: str) -> list[Description]:
    """Plain tumbling windows, and those that are asked for."""
    parts = [part.strip() for part in only.split(",")]
    return [each for each in DESCRIPTIONS if each is PLAIN or any(part in each.name for part in parts)]


def _run(
    console: Console,
    bench: Workbench,
    description: Description,
    number: int,
    found: defaultdict[str, list[Outcome]],
    failed: dict[str, str],
) -> None:
    name, began = description.name, time.monotonic()
    try:
        outcome = bench.run(description, f"{description.node.required_name}-{number}")
    except Exception as error:  # the others are measured all the same
        failed[name] = str(error)
        console.print(f"{name}: {error}", style="red")
        return
    if number:
        found[name].append(outcome)
    console.print(
        f"{'warming up' if number == 0 else f'round {number}'}: {name}, {outcome.measured.records_per_second:,.0f} "
        f"records/s, backfill {outcome.backfill_per_second:,.0f} ({time.monotonic() - began:.0f} s in all)"
    )


def _table(chosen: Sequence[Description], found: Rounds, failed: Mapping[str, str], title: str) -> Table:
    table = Table(title=f"{title}; medians of warm runs")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "description" else "right")
    for description in chosen:
        if description.name in failed:
            table.add_row(description.name, "failed, or wrong", style="red")
        elif description.name in found:
            table.add_row(description.name, *_figures(description, found))
    table.caption = (
        "of tumbling: by records/s; for hopping and sliding by records and rows in and out per second"
    )
    return table


def _figures(description: Description, found: Rounds) -> Sequence[str]:
    runs, plain = found[description.name], found[PLAIN.name]

    def speed(outcome: Outcome) -> float:
        return (
            outcome.in_and_out_per_second if description.in_and_out else outcome.measured.records_per_second
        )

    def median(of: Callable[[Outcome], float]) -> float:
        return statistics.median(of(run) for run in runs)

    beside = [speed(run) / speed(base) for run, base in zip(runs, plain, strict=False)]
    return (
        f"{runs[0].measured.records:,}",
        f"{runs[0].rows:,}",
        f"{median(lambda run: run.measured.records_per_second):,.0f}",
        f"{median(lambda run: run.in_and_out_per_second):,.0f}",
        f"{median(lambda run: run.measured.cpu_per_million):,.1f}",
        f"{statistics.median(beside):.2f}" if beside else "",
        f"{median(lambda run: run.backfill_per_second):,.0f}",
        f"{median(lambda run: run.backfill_per_second / run.measured.records_per_second):.2f}",
    )


if __name__ == "__main__":
    typer.run(main)
