"""Whether the opening balance of a node tells what a changed description of it needs of the rows that are gone.

Law (L40): a balance tells an aggregate if it has one with the same rules. Everything else of the description has to be the
same, and so have the fates of the records that are gone: an aggregate that is removed must not have refused one of them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headrace import lake as lakes
from headrace.description import RunningAggregate, WindowedAggregate
from headrace.description.aggregates import ARITHMETIC, OWN
from headrace.description.schema import parse_ddl
from headrace.fold.aggregates.projection import sources_of
from headrace.fold.fates import DEAD_LETTER
from headrace.fold.open_sizes import shuts_down
from headrace.lake import small_files
from headrace.nodes.evolution import updated_rules
from headrace.nodes.opening import balance_by
from headrace.nodes.progress import Progress
from headrace.nodes.state_commits import last_state_commit, state_written_by

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.description import Node
    from headrace.lake.paths import Lake

AGGREGATES, BRANCHES, READ = "aggregates", "branches", "value"  # of the rules
CHOOSY = (*ARITHMETIC, OWN)  # kinds that may refuse a value, so that its record is a dead letter


@dataclass(frozen=True)
class RebuildFromBalance:
    """How a node of a changed description is rebuilt from its opening balance.

    sources  for each aggregate the one of the balance with the same rules; None: the balance lacks one
    why_not  what keeps the node from being rebuilt from it all the same; empty: nothing does
    """

    sources: Mapping[str, str] | None = None
    why_not: str = ""

    @property
    def suffices(self) -> bool:
        """Whether the node can be rebuilt from the balance and the rest of the log."""
        return self.sources is not None and not self.why_not


NO_REBUILD = RebuildFromBalance()


def rebuild_place(lake: Lake, node: Node) -> Lake:
    """Where the tables of a node lie while it is rebuilt by this description."""
    return replace(lake, nodes=f"{lake.rebuilds(node.required_name)}/{node.fingerprint()[:12]}")


def begun_from_balance(beside: Lake) -> str:
    """The file that says that a rebuild has begun with a balance, and with which. In: beside  see `rebuild_place`."""
    return f"{beside.nodes}/opening.json"


def rebuild_from_balance(lake: Lake, node: Node) -> RebuildFromBalance:
    """Look for a node's aggregates in its opening balance. Its description is another one than that of its tables."""
    name = node.required_name
    # A swap that was given up may have left a balance of its own there, too.
    entry = balance_by(lake, name, state_written_by(lake, name))
    if entry is None or not isinstance(node, RunningAggregate | WindowedAggregate):
        return NO_REBUILD
    if small_files.exists(begun_from_balance(rebuild_place(lake, node))):
        return RebuildFromBalance({})  # what it needs of the balance is there already
    before = _rules_of_balance(lake, name, entry)
    after = _plain(node.rules())
    if before is None or _others(before) != _others(after) or not _reads_less(before, after):
        return NO_REBUILD
    if isinstance(node, WindowedAggregate) and (node.since is not None or shuts_down(node)):
        return NO_REBUILD  # older rows are of yet another description; the bytes of open windows tell all their columns
    sources = sources_of(before[AGGREGATES], after[AGGREGATES])
    if sources is None:
        return NO_REBUILD
    removed = [(name, rules) for name, rules in before[AGGREGATES] if name not in sources.values()]
    return RebuildFromBalance(sources, _why_not(lake, node, entry, removed))


def _rules_of_balance(lake: Lake, name: str, entry: Mapping[str, Any]) -> dict[str, Any] | None:
    """The rules by which a balance was struck, and all tables of the node were written; None: they are not known."""
    commit, stored = last_state_commit(lake, name), small_files.read_json(lake.description(name))
    if commit is None or stored is None:
        return None
    written_by = {commit.record["fingerprint"], stored["fingerprint"], entry["fingerprint"]}
    return _plain(stored["rules"]) if len(written_by) == 1 and "suppressed" not in stored["rules"] else None


def _why_not(
    lake: Lake, node: Node, entry: Mapping[str, Any], removed: Sequence[tuple[str, Mapping[str, Any]]]
) -> str:
    name = node.required_name
    if lakes.exists(lake.log(f"{name}@{entry['fingerprint'][:12]}")):
        return "other nodes read it, and what it gave before the cut cannot be told anew"
    dead = Progress.from_json(entry["progress"]).totals().get(DEAD_LETTER, 0)
    if dead and (choosy := _choosy(node, removed)):
        return (
            f"{dead:,} dead letters are among the records that are gone, and without {', '.join(choosy)} some of them "
            "might count"
        )
    return ""


def _choosy(node: Node, removed: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """The aggregates that may have made records dead letters: by their own values, or by a step for their columns."""
    plain = not any(branch["steps"] for branch in node.rules().get(BRANCHES, ()))
    return [name for name, rules in removed if not plain or rules["kind"] in CHOOSY]


def _plain(rules: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(updated_rules(rules)))
    return found


def _others(rules: Mapping[str, Any]) -> dict[str, Any]:
    """The rules without aggregates, and without the columns that are read for them."""
    branches = [{**branch, READ: None} for branch in rules.get(BRANCHES, ())]
    return {name: of for name, of in rules.items() if name != AGGREGATES} | {BRANCHES: branches}


def _reads_less(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether each branch reads no column that it has not read before, with the same type."""
    pairs = zip(before.get(BRANCHES, ()), after.get(BRANCHES, ()), strict=True)
    return all(_read(later) <= _read(earlier) for earlier, later in pairs)


def _read(branch: Mapping[str, Any]) -> set[tuple[str, str]]:
    columns = parse_ddl(branch[READ], "columns read") if branch[READ] else ()
    return {(column.name, column.type) for column in columns}
