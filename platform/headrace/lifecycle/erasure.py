"""Erasure: what a topic's log says under one key goes, and every table that is made of it becomes what is left.

Law: afterwards the log is as it would be had the key's records said nothing (see `headrace.log.history.erasure`), and the
tables of each node are those that such a log leads to: live equals backfill, and the books balance. Tables are
computed anew from the log, whatever they are grouped by, so aggregates to which other keys contribute count the
erased records no more.

Streams may run. An erased key never returns: what was built of the log before goes first, and no backfill or rebuild runs
meanwhile. Records of the key that come later are new ones.
  1. Spark is asked whether it can compare the rows of each node; rebuilds, former tables, and logs of other descriptions go;
     all nodes that follow from the log are noted: for them the erasure is pending (see `pending_erasures`);
  2. the log's rows are blanked in one commit;
  3. the nodes are folded from that log aside, each before those that read it (see `writing.fold_aside`);
  4. streams hand the nodes over. Each completes the micro-batch that a crash had interrupted, and folds what it has not
     folded; what came meanwhile is folded aside, too;
  5. for each node: refused rows of the key and of results that differ go, these results are swapped, then its state and what
     it remembers of unusable records are written anew. Then its stream goes on.
Until then a node that runs may have folded rows from before with rows from after. All of it is replaced, but for what sinks
were given. After a crash run it again: it does all but what is done, and the fold aside goes on after its last increment.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from headrace import lake as lakes
from headrace.description import output_name, with_unnamed
from headrace.errors import TerminalError
from headrace.lake import small_files
from headrace.lake.care.alter import rewritable
from headrace.lake.care.vacuum import SETTLED_HOURS
from headrace.lifecycle.backfill import PATIENCE_SECONDS, Backfill
from headrace.lifecycle.backfills.compare_rows import ONLY_IN, TABLE
from headrace.lifecycle.following import nodes_following
from headrace.lifecycle.maintenance import RETENTION_HOURS
from headrace.lifecycle.pending_erasures import has_followed, note_pending
from headrace.lifecycle.rebuilds.kept_tables import drop_kept, nodes_with_kept
from headrace.lifecycle.rebuilds.meeting_point import standing
from headrace.lifecycle.rebuilds.takeover import take_over
from headrace.lifecycle.rewrite_state import rewrite_state, settled
from headrace.log.clock import SystemClock
from headrace.log.history.chain import require_whole_chain
from headrace.log.history.erasure import blanked, is_of_key, key_bytes, key_values
from headrace.log.schema_store import SchemaStore
from headrace.nodes.balances.older_rows import is_made, since_of
from headrace.nodes.balances.opening import read_opening
from headrace.nodes.descriptions.references import resolve_all_references
from headrace.nodes.descriptions.topics import names_of, nodes_below
from headrace.nodes.node_tables import undescribed
from headrace.nodes.refused_tables import refused_tables
from headrace.nodes.rows.sink_rows import with_place
from headrace.nodes.standing.state_commits import records_folded
from headrace.operators.registry import operator_for
from headrace.sequence.log_columns import DEAD_LETTER
from headrace.spark.lake_rows import read_table, rewrite
from headrace.spark.rows.json_rows import as_json
from headrace.spark.session import pipeline_session
from headrace.writing.fold_aside import drop_aside, kept_fold
from headrace.writing.leases.handover import handed_over
from headrace.writing.leases.lease_waits import nothing_rebuilds
from headrace.writing.node_logs.node_log import rewrite_node_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node, Topic
    from headrace.lake.paths import Lake
    from headrace.log.clock import Clock
    from headrace.writing.fold_aside import FoldedAside, Standing
    from headrace.writing.leases.lease import Lease

WHO = "headrace erase"


@dataclass(frozen=True)
class Erased:
    """The work on one table.

    of     the asset: `log/<topic>` or the node's name
    what   which of its tables: log, results, state, unusable records, or `refused by <sink>`; or a sink's store
    rows   how many rows are gone or became others; None: not a number that can be told
    note   what else there is to say
    """

    of: str
    what: str
    rows: int | None
    note: str = ""

    def __str__(self) -> str:
        """In one sentence."""
        rows = "" if self.rows is None else f"{self.rows:,} rows"
        return f"{self.of}, {self.what}: {', '.join(text for text in (rows, self.note) if text)}."


def until_vacuum() -> str:
    """When the files of older versions go, in which erased records still are."""
    at = datetime.now(UTC) + timedelta(hours=SETTLED_HOURS + RETENTION_HOURS)
    return (
        "Older versions of the tables hold the records until maintenance deletes their files: "
        f"{RETENTION_HOURS:g} hours after the first run that finds them unused, from {at:%Y-%m-%d %H:%M} UTC on if it "
        "runs daily; local copies of the state leave with the same run on their machine. Kafka keeps records by its own "
        "retention."
    )


class Erasure:
    """Erases one key from a topic's log and from the nodes that it feeds."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        nodes: Sequence[Node],
        topic: Topic,
        key: str,
        *,
        clock: Clock | None = None,
    ) -> None:
        """In: nodes  all that there are; key: the text of a one-column STRING key, else a JSON object.

        Raises: TerminalError when the topic has no key, or this is none of it.
        """
        self._spark, self._lake, self._topic = pipeline_session(spark), lake, topic
        self._nodes = nodes_below(topic, resolve_all_references(lake, nodes))
        self._described = {node.required_name for node in with_unnamed(nodes)}
        self._raw = key_bytes(topic, key)
        self._clock = clock or SystemClock()

    def run(
        self,
        patience_seconds: float = PATIENCE_SECONDS,
        *,
        on_stage: Callable[[str], None] = lambda stage: None,
        on_folded: Callable[[int, int | None], object] = lambda done, of: None,
    ) -> Iterator[Erased]:
        """Erase; says of one table after the other what is gone.

        In:     patience_seconds  for a stream's fold of current results to end
                on_folded         called after each increment of a node: how many of how many records are folded aside
        Raises: LeaseTakenError, before anything is changed, while a backfill, rebuild or maintenance runs; later, when
                somebody does not hand a node over. TerminalError when the log has lost commits: one that comes back would
                bring the key back.
        """
        spark, lake, clock = self._spark, self._lake, self._clock
        kept = self._with_kept()
        with nothing_rebuilds(spark, lake, kept, clock, patience_seconds) as backfills:
            require_whole_chain(read_table(spark, lake.log(self._topic.name)), self._topic.name)
            self._require_whole_log()
            for node in self._present():
                self._require_no_older_rows(node)
                Backfill(spark, lake, node).rehearse()
            self._note_pending()
            self._drop_kept(kept)  # they have read the key; they begin again
            yield self._log()
            # Nodes that have begun since may have read the key, too.
            present, elsewhere = self._present(), self._note_pending()
            place = lake.erasing(self._topic.name)
            aside = kept_fold(spark, lake, present, place, lambda node: standing(lake, node) or {})
            self._fold(aside, on_stage, on_folded)
            names = [node.required_name for node in present]
            with handed_over(spark, lake, names, clock, what=WHO):
                known = [node for node in present if settled(spark, lake, node)]
                aside.advance()
                for node in known:
                    on_stage(f"Compares the rows of {node.required_name}.")
                    yield from self._node(node, backfills[node.required_name], aside.standing(node))
            drop_aside(place)
            for node in self._nodes:
                has_followed(lake, self._topic.name, node.required_name)
        for name in elsewhere:
            yield Erased(name, "results", None, "pending: run this with the nodes of its pipeline, too")
        for name in undescribed(self._lake, self._described):
            if small_files.exists(self._lake.description(name)):
                continue  # it follows from the topic's log and is pending, or does not
            yield Erased(
                name, "results", None, "not described here: if it reads the topic, erase the key there too"
            )

    def _fold(
        self,
        aside: FoldedAside,
        on_stage: Callable[[str], None],
        on_folded: Callable[[int, int | None], object],
    ) -> None:
        """Fold the nodes aside, as far as their tables have read."""
        records: dict[str, int] = {}

        def folded(node: Node, done: int) -> None:
            name = node.required_name
            if name not in records:
                records[name] = records_folded(self._lake, name) or 0
                on_stage(f"Folds the log of {name} aside.")
            # Beyond the committed records: the micro-batch that a crash broke off counts as folded, too.
            on_folded(done, max(done, records[name]))

        aside.advance(folded)

    def _present(self) -> list[Node]:
        """The nodes that have tables."""
        return [node for node in self._nodes if lakes.exists(self._lake.table(node.required_name))]

    def _nodes_elsewhere(self) -> list[str]:
        """Those that are not computed anew here; of the nodes given, too, such as follow through one that was not given."""
        below = [node.required_name for node in self._nodes]
        logs = [self._topic.name, *(f"{name}@" for name in below)]
        return sorted(nodes_following(self._lake, logs, below))

    def _note_pending(self) -> list[str]:
        """Note all nodes with rows that follow from the log. Out: those that are not computed anew here."""
        elsewhere = self._nodes_elsewhere()
        here = (node.required_name for node in self._present())
        note_pending(self._lake, self._topic.name, [*here, *elsewhere])
        return elsewhere

    def _with_kept(self) -> list[str]:
        """The nodes to be computed anew, and others beside whose tables lies what was made of the log."""
        below = [f"{name}@" for name in (*names_of(self._nodes), *self._nodes_elsewhere())]
        others = nodes_with_kept(self._lake, [self._topic.name, *below])
        return [*dict.fromkeys([*names_of(self._nodes), *others])]

    def _drop_kept(self, names: Sequence[str]) -> None:
        """Files that hold the key beside the tables: rebuilds, replaced tables, other logs, half written ones."""
        beside = self._lake.log_scratch(self._topic.name)  # of an act that was broken off
        small_files.delete(beside)
        lakes.forget(beside)
        for name in names:
            drop_kept(self._lake, name)
        for node in self._nodes:
            name, current = node.required_name, output_name(node).partition("@")[2]
            for other in small_files.names(f"{self._lake.root}/node_logs/{name}"):
                if other != current:
                    small_files.delete(self._lake.log(f"{name}@{other}"))
                    lakes.forget(self._lake.log(f"{name}@{other}"))

    def _require_whole_log(self) -> None:
        for node in self._nodes:
            if not read_opening(self._lake, node).is_at_the_beginning:
                raise TerminalError(
                    f"Topic '{self._topic.name}': its log was cut, and the opening balance of '{node.required_name}' "
                    "cannot be computed again without the key.",
                    hint="Give the node a new name, so that it is built from the rest of the log, or erase before cutting.",
                )

    def _require_no_older_rows(self, node: Node) -> None:
        """Raises: TerminalError when the table has rows from before the day of `since`, which no fold makes anew."""
        name = node.required_name
        if (
            since_of(node) is not None
            and not read_table(self._spark, self._lake.table(name)).where(~is_made(node)).isEmpty()
        ):
            raise TerminalError(
                f"Topic '{self._topic.name}': '{name}' has rows from before its day of since=, and they cannot be "
                "computed again without the key.",
                hint="Give the node a new name, so that it is built from the log, or erase before since= is given.",
            )

    def _log(self) -> Erased:
        topic, path = self._topic, self._lake.log(self._topic.name)
        theirs = is_of_key(topic, self._raw, SchemaStore(path, topic).known)
        found = read_table(self._spark, path).where(theirs).groupBy("kind").count().collect()
        rows = {row["kind"]: row["count"] for row in found}
        writer = f"log/{topic.name}"
        record = {"writer": f"erasure/{writer}", **lakes.carried(lakes.open_table(path), [writer])}

        def blank(maintainer: lakes.TableWriter) -> None:
            with rewritable(maintainer, record):
                rewrite(self._spark, maintainer, theirs, record, dict(blanked(topic)))

        if rows:  # the upkeep of a stream may come between
            lakes.as_maintainer(lakes.open_table(path), blank, carries=[writer])
        dead = rows.get(DEAD_LETTER, 0)
        return Erased(
            writer, "log", sum(rows.values()), f"blanked where they stand; {dead:,} of them dead letters"
        )

    def _node(self, node: Node, lease: Lease, standing: Standing) -> Iterator[Erased]:
        spark, lake, name = self._spark, self._lake, node.required_name
        done: list[Erased] = []

        def before_swap(differing: DataFrame) -> None:
            """Refused rows go first: should a crash come in between, nobody would know which results had changed."""
            gone, note = (
                differing.where(F.col(ONLY_IN) == TABLE),
                "gone, or computed again without the erased records",
            )
            done.extend([Erased(name, "results", gone.count(), note), *self._refused(node, gone)])

        take_over(lake, name)  # a writer that was paused all the while would bring the key back
        work = Backfill(spark, lake, node, standing=standing)
        work.run(lease=lease, before_swap=before_swap, correct=False)
        results, *refused = done
        yield results
        state = rewrite_state(spark, lake, node, standing)
        note = f"written again: {state.before:,} rows became {state.after:,}"
        yield Erased(name, "state", max(0, state.before - state.after), note)
        if state.unusable:
            yield Erased(name, "unusable records", state.unusable, "gone with their reasons")
        yield from refused
        if rewrite_node_log(lake, node):
            yield Erased(name, "log", None, "the log for other nodes is written again")
        for sink in node.sinks:
            yield Erased(
                name, f"store of {sink.name}", None, "holds what was delivered to it: erase it there"
            )

    def _refused(self, node: Node, gone: DataFrame) -> Iterator[Erased]:
        """Refused rows of the key, and those of results that were removed or have changed; of each sink that ever was."""
        spark, values = self._spark, key_values(self._topic, self._raw)
        identity = operator_for(node).identity
        identities = with_place(node, gone).select(as_json(identity).alias("identity")).distinct()
        for sink, path in refused_tables(self._lake, node.required_name).items():
            before = read_table(spark, path).count()
            concerned = F.col("identity").isin([row["identity"] for row in identities.collect()])
            if values.keys() <= set(node.columns):
                texts = T.StructType([T.StructField(column, T.StringType()) for column in values])
                row = F.from_json("row", texts)
                concerned = concerned | reduce(and_, (row[name] == text for name, text in values.items()))
            maintainer = lakes.TableWriter(lakes.open_table(path), lakes.MAINTAINER)
            rewrite(spark, maintainer, concerned, {"writer": f"erasure/{node.required_name}"})
            after = read_table(spark, path).count()
            yield Erased(node.required_name, f"refused by {sink}", before - after)
