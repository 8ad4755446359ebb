"""Nexmark: records per second and per CPU second of each query, its rows checked.

`make bench ARGS="--nexmark"` or `python -m benchmarks.nexmark.measure`. All queries share one JVM and one broker. They run
in rounds, one after the other; the first round warms up and is not counted. DuckDB works out from the whole topics what
each query's rows must be, and a backfill must give the same. A wrong result has no speed. The floor of a query: the reader
that streams use copies its topics to Parquet, once in each round that counts.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import defaultdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.nexmark.events import FILLS
from benchmarks.nexmark.queries import QUERIES
from benchmarks.workbench import Outcome, workbench


def main(
    events: Annotated[int, typer.Option(help="Persons, auctions and bids together.")] = 500_000,
    runs: Annotated[int, typer.Option(help="Rounds that count, after one that does not.")] = 1,
    only: Annotated[str, typer.Option(help="Queries, as in 'q5,q8'; all of them.")] = "",
) -> None:
    """Measure Nexmark's queries: catch-up and backfill, each result checked."""
    asked = {name.strip() for name in only.split(",") if name.strip()}
    chosen = [each for each in QUERIES if not asked or each.node.required_name in asked]
    console, found, wrong = Console(width=150), defaultdict[str, list[Outcome]](list), set[str]()
    floors = defaultdict[tuple[str, ...], list[float]](list)  # by topics, in records/s
    with workbench(events, fills=FILLS) as bench:
        for number in range(runs + 1):
            for query in chosen:
                if query.name in wrong:
                    continue
                began = time.monotonic()
                try:
                    outcome = bench.run(query, f"{query.node.required_name}-{number}")
                except Exception as error:  # the others are measured all the same
                    wrong.add(query.name)
                    detail = getattr(error, "detail", "")
                    console.print(f"{query.name}: {error}\n{detail}", style="red", markup=False)
                    continue
                if number or not runs:
                    found[query.name].append(outcome)
                console.print(f"round {number}: {query.name} ({time.monotonic() - began:.0f} s in all)")
            for query in {each.topics: each for each in chosen if number or not runs}.values():
                copied = bench.floor(query, f"{query.node.required_name}-{number}")
                floors[query.topics].append(copied.records_per_second)
    by_query = {query.name: statistics.median(floors[query.topics]) for query in chosen}
    console.print(_table(found, by_query, events))
    sys.exit(1 if wrong else 0)


def _table(found: dict[str, list[Outcome]], floors: dict[str, float], events: int) -> Table:
    table = Table(title=f"Nexmark, {events:,} events")
    columns = (
        "query",
        "records",
        "rows",
        "records/s",
        "of the floor",
        "CPU s / million",
        "backfill records/s",
    )
    for column in columns:
        table.add_column(column, justify="left" if column == "query" else "right")
    for name, runs in found.items():
        per_second = statistics.median(run.measured.records_per_second for run in runs)
        table.add_row(
            name,
            f"{runs[0].measured.records:,}",
            f"{runs[0].rows:,}",
            f"{per_second:,.0f}",
            f"{per_second / floors[name]:.2f}",
            f"{statistics.median(run.measured.cpu_per_million for run in runs):,.1f}",
            f"{statistics.median(run.backfill_per_second for run in runs):,.0f}",
        )
    return table


if __name__ == "__main__":
    typer.run(main)
