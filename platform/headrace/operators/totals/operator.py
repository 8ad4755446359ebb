"""Totals: an aggregate of each group."""

from __future__ import annotations

from headrace.description import RunningAggregate
from headrace.operators.contract import OfNode


class Totals(OfNode[RunningAggregate]):
    """One row per group, revised."""
