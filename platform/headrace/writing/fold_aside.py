"""Nodes that are folded from their logs wholly aside from their tables, while streams write these.

Law: what is folded aside is what a fold of the logs as they are now gives. A node that reads another one of these reads what
that one gives aside, and nothing of what its tables have told.

The fold is that of streams (see `NodeRunner`), in increments that a task can hold. A fold that was killed goes on after its
last increment if it is still the same one: the same code, descriptions and opening balances, and no log was changed
before its end (see `past_of`). A note beside its folder says which fold it is of. The note is written while there is no
folder, and goes before anything in it does, so it never names a part of a fold. Exactly one fold may be open at a place: the
caller holds a lease, or nobody else knows the place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from headrace import lake as lakes
from headrace.description import quote
from headrace.engine.state_files import StateSource
from headrace.engine.state_layout import SHARED
from headrace.errors import TransientError
from headrace.lake import kinds, small_files
from headrace.lake.care.alter import past_of
from headrace.nodes.balances.opening import Opening, copy_state, read_opening
from headrace.nodes.bound_operator import bound
from headrace.nodes.descriptions.topics import is_read
from headrace.nodes.rows.current_results import current_in_state
from headrace.nodes.standing.next_increment import next_towards
from headrace.nodes.standing.state_commits import last_state_commit, state_record, writings_read
from headrace.nodes.unusable_table import UnusableTable
from headrace.spark.lake_rows import rows_of_files
from headrace.writing.code_digest import code_digest
from headrace.writing.node_runner import NodeRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node
    from headrace.engine.steps.unusable import Unusable
    from headrace.lake.paths import Lake
    from headrace.nodes.progress import Progress

NOTE, KEPT = "fold.json", "backfill"
Marks = Mapping[str, int]  # commit times in ms, by topic


@dataclass(frozen=True)
class FoldedLogs:
    """The files to which logs lead.

    results_uri  the folder of appended results; results: their files
    source       the state
    unusable     the records since the opening that the node cannot use
    """

    results_uri: str
    results: Sequence[str]
    source: StateSource
    progress: Progress
    unusable: Sequence[Unusable]


@dataclass(frozen=True)
class Standing:
    """The result of folding logs.

    results   appended results: those since the opening; current results: all, as the base has them
    state     rows of the state, which is in the files of `source`
    unusable  the records since the opening that the node cannot use
    release   deletes the files; call it after all has been read
    """

    results: DataFrame
    state: DataFrame
    source: StateSource
    progress: Progress
    unusable: Sequence[Unusable]
    release: Callable[[], object]


class FoldedAside:
    """Nodes in one folder of their own."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        nodes: Sequence[Node],
        folder: str,
        upto_ms: Callable[[Node], Marks],
        opening: Opening | None = None,
    ) -> None:
        """Open the tables in the folder, and go on where they stand.

        In: nodes    upstream first; all that read another of these, and all of these that are read
            upto_ms  how far a node is folded; asked before each increment
            opening  of a node that is alone: where its fold begins. It is folded that far even if a log has lost commits
        """
        self._spark, self._nodes, self._upto_ms, self._opening = spark, nodes, upto_ms, opening
        names = frozenset(node.required_name for node in nodes)
        self.lake = replace(lake, nodes=folder, aside=names)
        self._runners = {node.required_name: self._runner(node) for node in nodes}

    def _runner(self, node: Node) -> NodeRunner:
        """It delivers nothing, and stops where the node is to be folded."""
        if self._opening is not None:
            self._begin_from(node, self._opening)
        runner = NodeRunner if self._opening is None else _ExactRunner
        return runner(
            self._spark,
            replace(node, sinks=()),
            self.lake,
            is_read=is_read(node, self._nodes),
            bounds=partial(self._bounds, node),
        )

    def _begin_from(self, node: Node, opening: Opening) -> None:
        """Let a node begin with its opening balance, unless it has begun."""
        uri = self.lake.state(node.required_name)
        if opening.is_at_the_beginning or last_state_commit(self.lake, node.required_name) is not None:
            return
        copied = [] if opening.source is None else copy_state(opening.source, uri)
        table = lakes.create(uri, bound(self._spark, node).state_schema, kinds.state(tuple(SHARED.names)))
        record = state_record(node, opening.progress, writings_read(self.lake, node))
        lakes.TableWriter(table, lakes.APPENDER).append(copied, record)

    def _bounds(self, node: Node) -> Marks:
        upto_ms = self._upto_ms(node)
        begun_ms = {} if self._opening is None else self._opening.progress.upto_ms
        return {t.name: max(upto_ms.get(t.name, 0), begun_ms.get(t.name, 0)) for t in node.topics}

    @property
    def is_beyond(self) -> bool:
        """Whether a node was folded further than it is to be: its tables have gone back since."""
        return any(
            self._runners[node.required_name].progress.upto_ms.get(name, 0) > ms
            for node in self._nodes
            for name, ms in self._bounds(node).items()
        )

    def advance(self, on_folded: Callable[[Node, int], object] = lambda node, records: None) -> None:
        """Fold what is left, in bounded increments, each node before those that read it.

        In: on_folded  called before a node is folded and after each increment: how many of its records are
        """
        for node in self._nodes:
            runner = self._runners[node.required_name]
            on_folded(node, runner.progress.all_records)
            while runner.advance_packed():
                on_folded(node, runner.progress.all_records)

    def folded(self, node: Node) -> FoldedLogs:
        """The files to which the logs of a node lead."""
        name = node.required_name
        results = lakes.open_table(self.lake.table(name))
        source = StateSource.committed(lakes.open_table(self.lake.state(name)))
        unusable = UnusableTable(self._spark, self.lake, node).read()
        files = [*results.snapshot().files]
        return FoldedLogs(results.uri, files, source, self._runners[name].progress, unusable)

    def standing(self, node: Node, release: Callable[[], object] = lambda: None) -> Standing:
        """The rows and the state to which they lead.

        Raises: TransientError when the node was not folded so far
        """
        name, of = node.required_name, bound(self._spark, node)
        bounds, now_ms = self._bounds(node), self._runners[name].progress.upto_ms
        if any(now_ms.get(topic, 0) != ms for topic, ms in bounds.items()):
            raise TransientError(
                f"Node '{name}' was folded aside through {dict(now_ms)}, and its tables stand at {dict(bounds)}.",
                hint="A log that it reads is not settled so far. Run it again: it does what is missing.",
            )
        folded = self.folded(node)
        state = rows_of_files(self._spark, folded.source.uri, folded.source.files, of.state)
        if node.has_days:
            results = rows_of_files(self._spark, folded.results_uri, folded.results, of.results)
        else:
            results = current_in_state(state).select(*map(quote, of.results.names))
        return Standing(results, state, folded.source, folded.progress, folded.unusable, release)


class _ExactRunner(NodeRunner):
    """Reads as far as its bounds, also beyond the end of a log that has lost commits."""

    def _following(self, done_ms: Marks) -> Marks | None:
        return next_towards(self._lake, self.node, done_ms, self._bounds())


def kept_fold(
    spark: SparkSession,
    lake: Lake,
    nodes: Sequence[Node],
    place: str,
    upto_ms: Callable[[Node], Marks],
    opening: Opening | None = None,
) -> FoldedAside:
    """Go on where a fold of the same stopped at this place; else begin anew, and what lies there goes.

    In: see `FoldedAside`
    """
    of, note = _identity(lake, nodes, opening), small_files.read_json(f"{place}/{NOTE}")
    if note is not None and note["of"] == of:
        aside = FoldedAside(spark, lake, nodes, f"{place}/{note['folder']}", upto_ms, opening)
        if not aside.is_beyond:
            return aside
    drop_aside(place)
    folder = uuid4().hex  # never one used before: Spark remembers by path what it has read
    small_files.write_json(f"{place}/{NOTE}", {"of": of, "folder": folder})
    return FoldedAside(spark, lake, nodes, f"{place}/{folder}", upto_ms, opening)


def _identity(lake: Lake, nodes: Sequence[Node], opening: Opening | None) -> dict[str, Any]:
    """All by which a fold differs from others, as JSON has it."""
    names = {node.required_name for node in nodes}
    topics = {topic.name for node in nodes for topic in node.topics}
    outside = sorted(name for name in topics if "@" not in name or name.partition("@")[0] not in names)
    logs = {name: lakes.open_table(lake.log(name)) for name in outside}
    for log in logs.values():  # what is folded already is not read again
        if log.version >= 0:
            lakes.require_own_rows(log)
    source = None if opening is None else opening.source
    return {
        "code": code_digest(),
        "nodes": {node.required_name: node.fingerprint() for node in nodes},
        "opening": "" if source is None else source.uri,
        "logs": {name: past_of(log) for name, log in logs.items()},
    }


def stand(
    spark: SparkSession,
    lake: Lake,
    node: Node,
    upto_ms: Marks,
    *,
    resumes: bool = False,
    on_folded: Callable[[int], object] = lambda records: None,
) -> Standing:
    """Fold the logs of a node from its opening balance through a frontier.

    In: resumes    the caller holds the lease of the node's backfills: the fold goes on where one stopped that was killed,
                   and what is folded stays for the next one if this one breaks off
        on_folded  called with the records that are folded so far
    """
    place = _kept(lake, node) if resumes else _private(lake, node)
    fold: Callable[..., FoldedAside] = kept_fold if resumes else FoldedAside
    try:
        aside = fold(spark, lake, [node], place, lambda _: upto_ms, read_opening(lake, node))
        aside.advance(lambda _, records: on_folded(records))
        return aside.standing(node, release=partial(drop_aside, place))
    except BaseException:
        if not resumes:
            drop_aside(place)
        raise


@contextmanager
def folded_logs(
    spark: SparkSession, lake: Lake, node: Node, upto_ms: Marks, opening: Opening, folder: str | None = None
) -> Iterator[FoldedLogs]:
    """The files of the same fold while entered. In: folder  that nobody else knows; None: in the lake."""
    folder = folder or _private(lake, node)
    try:
        aside = FoldedAside(spark, lake, [node], folder, lambda _: upto_ms, opening)
        aside.advance()
        yield aside.folded(node)
    finally:
        drop_aside(folder)


def drop_aside(place: str) -> None:
    """Delete a fold; the note that names it goes first."""
    small_files.delete(f"{place}/{NOTE}")
    small_files.delete(place)
    lakes.forget(place)


def logs_of_scratch(lake: Lake, name: str) -> list[str] | None:
    """The logs that a fold of a node has read which goes on after its last increment; None: there is none."""
    note = small_files.read_json(f"{lake.scratch(name)}/{KEPT}/{NOTE}")
    return None if note is None else [*note["of"]["logs"]]


def drop_scratch(lake: Lake, name: str) -> None:
    """Delete what folds of a node have left that died or broke off. The caller holds the lease of its backfills."""
    drop_aside(f"{lake.scratch(name)}/{KEPT}")
    drop_aside(lake.scratch(name))


def _kept(lake: Lake, node: Node) -> str:
    return f"{lake.scratch(node.required_name)}/{KEPT}"


def _private(lake: Lake, node: Node) -> str:
    return f"{lake.scratch(node.required_name)}/{uuid4().hex}"
