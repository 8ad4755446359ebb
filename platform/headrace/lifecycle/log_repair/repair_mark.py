"""The nodes that a repair still owes: they folded a log that is another one now, and are to be computed again.

Law: a node is noted before the change after which nothing else tells that it is owed. It is struck off once it is computed
again, by whatever pipeline describes it. Until then it does not start, and its logs are not cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.lake import small_files
from headrace.writing.leases.handover import WaitsError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.lake.paths import Lake
    from headrace.writing.leases.lease import Lease

SUFFIX = ".json"


class RepairMark:
    """The nodes owed by the repair of one topic's log, by name. In: lease  of the log."""

    def __init__(self, lake: Lake, topic: str, lease: Lease) -> None:
        """Read the mark that a repair has left, if there is one."""
        self._uri, self._lease = lake.repairing_log(topic), lease
        self._owed: set[str] = {*(small_files.read_json(self._uri) or ())}

    @property
    def owed(self) -> frozenset[str]:
        """The names of the nodes."""
        return frozenset(self._owed)

    def owe(self, nodes: Iterable[str]) -> None:
        """Note nodes."""
        if not self._owed.issuperset(names := {*nodes}):
            self._write(self._owed | names)

    def strike(self, node: str) -> None:
        """A node is computed again."""
        if node in self._owed:
            self._write(self._owed - {node})

    def _write(self, owed: set[str]) -> None:
        self._lease.check()
        if owed:
            small_files.write_json(self._uri, sorted(owed))
        else:
            small_files.delete(self._uri)
        self._owed = owed


def repair_owed(lake: Lake, node: str) -> str | None:
    """The topic whose repair owes a node; None: none does."""
    names = (name for name in small_files.names(lake.repairs) if name.endswith(SUFFIX))
    topics = (name.removesuffix(SUFFIX) for name in names)
    return next((t for t in topics if node in (small_files.read_json(lake.repairing_log(t)) or ())), None)


def require_repaired(lake: Lake, node: str) -> None:
    """Let a node wait until a repair has computed it again. Raises: WaitsError."""
    topic = repair_owed(lake, node)
    if topic is not None:
        raise WaitsError(
            f"Node '{node}' waits: a repair of the log of '{topic}' has not computed its tables again yet.",
            hint=f"If none is under way, run: headrace repair {topic}, with the pipeline of the node.",
        )
