"""`headrace verify`: a node's rows, computed from its log once more."""

from __future__ import annotations

import datetime as dt
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.console.long_work import long_work
from headrace.cli.console.node_named import node_named
from headrace.cli.console.options import DEFAULTS, Pipeline, Root, with_group
from headrace.cli.console.telling import report

if TYPE_CHECKING:
    from headrace.description import Node


@dataclass(frozen=True)
class KeysCompared:
    """The keys that `verify --oracle` compares."""

    oracle: Annotated[
        bool, typer.Option("--oracle", help="Compare some keys with the oracle, record by record.")
    ] = False
    keys: Annotated[int, typer.Option(min=1, help="With --oracle: how many keys.")] = 20
    seed: Annotated[int, typer.Option(help="With --oracle: another seed gives other keys.")] = 0


USUAL = KeysCompared()


@with_group
def verify_node(
    node: Annotated[str, typer.Argument(help="The node to recompute from its log.")],
    day: Annotated[
        list[dt.datetime] | None, typer.Option(formats=["%Y-%m-%d"], help="UTC day; all by default.")
    ] = None,
    group: KeysCompared = USUAL,
    pipeline: Pipeline = DEFAULTS.pipeline,
    lake: Root = DEFAULTS.lake,
) -> None:
    """Recompute a node from its log and compare, day by day. It changes nothing, and exits with 1 if a row differs."""
    from headrace.cli import commands
    from headrace.lake.paths import Lake
    from headrace.lifecycle.backfill import verify as compare
    from headrace.lifecycle.backfills.backfill_plan import STAGES

    if group.oracle:
        if day:
            raise typer.BadParameter("--oracle compares keys, not days: leave --day out.")
        sys.exit(0 if _verify_keys(lake, node_named(node, pipeline), group) else 1)
    described, days = node_named(node, pipeline), [d.date() for d in day] if day else None
    with long_work("Starts Spark.", len(STAGES) - 1) as work:
        verdicts = compare(
            commands._session(lake),
            Lake(lake),
            described,
            days,
            on_stage=lambda stage: work.begin(stage.capitalize()),
        )
    for verdict in verdicts:
        word = "equal" if verdict.equal else f"{verdict.rows_differing} rows differ"
        told = f"{verdict.what}  {verdict.rows_recomputed:>9,} rows recomputed  {word}"
        report("\n    ".join([told, *verdict.first_differences]), vars(verdict))
    sys.exit(0 if all(verdict.equal for verdict in verdicts) else 1)


def _verify_keys(lake: str, node: Node, group: KeysCompared) -> bool:
    """Say what the oracle finds; True: no row differs."""
    from headrace.cli.console.sessions import session_when_needed
    from headrace.lake.paths import Lake
    from headrace.lifecycle.oracle_check import verify_keys

    with long_work(f"Replays {group.keys:,} keys through the oracle."):
        verdict = verify_keys(session_when_needed(lake), Lake(lake), node, group.keys, group.seed)
    word = "no row differs" if verdict.equal else f"{verdict.rows_differing:,} rows differ"
    told = f"{verdict.node}  {verdict.keys:,} keys checked  {verdict.rows_equal:,} rows equal  {word}"
    report("\n    ".join([told, *verdict.first_differences]), vars(verdict), equal=verdict.equal)
    return verdict.equal
