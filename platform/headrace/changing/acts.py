"""The acts by which a lake was changed: one file each, so that an act can be completed after a crash, told, and undone.

Several pipelines may change their nodes in one lake: the acts of a pipeline are those that name one of its nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headrace.lake import small_files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from headrace.lake.paths import Lake

UNDER_WAY, DONE, UNDONE = "under way", "done", "undone"
EXAMPLES = "examples"  # of `Differences`: values of rows


@dataclass(frozen=True)
class ChangedNode:
    """One node of an act.

    before, after  the fingerprints of the descriptions
    differences    what differs between its tables (see `Differences`)
    delivered      True once its sinks were given what was asked for
    """

    node: str
    before: str
    after: str
    differences: Mapping[str, Any]
    delivered: bool = False


@dataclass(frozen=True)
class Act:
    """Nodes that were changed together.

    began_ms       when the first of them was swapped in; it names the act, and is later than that of each act before
    emit           what sinks get
    kept_until_ms  until then one can go back
    nodes          those swapped in so far or about to be, each before those that read it
    written_again  the topics whose logs were written again since the tables before were: one cannot go back
    """

    began_ms: int
    emit: str
    kept_until_ms: int
    nodes: tuple[ChangedNode, ...] = field(default_factory=tuple)
    state: str = UNDER_WAY
    written_again: tuple[str, ...] = ()

    @property
    def names(self) -> set[str]:
        """The names of its nodes."""
        return {each.node for each in self.nodes}

    def with_node(self, node: ChangedNode) -> Act:
        """The act with another node, in place of the one of that name."""
        others = [each for each in self.nodes if each.node != node.node]
        at = next((at for at, each in enumerate(self.nodes) if each.node == node.node), len(others))
        return replace(self, nodes=(*others[:at], node, *others[at:]))


def begin_act(lake: Lake, act: Act) -> Act:
    """Note a new act. If its moment is not later than that of each act before, or is another act's, a later one names it."""
    before = last_act(lake)
    act = act if before is None else replace(act, began_ms=max(act.began_ms, before.began_ms + 1))
    while not _write(lake, act, overwrite=False):
        act = replace(act, began_ms=act.began_ms + 1)
    return act


def write_act(lake: Lake, act: Act) -> Act:
    """Note an act that was begun, as it stands."""
    _write(lake, act, overwrite=True)
    return act


def _write(lake: Lake, act: Act, *, overwrite: bool) -> bool:
    """Note only how many rows differ, because an erased key must not stand there.

    Out: False if there is such an act and `overwrite` is False
    """
    entry = asdict(act)
    for node in entry["nodes"]:
        node["differences"] = {name: of for name, of in node["differences"].items() if name != EXAMPLES}
    path = f"{lake.changes_applied}/{act.began_ms:015}.json"
    return small_files.write_json(path, entry, overwrite=overwrite)


def last_act(lake: Lake, nodes: Collection[str] | None = None) -> Act | None:
    """The newest act; None: there was none. In: nodes  of a pipeline, one of which it names; None: it is any pipeline's."""
    return next((act for act in _acts(lake) if nodes is None or act.names & {*nodes}), None)


def acts_under_way(lake: Lake, nodes: Collection[str]) -> list[Act]:
    """The acts over nodes of a pipeline that were broken off, the newest first. None over a node of which is a later act."""
    found, later = list[Act](), set[str]()
    for act in _acts(lake):
        if act.state == UNDER_WAY and act.names & {*nodes} and not act.names & later:
            found.append(act)
        later |= act.names
    return found


def _acts(lake: Lake) -> Iterator[Act]:
    """All acts, the newest first."""
    for name in reversed(small_files.names(lake.changes_applied)):
        found = small_files.read_json(f"{lake.changes_applied}/{name}")
        if found is not None:
            nodes = tuple(ChangedNode(**each) for each in found["nodes"])
            yield Act(**{**found, "nodes": nodes, "written_again": tuple(found.get("written_again", ()))})
