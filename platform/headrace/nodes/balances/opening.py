"""Opening balances: where a node stood at the cut of a log.

Rows of a log before its cut are gone.

Law: the opening balance is the node's own fold of the rows that are cut, from the balance before. So what the rest of
the log leads to from there is what the whole log would have led to (L8: folding I·J is folding I, then J), and rows that
were final at the cut are those of the result table, which nothing revises.

The balance is a folder with a state table, beside a file that names the folder and holds the progress; that file is written
last, so a balance is there whole or not at all. While a node is swapped that is rebuilt from its balance, the file names
the balance of the description before, too: each description reads its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace import lake as lakes
from headrace.description import is_unnamed, written_by
from headrace.engine.compact_runs import Packing
from headrace.engine.compact_tables import compact_state
from headrace.engine.state_files import StateSource
from headrace.engine.state_layout import SHARED
from headrace.errors import TerminalError
from headrace.fold.fates import NOT_RECORDS
from headrace.lake import NewFile, kinds, small_files
from headrace.lake.commits.snapshot import stats_json
from headrace.nodes.balances.cuts import holds_since
from headrace.nodes.balances.older_rows import since_of
from headrace.nodes.bound_operator import bound
from headrace.nodes.progress import Progress
from headrace.nodes.standing.state_commits import last_state_commit
from headrace.spark.lake_rows import rows_of_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake

STATE = "state"
BEFORE = "before"  # the balance of the description before, while a node is swapped


@dataclass(frozen=True)
class Opening:
    """A node as of the cuts of its logs; before any cut it has folded nothing and holds nothing."""

    progress: Progress = field(default_factory=Progress)
    source: StateSource | None = None

    @property
    def is_at_the_beginning(self) -> bool:
        """Whether no log of the node was ever cut."""
        return not self.progress.upto_ms

    def records(self, topic: str) -> dict[int, int]:
        """For each partition the records that were counted before the cut."""
        partitions = self.progress.records.get(topic, {})
        return {
            int(number): sum(records for fate, records in fates.items() if fate not in NOT_RECORDS)
            for number, fates in partitions.items()
        }

    def upto_ms(self, topic: str) -> int:
        """The commit time through which rows of a topic are in the balance."""
        return self.progress.upto_ms.get(topic, 0)

    def state(self, spark: SparkSession, node: Node) -> DataFrame | None:
        """The rows of its state table; None: there are none."""
        return None if self.source is None else _rows(spark, node, self.source)


def read_opening(lake: Lake, node: Node) -> Opening:
    """The opening balance of a node.

    Raises: TerminalError when it was written by another description of the node.
    """
    name = node.required_name
    found = small_files.read_json(lake.opening(name))
    if found is None:
        return Opening()
    entry = next((each for each in entries_of(found) if each["fingerprint"] == node.fingerprint()), None)
    if entry is None:
        raise TerminalError(
            f"Node '{name}': its opening balance was written by another description of it.",
            hint="Restore the description: the rows that the balance stands for are no longer in the log.",
        )
    table = lakes.open_table(f"{lake.openings(name)}/{entry['folder']}/{STATE}")
    return Opening(Progress.from_json(entry["progress"]), StateSource.committed(table))


def entries_of(opening: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The balances that a file holds: that of the node, and during a swap that of the description before."""
    return [opening, *([opening[BEFORE]] if BEFORE in opening else [])]


def balance_by(lake: Lake, name: str, fingerprint: str | None) -> Mapping[str, Any] | None:
    """The balance of a node that the description with a fingerprint struck; else the one that is there, if there is one."""
    found = small_files.read_json(lake.opening(name))
    entries = [] if found is None else entries_of(found)
    return next((each for each in entries if each["fingerprint"] == fingerprint), found)


def cut_logs(lake: Lake, node: Node) -> list[str]:
    """The topics whose cut logs keep a node from being folded anew under another description; none: it can be.

    Law: what was cut off is in balances of the description before. A node that began after a cut has folded the rest of the
    log, and folds the same again; of a topic that it, or a step without a name, has not read yet the cut rows are missing. A
    node with `since=` needs no record from before that day; of its stream time only what the rest of the log has.
    """
    name, cut, since = node.required_name, cut_topics(lake), since_of(node)
    if since is not None:
        cut = {topic for topic in cut if not holds_since(lake, topic, since)}
    commit = last_state_commit(lake, name)
    stored = small_files.read_json(lake.description(name))
    if stored is not None and stored["rules"].get("since") is not None:
        return [topic for topic in dict.fromkeys(_folded_from(lake, node)) if topic in cut]
    if small_files.read_json(lake.opening(name)) is not None or commit is None:
        known: set[str] = set()
    else:
        known = {*commit.record.get("progress", {}).get("upto_ms", {})}
    return [topic for topic in dict.fromkeys(_folded_from(lake, node)) if topic in cut - known]


def cut_topics(lake: Lake) -> set[str]:
    """The topics whose older rows were cut off, each known by its note."""
    return {name.removesuffix(".json") for name in small_files.names(f"{lake.root}/cuts")}


def _folded_from(lake: Lake, node: Node) -> Iterator[str]:
    """The logs from which a node is folded; of a step without a name that has no balance, those of the step."""
    for topic in node.topics:
        step = written_by(topic)
        if step is None or not is_unnamed(step.required_name):
            yield topic.name
        elif small_files.read_json(lake.opening(step.required_name)) is None:
            yield from _folded_from(lake, step)


def write_opening(
    spark: SparkSession, lake: Lake, node: Node, source: StateSource, progress: Progress
) -> None:
    """Make where a node stands its opening balance; the one before goes. In: source  the state as of the progress."""
    name, of = node.required_name, bound(spark, node)
    folder = uuid.uuid4().hex  # never one used before: Spark remembers what it has read by path
    uri = f"{lake.openings(name)}/{folder}/{STATE}"
    table = lakes.create(uri, of.state_schema, kinds.state(tuple(SHARED.names)))
    writer = f"opening/{name}"
    copied = copy_state(source, uri)
    lakes.TableWriter(table, lakes.APPENDER).append(copied, {"writer": writer})
    maintainer = lakes.TableWriter(table, lakes.MAINTAINER, carries=[writer])
    compact_state(table, maintainer, of.operator.layout, progress.clock, [writer], Packing(whole=True))
    entry = opening_entry(node, folder, progress)
    small_files.write_json(lake.opening(name), entry)
    forget_openings_but(lake, name, folder)


def opening_entry(node: Node, folder: str, progress: Progress) -> dict[str, Any]:
    """The content of the file of a balance."""
    return {"folder": folder, "fingerprint": node.fingerprint(), "progress": progress.to_json()}


def forget_openings_but(lake: Lake, name: str, folder: str) -> None:
    """Delete the tables of all balances of a node but one."""
    for other in small_files.names(lake.openings(name)):
        if other != folder:
            small_files.delete(f"{lake.openings(name)}/{other}")


def drop_opening(lake: Lake, name: str) -> None:
    """Forget a node's opening balance."""
    small_files.delete(lake.opening(name))
    small_files.delete(lake.openings(name))


def copy_state(source: StateSource, uri: str) -> list[NewFile]:
    """Copy the files of a state into the folder of another table, under the same names; no commit names them yet."""
    for name in source.files:
        small_files.copy(f"{source.uri}/{name}", f"{uri}/{name}")
    return [
        NewFile(name, file.size, stats_json(file, SHARED.names, {})) for name, file in source.files.items()
    ]


def _rows(spark: SparkSession, node: Node, source: StateSource) -> DataFrame:
    return rows_of_files(spark, source.uri, source.files, bound(spark, node).state)
