"""Where everything lies: one root URI, one folder per concern."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Lake:
    """Paths below one root URI (a local folder, or any file system that Spark can reach).

    `logs/<topic>` the log · `tables/<node>` results · `state/<node>` state, plan, rules, columns and opening balance ·
    `node_logs/<node>/<fingerprint>` what a node gives to others ·
    `beside/<node>` what is folded from the log beside these · `beside_logs/<topic>` a log that is written again ·
    `cuts/<topic>.json` what was cut off a log ·
    `rebuilds/<node>/<fingerprint>` the same of a node that is rebuilt · `erasing/<topic>` of the nodes of an erasure ·
    `former/<node>` the tables that a change replaced · `changes/<time>.json` what was applied ·
    `refused/<node>/<sink>` what a sink's store refused ·
    `notices/requests/<topic>` what a log's writer is asked to record ·
    `erasures/<topic>/<node>.json` the nodes that an erasure waits for ·
    `topics/<topic>.json` the description of a topic ·
    `notices/readers/<log or node>/<name>/<node>.json` what a node of any pipeline asks of a log that it reads ·
    `unusable/<node>/<fingerprint>` the records for which a step of the node raises ·
    `notices/paused/<node>.json` the nodes that a person lets rest ·
    `notices/paused/<node>.handover` those that a stream is asked for ·
    `last_errors/<log or stream>/<name>.json` why a query failed that has not committed since ·
    `renamed/<node>.json` the name that a node has now ·
    `triggers/<stream>.json` how often a stream's queries work, if that was set · `leases/…` who writes.
    """

    root: str
    nodes: str | None = (
        None  # where tables and state of nodes lie while they are rebuilt; None: below the root
    )
    aside: frozenset[str] = frozenset()  # nodes whose logs, and what they cannot use, lie there, too

    @property
    def _nodes(self) -> str:
        return self.nodes or self.root

    def rebuilds(self, node: str) -> str:
        """The folder of a node's rebuilds that were not swapped in yet."""
        return f"{self.root}/rebuilds/{node}"

    def log(self, topic: str) -> str:
        """The Delta table of a topic's log. The output of a node is the topic `<node>@<fingerprint>`."""
        node, at, generation = topic.partition("@")
        root = self._nodes if node in self.aside else self.root
        return f"{root}/node_logs/{node}/{generation}" if at else f"{self.root}/logs/{topic}"

    def table(self, node: str) -> str:
        """The Delta table of a node's results."""
        return f"{self._nodes}/tables/{node}"

    def state(self, node: str) -> str:
        """The Delta table of a node's state."""
        return f"{self._nodes}/state/{node}/partials"

    def scratch(self, node: str) -> str:
        """The folder of what is folded from the log beside the node's tables, to be compared with them."""
        return f"{self.root}/beside/{node}"

    def log_scratch(self, topic: str) -> str:
        """The folder in which a topic's log is written again before it is put in the place of the other."""
        return f"{self.root}/beside_logs/{topic}"

    def cut(self, topic: str) -> str:
        """The file that says how far a topic's log was cut off, and the highest event time that went."""
        return f"{self.root}/cuts/{topic}.json"

    def erasing(self, topic: str) -> str:
        """The folder in which the nodes of a topic are folded once a key is erased."""
        return f"{self.root}/erasing/{topic}"

    def plan(self, node: str) -> str:
        """The file that holds the node's planned micro-batch."""
        return f"{self._nodes}/state/{node}/plan.json"

    def standing(self, node: str) -> str:
        """The file that says how far the node's tables have read, while they are swapped."""
        return f"{self.root}/state/{node}/standing.json"

    def repairing(self, node: str) -> str:
        """The file that says that the node's tables have to be computed anew, until they are."""
        return f"{self._nodes}/state/{node}/repairing.json"

    @property
    def repairs(self) -> str:
        """The folder of the repairs of logs that are not done."""
        return f"{self.root}/repairs"

    def repairing_log(self, topic: str) -> str:
        """The file that names the nodes which a repair of a topic's log still owes."""
        return f"{self.repairs}/{topic}.json"

    def changes(self, node: str) -> str:
        """The folder of the changes that the node's sinks are being given."""
        return f"{self._nodes}/state/{node}/changes"

    def opening(self, node: str) -> str:
        """The file that holds where the node stood at the cut of its logs.

        A node that is rebuilt begins with a balance of its own, or with none.
        """
        return (
            f"{self.root}/state/{node}/opening.json" if self.nodes is None else f"{self.nodes}/opening.json"
        )

    def openings(self, node: str) -> str:
        """The folder of the tables of that balance."""
        return f"{self.root}/state/{node}/openings" if self.nodes is None else f"{self.nodes}/openings"

    def description(self, node: str) -> str:
        """The file that holds the rules by which the node's state was written."""
        return f"{self._nodes}/state/{node}/description.json"

    def columns(self, node: str, fingerprint: str) -> str:
        """The file that holds the columns which Spark has found for a description of the node."""
        root = self._nodes if node in self.aside else self.root
        return f"{root}/state/{node}/columns/{fingerprint[:12]}.json"

    def refused(self, node: str, sink: str) -> str:
        """The Delta table of rows that a sink's store refused."""
        return f"{self.root}/refused/{node}/{sink}"

    def unusable(self, node: str, fingerprint: str) -> str:
        """The Delta table of the records that a node of this description cannot use."""
        return f"{self._nodes}/unusable/{node}/{fingerprint[:12]}"

    def requests(self, topic: str) -> str:
        """The folder of what people ask a topic's sequencer to record."""
        return f"{self.root}/notices/requests/{topic}"

    def topic(self, name: str) -> str:
        """The file that holds the description of a topic by which its log is written."""
        return f"{self.root}/topics/{name}.json"

    def readers(self, topic: str) -> str:
        """The folder of what nodes ask of a log that they read: that of a topic, or of what a node gives, whatever its
        generation. Without a name (`@`): the folder of these folders.
        """
        node, at, _ = topic.partition("@")
        return f"{self.root}/notices/readers/{'node' if at else 'log'}/{node}".removesuffix("/")

    @property
    def erasures(self) -> str:
        """The folder of what erasures wait for."""
        return f"{self.root}/erasures"

    def paused(self, node: str) -> str:
        """The file that says that a node rests."""
        return f"{self.root}/notices/paused/{node}.json"

    def last_error(self, asset: str) -> str:
        """The file that holds the last error of a query: `log/<topic>` or `stream/<node>_stream`."""
        return f"{self.root}/last_errors/{asset}.json"

    def renamed(self, node: str) -> str:
        """The file that says under which name a node goes on that has had this one."""
        return f"{self.root}/renamed/{node}.json"

    def handover(self, node: str) -> str:
        """The file by which somebody asks a running stream for a node; beside the pauses, so one listing finds both."""
        return f"{self.root}/notices/paused/{node}.handover"

    def trigger(self, stream: str) -> str:
        """The file that holds the trigger interval set for a stream."""
        return f"{self.root}/triggers/{stream}.json"

    def former(self, node: str) -> str:
        """The folder of the tables that the last change of the node replaced."""
        return f"{self.root}/former/{node}"

    @property
    def changes_applied(self) -> str:
        """The folder of what was applied, one file for each act."""
        return f"{self.root}/changes"

    def rebuild_rate(self, node: str) -> str:
        """The file that says how fast the node was rebuilt the last time."""
        return f"{self.root}/state/{node}/rebuild_rate.json"

    def lease(self, writer: str) -> str:
        """The folder of the leases of one writer."""
        return f"{self.root}/leases/{writer}"
