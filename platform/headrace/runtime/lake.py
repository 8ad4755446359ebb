"""Where everything lies: one root URI, one folder per concern."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Lake:
    """Paths below one root URI (a local folder, or any file system that Spark can reach).

    `logs/<topic>` the log · `tables/<node>` results · `state/<node>` open partials or changes, parts, plan, rules and
    opening balance · `refused/<node>/<sink>` what a sink's store refused · `leases/…` who writes.
    """

    root: str

    def log(self, topic: str) -> str:
        """The Delta table of a topic's log."""
        return f"{self.root}/logs/{topic}"

    def table(self, node: str) -> str:
        """The Delta table of a node's results."""
        return f"{self.root}/tables/{node}"

    def state(self, node: str) -> str:
        """The Delta table of a node's state."""
        return f"{self.root}/state/{node}/partials"

    def part(self, node: str, part: str) -> str:
        """The Delta table of what a node remembers beside its results."""
        return f"{self.root}/state/{node}/parts/{part}"

    def plan(self, node: str) -> str:
        """The file that holds the node's planned micro-batch."""
        return f"{self.root}/state/{node}/plan.json"

    def opening(self, node: str) -> str:
        """The file that holds where the node stood at the cut of its logs."""
        return f"{self.root}/state/{node}/opening.json"

    def openings(self, node: str) -> str:
        """The folder of the tables of that balance."""
        return f"{self.root}/state/{node}/openings"

    def description(self, node: str) -> str:
        """The file that holds the rules by which the node's state was written."""
        return f"{self.root}/state/{node}/description.json"

    def refused(self, node: str, sink: str) -> str:
        """The Delta table of rows that a sink's store refused."""
        return f"{self.root}/refused/{node}/{sink}"

    def lease(self, writer: str) -> str:
        """The folder of the leases of one writer."""
        return f"{self.root}/leases/{writer}"
