"""`headrace erasures`: the nodes for which erasures wait."""

from __future__ import annotations

import datetime as dt
import sys

from headrace.cli.options import DEFAULTS, Root
from headrace.cli.telling import report
from headrace.lake.paths import Lake
from headrace.lifecycle.pending_erasures import pending


def pending_erasures(lake: Root = DEFAULTS.lake) -> None:
    """List pending erasures, with the nodes of other pipelines for which they wait. Exits 1 if there is one."""
    found = pending(Lake(lake))
    for each in found:
        at = dt.datetime.fromtimestamp(each.since_ms / 1000, dt.UTC).isoformat(timespec="seconds")
        told = f"{each.node}: pending since {at}; run `headrace erase {each.topic} …` with its pipeline's nodes, too."
        report(told, vars(each))
    if not found:
        report("No erasure is pending.")
    sys.exit(1 if found else 0)
