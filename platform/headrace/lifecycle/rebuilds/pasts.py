"""The pasts of the logs from which tables were folded that lie beside those of a node.

Law: such tables, half-built by a change or replaced by one, take the node's place only over the rows from which they were
folded. So the past of each log is noted before they read it. It is another one once rows of the log have changed, gone, or
come before its end, as by an erasure, a repair, a cut, or an apply that writes the log again (see `past_of`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace import lake as lakes
from headrace.lake import small_files
from headrace.lake.care.alter import past_of
from headrace.nodes.standing.state_commits import writings_read

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.description import Node
    from headrace.lake.paths import Lake

Pasts = Mapping[str, str]  # by log; empty of one that was not there
NOTE = "pasts.json"


def pasts_of(lake: Lake, logs: Iterable[str]) -> dict[str, str]:
    """The pasts of logs, as of now."""
    return {name: past_of(lakes.open_table(lake.log(name))) for name in logs}


def logs_of_another_past(lake: Lake, noted: Pasts) -> list[str]:
    """The logs that have another past now than was noted."""
    now = pasts_of(lake, noted)
    return [name for name, past in noted.items() if now[name] != past]


class NotedPasts:
    """The note beside the tables of a rebuild: the pasts of all logs that the node reads, directly or through nodes.

    A log that it reads through a node is named alone, and may have another past: the log of that node has one of its own.
    """

    def __init__(self, lake: Lake, scratch: Lake, node: Node) -> None:
        """Read the note. In: scratch  where the rebuild's tables lie (see `rebuild_from_balance.rebuild_place`)."""
        self._lake, self._uri = lake, f"{scratch.nodes}/{NOTE}"
        self._read = [topic.name for topic in node.topics]
        self._logs = sorted({*self._read, *writings_read(lake, node)})
        self._noted: Pasts | None = small_files.read_json(self._uri)

    def note(self) -> None:
        """Note them as they are now. Nothing has been read so far."""
        self._write(pasts_of(self._lake, self._logs))

    def _write(self, pasts: Pasts) -> None:
        small_files.write_json(self._uri, pasts)
        self._noted = pasts

    def drop(self) -> None:
        """Drop the note, before anything of what is built."""
        small_files.delete(self._uri)
        self._noted = None

    def hold(self) -> bool:
        """Whether what is built is of the logs as they are now; without a note nobody can tell.

        A log that was not there is noted now: nothing of it has been read.
        """
        if self._noted is None:
            return False
        changed = logs_of_another_past(self._lake, {name: self._noted.get(name, "") for name in self._read})
        if any(self._noted.get(name) for name in changed):
            return False
        if changed:
            self._write({**self._noted, **pasts_of(self._lake, changed)})
        return True
