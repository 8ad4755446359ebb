"""The outcome of an act, in words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.changing.comparing.compare_generations import Differences


@dataclass(frozen=True)
class Applied:
    """The outcome of an act: the differences in each node's table, nodes with new names, and logs that were written again.

    Empty: nothing was to do.
    """

    nodes: tuple[tuple[str, Differences], ...] = ()
    kept_until_ms: int = 0
    renamed: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()
    written_again: tuple[str, ...] = ()  # see `Act`

    def __str__(self) -> str:
        """A few lines for each node, with examples of rows that differ."""
        return self.in_words(examples=True)

    def in_words(self, *, examples: bool) -> str:
        """A few lines for each node. In: examples  False where an erased key must not stand."""
        if not self.nodes and not self.renamed and not self.rewritten:
            return "Nothing was to be applied."
        lines = [f"topic {name}: its log was written again" for name in self.rewritten]
        lines += [f"node {name}: goes on from the tables of its former name" for name in self.renamed]
        for name, differences in self.nodes:
            told = differences if examples else replace(differences, examples=())
            first, *others = str(told).splitlines()
            lines += [f"node {name}: {first}", *(f"  {line}" for line in others)]
        if self.nodes:
            lines.append(self._way_back)
            lines.append("In a stream that runs with the code before, these nodes wait: restart it.")
        return "\n".join(lines)

    @property
    def _way_back(self) -> str:
        if self.written_again:
            logs = ", ".join(self.written_again)
            return (
                f"The former tables are not kept: they are of the log of {logs} before it was written again."
            )
        return "The former tables are kept: headrace rollback puts them back."
