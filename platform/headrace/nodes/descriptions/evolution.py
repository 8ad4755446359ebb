"""The outcome for a node's tables when another description wrote them.

| changed | outcome |
| --- | --- |
| `until_window_closes` added, removed or altered | goes on: tables and state hold the same rows |
| `until_time_limit` added, removed, or with another limit or early bound | rebuilt from the log; refused if that was cut |
| a node that is read by its name (`hr.node`) was written by another description | rebuilt from that node's new log |
| anything else that alters rows | a person applies it (see `headrace.changing`); rebuilt if `on_change="rebuild"` |

Law: a stream touches the tables only if the rules stored with the state and the fingerprint in its last commit are both the
node's. A rebuild notes its rules before it swaps, so a rebuild that died on the way is noticed and done again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.description import is_unnamed
from headrace.description.fingerprint import digest_of
from headrace.description.node import REBUILD
from headrace.errors import TerminalError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.description import Node

GOES_ON, REBUILT, REFUSED = "goes on", "rebuilt", "refused"
SUPPRESSION = (
    "suppression"  # of a windowed aggregate's rules; alters what is read of its tables, not what they hold
)
HINTS = {
    REBUILT: "Start its stream: it rebuilds the node from the log beside these tables, and swaps it in. Or restore the "
    "description.",
    REFUSED: "Run `headrace plan` to see what happens to it, then `headrace apply`; or restore the description.",
}


class OtherDescriptionError(TerminalError):
    """A node's tables were written by another description of it."""

    def __init__(self, name: str, outcome: str, detail: str) -> None:
        """In: outcome  REBUILT or REFUSED; detail: what changed."""
        super().__init__(
            f"Node '{name}': its state was written by another description of it.",
            detail=detail,
            hint=HINTS[outcome],
        )
        self.outcome = outcome


def outcome_of(stored: Mapping[str, Any] | None, written_by: str, described: Mapping[str, Any]) -> str:
    """The outcome for tables whose state or rules are not those of the description.

    In: stored     the rules noted with the state, with their fingerprint; None: there are none
        written_by the fingerprint in the state's last commit
        described  the node's rules, with their fingerprint
    """
    if stored is None:
        return REFUSED
    before, after = (updated_rules(each["rules"]) for each in (stored, described))
    if before != after:
        return REBUILT if _of_any_generation(before)[0] == _of_any_generation(after)[0] else REFUSED
    swapped = written_by in (stored["fingerprint"], described["fingerprint"])
    plain = not any("suppressed" in each["rules"] for each in (stored, described))
    return GOES_ON if swapped and plain else REBUILT


def by_policy(node: Node, outcome: str) -> str:
    """The same as the node's `on_change` has it."""
    return REBUILT if outcome == REFUSED and node.on_change == REBUILD else outcome


def fingerprint_of_updated(node: Node) -> str:
    """A fingerprint of what a node's tables are made of. It stays the same where the outcome is not REFUSED."""
    return digest_of(updated_rules(node.rules()))


def updated_rules(rules: Mapping[str, Any]) -> dict[str, Any]:
    """The rules of what is suppressed."""
    return {name: value for name, value in rules.get("suppressed", rules).items() if name != SUPPRESSION}


def _of_any_generation(rules: Any) -> tuple[Any, bool]:
    """Rules without the generations of nodes that are read by name; and whether there are any."""
    if isinstance(rules, list | tuple):
        items = [_of_any_generation(each) for each in rules]
        return [item for item, _ in items], any(follows for _, follows in items)
    if not isinstance(rules, dict):
        return rules, False
    parts = {name: _of_any_generation(each) for name, each in rules.items()}
    follows = "by_name" in rules or any(found for _, found in parts.values())
    plain = {name: part for name, (part, _) in parts.items()}
    if follows and isinstance(rules.get("topic"), str):
        node = rules["topic"].partition("@")[0]  # the digits behind tell its description
        plain["topic"] = "" if is_unnamed(node) else node
    return plain, follows
