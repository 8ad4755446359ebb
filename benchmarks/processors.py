"""Counting by processors, beside the same count as an aggregate and by Spark's `transformWithStateInPandas`.

`make bench ARGS="--processors"`. All in one JVM, in rounds; the first round warms up and is not counted. All rows are
compared with SQL over the topic.
"""

from __future__ import annotations

import shutil
import statistics
from collections import defaultdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.catch_up import Measured
from benchmarks.described import BY_HAND
from benchmarks.native import native_counts
from benchmarks.workbench import Workbench, workbench

SPARK = "Spark, transformWithStateInPandas"


def main(
    records: Annotated[int, typer.Option(help="Records of the topic, about.")] = 500_000,
    runs: Annotated[int, typer.Option(help="Rounds that count, after one that does not.")] = 2,
    spark: Annotated[bool, typer.Option(help="Whether Spark's own is measured, too.")] = True,
) -> None:
    """Measure what a processor costs."""
    console, found = Console(width=150), defaultdict[str, list[Measured]](list)
    with workbench(records) as bench:
        for number in range(runs + 1):
            for description in BY_HAND:
                outcome = bench.run(description, f"{description.node.required_name}-{number}", backfill=False)
                found[description.name].append(outcome.measured)
            if spark:
                found[SPARK].append(_by_spark(bench, number))
            console.print(f"round {number}: " + ", ".join(f"{n} {_speed(m[-1])}" for n, m in found.items()))
    table = Table("", "records/s", "CPU s / million", title=f"{records:,} records; medians of warm runs")
    for name, each in found.items():
        warm = each[1:] or each
        speed = statistics.median(one.records_per_second for one in warm)
        table.add_row(name, f"{speed:,.0f}", f"{statistics.median(one.cpu_per_million for one in warm):,.1f}")
    console.print(table)


def _by_spark(bench: Workbench, number: int) -> Measured:
    """Spark's own, its rows compared with those of the first description."""
    first, folder = BY_HAND[0], bench.folder / f"native-{number}"
    records = bench.prepare(first)
    measured, rows = native_counts(bench.spark, folder, bench.kafka, first.topics[0], records)
    bench.require_rows(first, rows)
    shutil.rmtree(folder)
    return measured


def _speed(measured: Measured) -> str:
    return f"{measured.records_per_second:,.0f}/s"


if __name__ == "__main__":
    typer.run(main)
