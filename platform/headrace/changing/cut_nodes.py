"""Nodes whose logs were cut: what the rest of the log does not tell any more, and the ways out.

Law: an opening balance holds what the old description made of the rows that are gone. So an aggregate that it does not have,
or another filter, group, window or grace, follows from no row that is there. Some of its aggregates, under other names or in
another order, follow from it (see `nodes.balances.rebuild_from_balance`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.changing.plan_topics import RESTORE
from headrace.description.since import records_since
from headrace.errors import DescriptionError
from headrace.nodes.balances.cuts import first_whole_day
from headrace.nodes.descriptions.compare_rules import COLUMNS_READ, ORDER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.nodes.descriptions.compare_rules import Changes

OF_AGGREGATES = (COLUMNS_READ, ORDER)  # changes that come with those of aggregates
NEW_NAME = "give the changed node a new name: it is then built from the rest of the log"


def why_not_from_the_rest(cut: Sequence[str], changes: Changes, why_not_resent: str = "") -> str:
    """Why a node cannot be rebuilt, with the columns that cannot be computed.

    In: cut           the topics whose logs were cut
        why_not_resent  why a balance that has all its aggregates does not do (see `nodes.balances.rebuild_from_balance`)
    """
    reason = f"rows of the log of '{cut[0]}' were cut off (headrace retain)"
    if why_not_resent:
        return f"{reason}, and its opening balance does not stand for all of them: {why_not_resent}"
    lacking = lacking_columns(changes)
    if lacking and not _others_than_columns(changes):
        return f"{reason}, and its opening balance does not tell {', '.join(lacking)}"
    if any(line.startswith("grace: ") for line in changes.others):
        return f"{reason}, and with another grace other records of them would be late"
    return reason


def lacking_columns(changes: Changes) -> list[str]:
    """The aggregates that a balance does not have: new ones, and those that are others; one with a new name is none."""
    known = {each.before for each in changes.columns}
    return [each.column for each in changes.columns if each.after is not None and each.after not in known]


def _others_than_columns(changes: Changes) -> list[str]:
    """The changes beside those of aggregates and of the columns that are read for them."""
    return [line for line in changes.others if not line.partition(": ")[0].endswith(OF_AGGREGATES)]


def ways_out(lake: Lake, node: Node, cut: Sequence[str], changes: Changes) -> str:
    """One sentence: the ways in which a person can solve this."""
    return "; or ".join((RESTORE, *_others(lake, node, cut, changes))) + "."


def _others(lake: Lake, node: Node, cut: Sequence[str], changes: Changes) -> Iterator[str]:
    if any(each.after is None for each in changes.columns) and not lacking_columns(changes):
        yield "leave in the aggregates that nobody needs any more, if that is all that changes"
    day = first_whole_day(lake, cut)
    if day is not None and _can_have(node, day.isoformat()):
        yield f"rebuild its windows from a day on that the log still holds: since='{day}', or a later day"
    yield NEW_NAME


def _can_have(node: Node, since: str) -> bool:
    """Whether a node's windows are such as can be rebuilt from a day on."""
    try:
        records_since(node, since)
    except DescriptionError:
        return False
    return True
