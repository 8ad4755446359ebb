"""Erasure: what a topic's log says under one key goes, and every table that is made of it becomes what is left.

Law: afterwards the log is as it would be had the key's records said nothing (see `headrace.log.erasure`), and the
tables of each node are those that such a log leads to: live equals backfill, and the books balance. Tables are
computed anew from the log, whatever they are grouped by, so aggregates to which other keys contribute count the
erased records no more.

Nothing may write meanwhile: the leases of the log, of its nodes and of their backfills are held throughout. The order
survives a crash: whatever is done already is found done when the erasure is run again, and the rest is done then.
  1. each node completes the micro-batch that a crash had interrupted, and folds what it has not folded; Spark is asked
     whether it can compare its rows;
     nodes of other pipelines that follow from the log are noted: for them the erasure is pending (see `pending_erasures`);
  2. the log's rows are blanked in one commit;
  3. for each node: refused rows of the key and of results that differ go, these results are swapped, then its state and what
     it remembers of unusable records are written anew.
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
from headrace.lake.alter import rewritable
from headrace.lake.vacuum import SETTLED_HOURS
from headrace.lifecycle.anew import settled, write_state_anew
from headrace.lifecycle.backfill import Backfill
from headrace.lifecycle.following import nodes_following
from headrace.lifecycle.former import drop_former
from headrace.lifecycle.maintenance import RETENTION_HOURS
from headrace.lifecycle.pending_erasures import has_followed, note_pending
from headrace.lifecycle.takeover import take_over
from headrace.log.clock import SystemClock
from headrace.log.erasure import blanked, is_of_key, key_bytes, key_values
from headrace.log.schema_store import SchemaStore
from headrace.nodes.node_tables import undescribed
from headrace.nodes.opening import read_opening
from headrace.nodes.references import all_found_in
from headrace.nodes.topics import nodes_below
from headrace.sequence.log_columns import DEAD_LETTER
from headrace.spark.json_rows import as_json
from headrace.spark.lake_rows import read, rewrite
from headrace.spark.session import pipeline_session
from headrace.writing.lease_waits import nothing_writes
from headrace.writing.node_log import tell_anew

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node, Topic
    from headrace.lake.paths import Lake
    from headrace.log.clock import Clock
    from headrace.writing.lease import Lease


@dataclass(frozen=True)
class Erased:
    """What was done to one table.

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
        "runs daily. Kafka keeps them by its own retention."
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
        self._nodes = nodes_below(topic, all_found_in(lake, nodes))
        self._described = {node.required_name for node in with_unnamed(nodes)}
        self._raw = key_bytes(topic, key)
        self._clock = clock or SystemClock()

    def run(self) -> Iterator[Erased]:
        """Erase; says of one table after the other what is gone.

        Raises: LeaseHeldError, before anything is changed, while a stream, backfill, rebuild or maintenance runs.
        """
        with nothing_writes(self._spark, self._lake, self._topic, self._nodes, self._clock) as backfills:
            self._require_whole_log()
            present = [node for node in self._nodes if settled(self._spark, self._lake, node)]
            for node in present:
                Backfill(self._spark, self._lake, node).rehearse()
            elsewhere = self._nodes_elsewhere()
            note_pending(self._lake, self._topic.name, elsewhere)
            self._drop_rebuilds()  # they have read the key; they begin again
            yield self._log()
            for node in present:
                yield from self._node(node, backfills[node.required_name])
            for node in self._nodes:
                has_followed(self._lake, self._topic.name, node.required_name)
        for name in elsewhere:
            yield Erased(name, "results", None, "pending: run this with the nodes of its pipeline, too")
        for name in undescribed(self._spark, self._lake, self._described):
            if small_files.exists(self._lake.description(name)):
                continue  # it follows from the topic's log and is pending, or does not
            yield Erased(
                name, "results", None, "not described here: if it reads the topic, erase the key there too"
            )

    def _nodes_elsewhere(self) -> list[str]:
        """Those that are not computed anew here; of the nodes given, too, such as follow through one that was not given."""
        below = [node.required_name for node in self._nodes]
        logs = [self._topic.name, *(f"{name}@" for name in below)]
        return sorted(nodes_following(self._lake, logs, below))

    def _drop_rebuilds(self) -> None:
        """Files beside the tables that hold the key: rebuilds, replaced tables, and logs of other descriptions."""
        for node in self._nodes:
            name, current = node.required_name, output_name(node).partition("@")[2]
            drop_former(self._lake, name)
            for other in small_files.names(f"{self._lake.root}/node_logs/{name}"):
                if other != current:
                    small_files.delete(self._lake.log(f"{name}@{other}"))
                    lakes.forget(self._lake.log(f"{name}@{other}"))
            folder = self._lake.rebuilds(node.required_name)
            small_files.delete(folder)
            lakes.forget(folder)
            small_files.delete(self._lake.beside(node.required_name))  # what a backfill that died has left

    def _require_whole_log(self) -> None:
        for node in self._nodes:
            if not read_opening(self._spark, self._lake, node).is_at_the_beginning:
                raise TerminalError(
                    f"Topic '{self._topic.name}': its log was cut, and the opening balance of '{node.required_name}' "
                    "cannot be computed anew without the key.",
                    hint="Give the node a new name, so that it is built from the rest of the log, or erase before cutting.",
                )

    def _log(self) -> Erased:
        topic, path = self._topic, self._lake.log(self._topic.name)
        theirs = is_of_key(topic, self._raw, SchemaStore(path, topic).known)
        found = read(self._spark, path).where(theirs).groupBy("kind").count().collect()
        rows = {row["kind"]: row["count"] for row in found}
        writer = f"log/{topic.name}"
        record = {"writer": f"erasure/{writer}", **lakes.carried(lakes.open_table(path), [writer])}
        if rows:
            maintainer = lakes.TableWriter(lakes.open_table(path), lakes.MAINTAINER, carries=[writer])
            with rewritable(maintainer, record):
                rewrite(self._spark, maintainer, theirs, record, dict(blanked(topic)))
        dead = rows.get(DEAD_LETTER, 0)
        return Erased(
            writer, "log", sum(rows.values()), f"blanked where they stand; {dead:,} of them dead letters"
        )

    def _node(self, node: Node, lease: Lease) -> Iterator[Erased]:
        spark, lake, name = self._spark, self._lake, node.required_name
        done: list[Erased] = []

        def before_swap(differing: DataFrame) -> None:
            """Refused rows go first: should a crash come in between, nobody would know which results had changed."""
            gone, note = (
                differing.where("__side = 'table'"),
                "gone, or computed anew without the erased records",
            )
            done.extend([Erased(name, "results", gone.count(), note), *self._refused(node, gone)])

        take_over(lake, name)  # a writer that was paused all the while would bring the key back
        Backfill(spark, lake, node).run(lease=lease, before_swap=before_swap, correct=False)
        results, *refused = done
        yield results
        state = write_state_anew(spark, lake, node)
        note = f"written anew: {state.before:,} rows became {state.after:,}"
        yield Erased(name, "state", max(0, state.before - state.after), note)
        if state.unusable:
            yield Erased(name, "unusable records", state.unusable, "gone with their reasons")
        yield from refused
        if tell_anew(spark, lake, node):
            yield Erased(name, "log", None, "what other nodes read of it is written anew")
        for sink in node.sinks:
            yield Erased(
                name, f"store of {sink.name}", None, "holds what was delivered to it: erase it there"
            )

    def _refused(self, node: Node, gone: DataFrame) -> Iterator[Erased]:
        """Refused rows of the key, and those of results that were removed or have changed."""
        spark, values = self._spark, key_values(self._topic, self._raw)
        identities = gone.select(as_json(node.identity).alias("identity")).distinct()
        for sink in node.sinks:
            path = self._lake.refused(node.required_name, sink.name)
            if not lakes.exists(path):
                continue
            before = read(spark, path).count()
            concerned = F.col("identity").isin([row["identity"] for row in identities.collect()])
            if values.keys() <= set(node.columns):
                texts = T.StructType([T.StructField(column, T.StringType()) for column in values])
                row = F.from_json("row", texts)
                concerned = concerned | reduce(and_, (row[name] == text for name, text in values.items()))
            maintainer = lakes.TableWriter(lakes.open_table(path), lakes.MAINTAINER)
            rewrite(spark, maintainer, concerned, {"writer": f"erasure/{node.required_name}"})
            after = read(spark, path).count()
            yield Erased(node.required_name, f"refused by {sink.name}", before - after)
