"""`headrace verify`: a node's rows, computed from its log once more."""

from __future__ import annotations

import datetime as dt
import sys
from dataclasses import dataclass
from typing import Annotated

import typer

from headrace.cli.console.deployment import USUAL, Deployment
from headrace.cli.console.long_work import long_work
from headrace.cli.console.telling import report


@dataclass(frozen=True)
class KeysCompared:
    """The keys that `verify --oracle` compares."""

    oracle: Annotated[
        bool, typer.Option("--oracle", help="Compare some keys with the oracle, record by record.")
    ] = False
    keys: Annotated[int, typer.Option(min=1, help="With --oracle: how many keys.")] = 20
    seed: Annotated[int, typer.Option(help="With --oracle: another seed gives other keys.")] = 0


SOME_KEYS = KeysCompared()


def verify_node(
    node: Annotated[str, typer.Argument(help="The node to recompute from its log.")],
    day: Annotated[
        list[dt.datetime] | None, typer.Option(formats=["%Y-%m-%d"], help="UTC day; all by default.")
    ] = None,
    group: KeysCompared = SOME_KEYS,
    deployment: Deployment = USUAL,
) -> None:
    """Recompute a node from its log and compare, day by day. It changes nothing, and exits with 1 if a row differs."""
    from headrace.lifecycle.backfill import verify as compare
    from headrace.lifecycle.backfills.backfill_plan import STAGES

    if group.oracle:
        if day:
            raise typer.BadParameter("--oracle compares keys, not days: leave --day out.")
        sys.exit(0 if _verify_keys(deployment, node, group) else 1)
    described, days = deployment.node(node), [d.date() for d in day] if day else None
    with long_work("Starts Spark.", len(STAGES) - 1) as work:
        verdicts = compare(
            deployment.session(),
            deployment.lake,
            described,
            days,
            on_stage=lambda stage: work.begin(stage.capitalize()),
            on_folded=work.reach,
        )
    for verdict in verdicts:
        word = "equal" if verdict.equal else f"{verdict.rows_differing} rows differ"
        told = f"{verdict.what}  {verdict.rows_recomputed:>9,} rows recomputed  {word}"
        report("\n    ".join([told, *verdict.first_differences]), vars(verdict))
    sys.exit(0 if all(verdict.equal for verdict in verdicts) else 1)


def _verify_keys(deployment: Deployment, node: str, group: KeysCompared) -> bool:
    """Say what the oracle finds; True: no row differs."""
    from headrace.lifecycle.oracle_check import verify_keys

    described, spark = deployment.node(node), deployment.session_when_needed()
    with long_work(f"Replays {group.keys:,} keys through the oracle."):
        verdict = verify_keys(spark, deployment.lake, described, group.keys, group.seed)
    word = "no row differs" if verdict.equal else f"{verdict.rows_differing:,} rows differ"
    told = f"{verdict.node}  {verdict.keys:,} keys checked  {verdict.rows_equal:,} rows equal  {word}"
    report("\n    ".join([told, *verdict.first_differences]), vars(verdict), equal=verdict.equal)
    return verdict.equal
