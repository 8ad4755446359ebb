"""The rows of nodes as a test reads them; the records that were not used, what the rest waits for, and what proves it.

Law: all of it is computed in the test's process, from the lake's files. Spark starts only for steps that the expressions do
not cover, and for `read` and `views`, which give frames.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, Any

from headrace.errors import DescriptionError
from headrace.explain.graces.grace_curve import grace_curve
from headrace.explain.graces.other_grace import what_if
from headrace.explain.record_fate import fate_of_record
from headrace.explain.row_cause import causes_of
from headrace.explain.tables.audited_table import audit_table
from headrace.explain.tables.planned_rows import planned_rows
from headrace.lifecycle.oracle_check import KeysVerdict, verify_keys
from headrace.nodes.balances.opening import read_opening
from headrace.nodes.descriptions.references import resolve_references
from headrace.nodes.descriptions.topics import nodes_below
from headrace.nodes.standing.emptiness import why_empty
from headrace.nodes.standing.lake_facts import LakeFacts
from headrace.nodes.standing.waits import waits_of
from headrace.observe.local_views import LocalViews
from headrace.observe.views import Views
from headrace.oracle.values import identity

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Duration, Node, Topic
    from headrace.explain.graces.grace_curve import GraceCurve
    from headrace.explain.graces.other_grace import WhatIf
    from headrace.explain.record_fate import RecordFate
    from headrace.explain.row_cause import Cause
    from headrace.explain.tables.audited_table import Audit
    from headrace.explain.tables.planned_rows import PlannedRows
    from headrace.lake.paths import Lake
    from headrace.nodes.standing.waits import Wait

ALL_KEYS = 1 << 30
SHOWN = 5  # how many differing rows of each side an error names
Rows = list[dict[str, Any]]


class Findings(ABC):
    """The part of a test driver that reads and explains; see `TestDriver`."""

    _nodes: dict[str, Node]
    _topics: dict[str, Topic]
    _session: SparkSession
    _lake: Lake

    @property
    @abstractmethod
    def spark(self) -> SparkSession:
        """A session of Spark."""

    def rows(self, node: str) -> Rows:
        """Read the node's results, in the order of their values: final windows if suppressed, else every row as of now."""
        return _sorted(self._local.read(self._known(node)))

    @property
    def lake(self) -> Lake:
        """The lake of the logs and tables, for `KeyedReads` and the like; it lasts until `reset` or `close`."""
        return self._lake

    def backfill(self, node: str) -> Rows:
        """Recompute the node's results from the log in one go, in the order of their values."""
        return _sorted(self._local.recompute(self._known(node)))

    def check(self, node: str) -> None:
        """Compare the node's rows with those of a backfill, and with those of the oracle.

        The oracle replays the log from its first record: of a log that was cut a backfill alone is compared.

        Raises: AssertionError naming rows that differ
        """
        _require_equal(node, self.backfill(node), self.rows(node))
        if read_opening(self._lake, resolve_references(self._lake, self._known(node))).is_at_the_beginning:
            verdict = self.verify(node, ALL_KEYS)
            if not verdict.equal:
                raise AssertionError(
                    "\n  ".join([f"{node}: the oracle differs.", *verdict.first_differences])
                )

    def verify(self, node: str, keys: int = 20) -> KeysVerdict:
        """Compare the rows of some keys with those of the oracle, which replays the log record by record.

        It finds a function of yours that depends on the clock, on chance, or on where a batch ends.
        """
        return verify_keys(self._session, self._lake, self._known(node), keys)

    def why(self, node: str, *, depth: int = 1, **values: Any) -> list[Cause]:
        """The causes of the node's rows that have these values: the records behind each, and those that did not count.

        In: values  of columns of the row; `window` is the start of its window
            depth   through how many nodes above to go
        """
        return causes_of(self._session, self._lake, self._known(node), values, depth=depth)

    def why_not(self, topic: str, partition: int, offset: int) -> RecordFate:
        """The fate of a record in each node that reads it, with its numbers and what would have made it count.

        In: topic  or a node that others read: its rows are records of partition 0
        """
        of = self._topics.get(topic) or self._known(topic, "topic or node")
        nodes = [*self._nodes.values()]
        return fate_of_record(self._session, self._lake, nodes, (of, partition, offset))

    def what_if(self, node: str, *, grace: Duration) -> WhatIf:
        """Fold the log with another grace, too: which records count, how much later results come, which windows differ."""
        return what_if(self._session, self._lake, self._known(node), grace)

    def audit(self, node: str, against: str, **columns: str) -> Audit:
        """Hold a table that another system made against what the log says.

        In: against  URI of a Delta table or of a folder of Parquet files, or kafka:TOPIC
            columns  for a column of the node the name that the table has for it
        """
        return audit_table(self._session, self._lake, self._known(node), against, columns=columns)

    def plan_rows(self, nodes: Sequence[Node], *, sample: int | None = None) -> PlannedRows:
        """The rows that a changed description adds, removes and changes.

        In: nodes  all of the changed pipeline
            sample how many keys of each node are compared; None: all
        """
        return planned_rows(self._session, self._lake, nodes, sample=sample)

    def grace_curve(self, node: str) -> GraceCurve:
        """How complete the node's windows are with each grace, and how long results wait for it."""
        return grace_curve(self._session, self._lake, self._known(node))

    def late(self, node: str) -> Rows:
        """Read the node's late records, one row for each record and closed window (see `Views.late`)."""
        return _sorted(self._local.late(self._known(node)))

    def updates(self, node: str) -> Rows:
        """Read the node's raw updates, one row for each identity and micro-batch (see `LocalViews.updates`)."""
        return sorted(self._local.updates(self._known(node)).to_pylist(), key=_by_batch)

    def store(self, node: str, store: str) -> Rows:
        """Read the entries of a processor's store (see `Views.store`)."""
        return _sorted(self._local.store(self._known(node), store))

    def ledger(self, node: str) -> Rows:
        """Read the fates of all records: topic, partition, fate, records (see `Views.ledger`)."""
        return _sorted(self._local.ledger(self._known(node)))

    def fates(self, node: str) -> dict[str, int]:
        """Count the records of each fate over all topics and partitions; fates that no record met are left out."""
        counts: dict[str, int] = {}
        for row in self.ledger(node):
            if row["records"]:
                counts[row["fate"]] = counts.get(row["fate"], 0) + row["records"]
        return counts

    def dead_letters(self, name: str) -> Rows:
        """Read the records that a topic and the nodes below it, or a node, could not use (see `Views.dead_letters`)."""
        topic = self._topics.get(name)
        below = () if topic is None else nodes_below(topic, [*self._nodes.values()])
        return _in_order(self._local.dead_letters(topic or self._known(name, "topic or node"), below))

    def records(self, node: str, fate: str) -> Rows:
        """Read the records behind a count of the ledger, with the reason (see `Views.records`)."""
        return _in_order(self._local.records(self._known(node), fate))

    def log(self, topic: str) -> Rows:
        """Read the topic's log in its order, without the control rows that chain its commits."""
        if topic not in self._topics:
            hint = f"There are: {', '.join(sorted(self._topics))}."
            raise DescriptionError(f"There is no topic {topic!r} here.", hint=hint)
        rows: Rows = self._local.log(self._topics[topic]).to_pylist()
        return sorted(rows, key=_place_in_log)

    def read(self, node: str) -> DataFrame:
        """Read the node's results as a frame of Spark (see `Views.read`)."""
        return self.views.read(self._known(node))

    @property
    def views(self) -> Views:
        """All answers as frames of Spark."""
        return Views(self.spark, self._lake)

    @property
    def _local(self) -> LocalViews:
        return LocalViews(self._session, self._lake)

    def waits_for(self, node: str) -> list[Wait]:
        """The waits of the node's rows: the topic and partition that hold them, since when, and what would move them."""
        return waits_of(self._known(node), LakeFacts(self._lake))

    def why_empty(self, node: str) -> str | None:
        """Why the node's table has no row, with the command that shows the records; None: it has rows."""
        described, facts = self._known(node), LakeFacts(self._lake)
        return None if facts.has_rows(described) else why_empty(described, facts)

    def _known(self, name: str, kind: str = "node") -> Node:
        if name not in self._nodes:
            hint = (
                f"There are: {', '.join(sorted({*self._nodes, *(self._topics if kind != 'node' else ())}))}."
            )
            raise DescriptionError(f"There is no {kind} {name!r} here.", hint=hint)
        return self._nodes[name]


def _by_batch(row: dict[str, Any]) -> tuple[Any, ...]:
    """The order of updates: the last word comes last."""
    return (row["__batch"] is None, row["__batch"] or 0, identity(row.values()))


def _sorted(table: pa.Table) -> Rows:
    rows: Rows = table.to_pylist()
    return sorted(rows, key=lambda row: identity(row.values()))


def _in_order(rows: Rows) -> Rows:
    """Records in the order of their places."""
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"], row["node"] or ""))


def _place_in_log(row: dict[str, Any]) -> tuple[Any, ...]:
    offset = row["offset"]
    return (
        row["ingested_at"],
        row["partition"],
        offset is None,
        offset or 0,
        row["kind"],
        row["control"] or "",
    )


def _require_equal(node: str, recomputed: Rows, stored: Rows) -> None:
    """Raises: AssertionError naming rows that one side alone has; duplicates count."""
    log, table = (Counter(identity(row.values()) for row in rows) for rows in (recomputed, stored))
    shown = {identity(row.values()): row for row in (*recomputed, *stored)}
    lines = [f"a backfill alone: {shown[key]}" for key in [*(log - table)][:SHOWN]]
    lines += [f"the table alone: {shown[key]}" for key in [*(table - log)][:SHOWN]]
    if lines:
        raise AssertionError("\n  ".join([f"{node}: a backfill and the table differ.", *lines]))
