"""Nodes that are folded from their logs wholly aside from their tables, while streams write these.

Law: what is folded aside is what a fold of the logs as they are now gives. A node that reads another one of these reads what
that one gives aside, and nothing of what its tables have told.

The fold is that of streams (see `NodeRunner`), in increments that a task can hold. A fold that was killed goes on after its
last increment if it is still the same one: the same release, descriptions and opening balances, and no log was changed
before its end (see `past_of`). A note beside its folder says which fold it is of. The note is written while there is no
folder, and goes before anything in it does, so it never names a part of a fold. Exactly one fold may be open at a place: the
caller holds a lease, or nobody else knows the place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from headrace import lake as lakes
from headrace.engine.state_files import StateSource
from headrace.engine.state_layout import SHARED
from headrace.errors import TransientError
from headrace.lake import kinds, small_files
from headrace.lake.care.alter import past_of
from headrace.nodes.balances.opening import Opening, copy_state
from headrace.nodes.bound_operator import bound
from headrace.nodes.descriptions.topics import is_read
from headrace.nodes.operator_frames import operator_of
from headrace.nodes.standing.state_commits import last_state_commit, state_record, writings_read
from headrace.nodes.unusable_table import UnusableTable
from headrace.spark.lake_rows import rows_of_files
from headrace.writing.node_runner import NodeRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node
    from headrace.engine.steps.unusable import Unusable
    from headrace.lake.paths import Lake
    from headrace.nodes.progress import Progress

NOTE = "fold.json"
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
        place: str,
        upto_ms: Callable[[Node], Marks],
        opening: Opening | None = None,
        *,
        resumes: bool = True,
    ) -> None:
        """Go on where a fold of the same stopped at this place; else begin anew, and what lies there goes.

        In: nodes    upstream first; all that read another of these, and all of these that are read
            upto_ms  how far a node is folded; asked before each increment
            opening  of a node that is alone: where its fold begins. It is folded that far even if a log has lost commits
            resumes  False: nobody goes on with it
        """
        self._spark, self._outside, self._nodes, self._place = spark, lake, nodes, place
        self._upto_ms, self._opening = upto_ms, opening
        if not resumes:
            self._open(uuid4().hex)
            return
        note = small_files.read_json(f"{place}/{NOTE}")
        is_known = note is not None and note["of"] == self._identity()
        self._open(note["folder"] if is_known else self._begun())
        if is_known and any(self._is_beyond(node) for node in nodes):
            self._open(self._begun())

    def _identity(self) -> dict[str, Any]:
        """What tells a fold from others, as JSON has it."""
        names = {node.required_name for node in self._nodes}
        logs = {topic.name for node in self._nodes for topic in node.topics}
        own = {name for name in logs if "@" in name and name.partition("@")[0] in names}
        source = None if self._opening is None else self._opening.source
        logs_read = {name: lakes.open_table(self._outside.log(name)) for name in sorted(logs - own)}
        for log in logs_read.values():  # what is folded already is not read again
            if log.version >= 0:
                lakes.require_own_rows(log)
        return {
            "release": version("headrace"),
            "nodes": {node.required_name: node.fingerprint() for node in self._nodes},
            "opening": "" if source is None else source.uri,
            "logs": {name: past_of(log) for name, log in logs_read.items()},
        }

    def _begun(self) -> str:
        """Begin anew, in a folder that was never used before: Spark remembers by path what it has read."""
        self.remove()
        folder = uuid4().hex
        small_files.write_json(f"{self._place}/{NOTE}", {"of": self._identity(), "folder": folder})
        return folder

    def _open(self, folder: str) -> None:
        names = frozenset(node.required_name for node in self._nodes)
        self.lake = replace(self._outside, nodes=f"{self._place}/{folder}", aside=names)
        self._runners = {node.required_name: self._runner(node) for node in self._nodes}

    def _runner(self, node: Node) -> NodeRunner:
        """It delivers nothing, and stops where the node is to be folded."""
        if self._opening is not None:
            self._begin_from(node, self._opening)
        alone = replace(node, sinks=())
        return NodeRunner(
            self._spark,
            alone,
            self.lake,
            is_read=is_read(node, self._nodes),
            bounds=partial(self._bounds, node),
            exact=self._opening is not None,
        )

    def _begin_from(self, node: Node, opening: Opening) -> None:
        """Let a node begin with its opening balance, unless it has begun."""
        uri = self.lake.state(node.required_name)
        if opening.is_at_the_beginning or last_state_commit(self.lake, node.required_name) is not None:
            return
        copied = [] if opening.source is None else copy_state(opening.source, uri)
        table = lakes.create(uri, bound(self._spark, node).state_schema, kinds.state(tuple(SHARED.names)))
        record = state_record(node, opening.progress, writings_read(self._outside, node))
        lakes.TableWriter(table, lakes.APPENDER).append(copied, record)

    def _bounds(self, node: Node) -> Marks:
        upto_ms = self._upto_ms(node)
        begun_ms = {} if self._opening is None else self._opening.progress.upto_ms
        return {t.name: max(upto_ms.get(t.name, 0), begun_ms.get(t.name, 0)) for t in node.topics}

    def _is_beyond(self, node: Node) -> bool:
        """Whether it was folded further than its tables go: they have gone back since."""
        bounds, now_ms = self._bounds(node), self._runners[node.required_name].progress.upto_ms
        return any(now_ms.get(name, 0) > ms for name, ms in bounds.items())

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
        name, of, operator = node.required_name, bound(self._spark, node), operator_of(node)
        bounds, now_ms = self._bounds(node), self._runners[name].progress.upto_ms
        if any(now_ms.get(topic, 0) != ms for topic, ms in bounds.items()):
            raise TransientError(
                f"Node '{name}' was folded aside through {dict(now_ms)}, and its tables stand at {dict(bounds)}.",
                hint="A log that it reads is not settled so far. Run it again: it does what is missing.",
            )
        folded = self.folded(node)
        state = rows_of_files(self._spark, folded.source.uri, folded.source.files, of.state)
        if operator.appended:
            results = rows_of_files(self._spark, folded.results_uri, folded.results, of.results)
        else:
            results = operator.current_of(state)
        return Standing(results, state, folded.source, folded.progress, folded.unusable, release)

    def remove(self) -> None:
        """Delete all of it."""
        drop_aside(self._place)


def stand(
    spark: SparkSession,
    lake: Lake,
    node: Node,
    upto_ms: Marks,
    opening: Opening,
    *,
    resumes: bool = False,
    on_folded: Callable[[int], object] = lambda records: None,
) -> Standing:
    """Fold the logs of a node from the opening balance through a frontier.

    In: resumes    the caller holds the lease of the node's backfills: the fold goes on where one stopped that was killed,
                   and what is folded stays for the next one if this one breaks off
        on_folded  called with the records that are folded so far
    """
    place = _kept(lake, node.required_name) if resumes else _private(lake, node)
    try:
        aside = FoldedAside(spark, lake, [node], place, lambda _: upto_ms, opening, resumes=resumes)
        aside.advance(lambda _, records: on_folded(records))
        return aside.standing(node, release=aside.remove)
    except BaseException:
        if not resumes:
            drop_aside(place)
        raise


@contextmanager
def folded_logs(
    spark: SparkSession, lake: Lake, node: Node, upto_ms: Marks, opening: Opening, place: str | None = None
) -> Iterator[FoldedLogs]:
    """The files of the same fold while entered. In: place  that nobody else knows; None: in the lake."""
    place = place or _private(lake, node)
    try:
        aside = FoldedAside(spark, lake, [node], place, lambda _: upto_ms, opening, resumes=False)
        aside.advance()
        yield aside.folded(node)
    finally:
        drop_aside(place)


def drop_aside(place: str) -> None:
    """Delete a fold; the note that names it goes first."""
    small_files.delete(f"{place}/{NOTE}")
    small_files.delete(place)
    lakes.forget(place)


def drop_scratch(lake: Lake, name: str) -> None:
    """Delete what folds of a node have left that died or broke off. The caller holds the lease of its backfills."""
    drop_aside(_kept(lake, name))
    drop_aside(lake.scratch(name))


def _kept(lake: Lake, name: str) -> str:
    return f"{lake.scratch(name)}/backfill"


def _private(lake: Lake, node: Node) -> str:
    return f"{lake.scratch(node.required_name)}/{uuid4().hex}"
