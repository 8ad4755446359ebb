"""Nodes whose logs were cut: what the rest of the log does not tell any more, and the ways out.

Law: an opening balance holds what the old description made of the rows that are gone. So an aggregate that it does not have,
or another filter, group, window or grace, follows from no row that is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.changing.plan_topics import RESTORE
from headrace.description import WindowedAggregate
from headrace.description.since import records_since
from headrace.errors import DescriptionError
from headrace.nodes.cuts import first_day_held

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.changing.compare_rules import Changes
    from headrace.description import Node
    from headrace.lake.paths import Lake

NEW_NAME = "give the changed node a new name: it is then built from the rest of the log"


def why_not_from_the_rest(cut: Sequence[str], changes: Changes) -> str:
    """Why a node cannot be rebuilt, with the columns that cannot be computed. In: cut  the topics whose logs were cut."""
    reason = f"rows of the log of '{cut[0]}' were cut off (headrace retain)"
    lacking = [each.column for each in changes.columns if each.after is not None]
    if lacking and not changes.others:
        return f"{reason}, and its opening balance does not tell {', '.join(lacking)}"
    return reason


def ways_out(lake: Lake, node: Node, cut: Sequence[str], changes: Changes) -> str:
    """One sentence: the ways in which a person can solve this."""
    return "; or ".join((RESTORE, *_others(lake, node, cut, changes))) + "."


def _others(lake: Lake, node: Node, cut: Sequence[str], changes: Changes) -> Iterator[str]:
    if any(each.after is None for each in changes.columns):
        yield "leave in the aggregates that nobody needs any more, if that is all that changes"
    day = first_day_held(lake, cut)
    if day is not None and _can_have(node, day.isoformat()):
        yield f"rebuild its windows from a day on that the log still holds: since='{day}', or a later day"
    yield NEW_NAME


def _can_have(node: Node, since: str) -> bool:
    """Whether a node's windows are such as can be rebuilt from a day on."""
    if not isinstance(node, WindowedAggregate):
        return False
    try:
        records_since(node, since)
    except DescriptionError:
        return False
    return True
