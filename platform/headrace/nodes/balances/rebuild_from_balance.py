"""Whether the opening balance of a node tells what a changed description of it needs of the rows that are gone.

Law (L40): a balance tells an aggregate if it has one with the same rules. Everything else of the description has to be the
same, and so have the fates of the records that are gone: an aggregate that is removed must not have refused one of them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headrace import lake as lakes
from headrace.description.aggregates import ARITHMETIC, OWN
from headrace.description.schema import parse_ddl
from headrace.description.spark_steps import SPARK
from headrace.fold.aggregates.projection import sources_of
from headrace.fold.fates import DEAD_LETTER
from headrace.fold.open_sizes import shuts_down
from headrace.lake import small_files
from headrace.nodes.balances.opening import balance_by
from headrace.nodes.descriptions.evolution import updated_rules
from headrace.nodes.progress import Progress
from headrace.nodes.standing.state_commits import last_state_commit, state_written_by
from headrace.operators.registry import operator_for

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from headrace.description import Node
    from headrace.lake.paths import Lake

AGGREGATES, BRANCHES, READ, STEPS = "aggregates", "branches", "value", "steps"  # of the rules
Computed = tuple[str, str, str | None]
"""A computed column: its name, its SQL, and the version of Spark by which only Spark computes it."""
COMPUTES = "WithColumn"  # the step that computes a column
INPUTS = ("column", "by")  # of an aggregate
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


def rebuild_from_balance(lake: Lake, node: Node) -> RebuildFromBalance:
    """Look for a node's aggregates in its opening balance. Its description is another one than that of its tables."""
    name = node.required_name
    # A swap that was given up may have left a balance of its own there, too.
    entry = balance_by(lake, name, state_written_by(lake, name))
    if entry is None or not operator_for(node).has_balance:
        return NO_REBUILD
    if small_files.exists(rebuild_place(lake, node).opening(name)):
        return RebuildFromBalance({})  # what it needs of the balance is there already
    before = _rules_of_balance(lake, name, entry)
    after = _plain(node.rules())
    if before is None or not _is_part(before, after):
        return NO_REBUILD
    if node.since is not None or shuts_down(node):
        return NO_REBUILD  # older rows are of yet another description; the bytes of open windows tell all their columns
    sources = sources_of(before[AGGREGATES], after[AGGREGATES])
    if sources is None:
        return NO_REBUILD
    removed = [(column, of) for column, of in before[AGGREGATES] if column not in sources.values()]
    has_steps = any(branch[STEPS] for branch in before.get(BRANCHES, ()))
    refusing = [column for column, of in removed if has_steps or of["kind"] in CHOOSY]
    return RebuildFromBalance(sources, _why_not(lake, name, entry, refusing))


def _rules_of_balance(lake: Lake, name: str, entry: Mapping[str, Any]) -> dict[str, Any] | None:
    """The rules by which a balance was struck, and all tables of the node were written; None: they are not known."""
    commit, stored = last_state_commit(lake, name), small_files.read_json(lake.description(name))
    if commit is None or stored is None:
        return None
    written_by = {commit.record["fingerprint"], stored["fingerprint"], entry["fingerprint"]}
    return _plain(stored["rules"]) if len(written_by) == 1 and "suppressed" not in stored["rules"] else None


def _why_not(lake: Lake, name: str, entry: Mapping[str, Any], refusing: Sequence[str]) -> str:
    """In: refusing  the aggregates that go and may have made records dead letters, by a value or by a step for a column."""
    if lakes.exists(lake.log(f"{name}@{entry['fingerprint'][:12]}")):
        return "other nodes read it, and what it gave before the cut cannot be told anew"
    dead = Progress.from_json(entry["progress"]).totals().get(DEAD_LETTER, 0)
    if dead and refusing:
        return (
            f"{dead:,} dead letters are among the records that are gone, and without {', '.join(refusing)} some of them "
            "might count"
        )
    return ""


def _plain(rules: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(updated_rules(rules)))
    return found


def _is_part(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether the rules differ in aggregates alone, and in columns that are read or computed for them and left out now."""
    inputs = {of.get(part) for rules in (before, after) for _, of in rules[AGGREGATES] for part in INPUTS}
    if _others(before, inputs) != _others(after, inputs):
        return False
    pairs = zip(before.get(BRANCHES, ()), after.get(BRANCHES, ()), strict=True)
    return all(
        _read(later) <= _read(earlier)
        and _computes_part(_steps(earlier, inputs)[1], _steps(later, inputs)[1], after)
        for earlier, later in pairs
    )


def _others(rules: Mapping[str, Any], inputs: Collection[str]) -> dict[str, Any]:
    """The rules without aggregates, and without the columns that are read or computed for them."""
    branches = [{**each, READ: None, STEPS: _steps(each, inputs)[0]} for each in rules.get(BRANCHES, ())]
    return {name: of for name, of in rules.items() if name != AGGREGATES} | {BRANCHES: branches}


def _steps(branch: Mapping[str, Any], inputs: Collection[str]) -> tuple[list[Any], list[Computed]]:
    """The steps of a branch but the last ones, which compute inputs of aggregates; and these.

    No name, whatever its case, stands twice among the last ones.
    """
    steps, computed, names = [*branch[STEPS]], list[Computed](), set[str]()
    while steps and steps[-1]["step"] == COMPUTES and steps[-1]["name"] in inputs:
        name = steps[-1]["name"]
        if name.lower() in names:
            break
        step = steps.pop()
        computed.insert(0, (name, step["expression"], step.get(SPARK)))
        names.add(name.lower())
    return steps, computed


def _computes_part(before: Sequence[Computed], after: Sequence[Computed], rules: Mapping[str, Any]) -> bool:
    """Whether inputs are computed as before and in that order, and nothing reads one that is left out.

    The topic may have a column of its name.
    """
    rest = iter(before)
    if not all(step in rest for step in after):
        return False
    text = json.dumps({**rules, BRANCHES: [{**each, READ: None} for each in rules.get(BRANCHES, ())]})
    gone = {name for name, *_ in before} - {name for name, *_ in after}
    return not any(re.search(rf"\W{re.escape(name)}\W", text, re.IGNORECASE) for name in gone)


def _read(branch: Mapping[str, Any]) -> set[tuple[str, str]]:
    columns = parse_ddl(branch[READ], "columns read") if branch[READ] else ()
    return {(column.name, column.type) for column in columns}
