"""The steps of a description, each folded as a node of its own in a temporary lake."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace import lake as lakes
from headrace.description import (
    NamedStream,
    Node,
    is_of_kafka,
    is_unnamed,
    written_by,
)
from headrace.description.stream import Branch, Stream
from headrace.description.topology import words_of, words_of_branch
from headrace.errors import DescriptionError
from headrace.fold.fates import DEAD_LETTER, FATES
from headrace.lake.paths import Lake
from headrace.log.decisions.promise import write_promise
from headrace.nodes.descriptions.references import resolve_references
from headrace.observe.local_views import LocalViews
from headrace.observe.previews.newest_records import copy_newest
from headrace.observe.previews.preview import Stage
from headrace.operators.contract import SEQUENCE
from headrace.operators.registry import operator_for
from headrace.settings import Settings
from headrace.spark.jars import spark_jars
from headrace.spark.kafka import KafkaSettings
from headrace.spark.on_demand import SparkOnDemand
from headrace.spark.session import build_session, pipeline_session, spark_conf
from headrace.writing.node_runner import NodeRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Topic

NOTES_MAX = 5
POSITION = {"partition": "__partition", "offset": "__offset"}


def stages_of(
    node: Node,
    records: int,
    lake: Lake | str | None,
    kafka: KafkaSettings | None,
    spark: SparkSession | None,
) -> list[Stage]:
    """The steps of a node with their rows. In: see `preview`."""
    root = Settings().lake if lake is None else lake
    source = Lake(root) if isinstance(root, str) else root
    session = SparkOnDemand.session(lambda: _session(spark, source))
    folder = Path(tempfile.mkdtemp(prefix="headrace-preview-"))
    target = Lake(f"file:{folder}")
    try:
        node = resolve_references(source, node)
        topics = [*dict.fromkeys(_topics_below(node))]
        copied = [
            copy_newest(session, each, records, source, target, kafka or KafkaSettings()) for each in topics
        ]
        for topic in topics:  # so that what reads several in one order reads all that is there
            write_promise(target.log(topic.name), max(copied))
        return [*_Stages(session, target, records).of(node)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lakes.forget(target.root)


def _session(spark: SparkSession | None, source: Lake) -> SparkSession:
    base = spark or build_session(spark_conf(spark_jars(), lake=source.root), "headrace-preview")
    return pipeline_session(base, interpreted=True)


def _topics_below(node: Node) -> Iterator[Topic]:
    """The topics of Kafka, and the nodes of other pipelines, from which a node's rows follow."""
    for topic in node.topics:
        writer = written_by(topic)
        if writer is None:
            yield topic
        else:
            yield from _topics_below(writer)


class _Stages:
    """Folds step after step in one lake."""

    def __init__(self, spark: SparkSession, lake: Lake, rows_max: int) -> None:
        self._spark, self._lake, self._rows_max = spark, lake, rows_max
        self._views = LocalViews(spark, lake)
        self._shown: set[str] = set()

    def of(self, node: Node) -> Iterator[Stage]:
        """The steps of a node, and last its result."""
        for each in node.inputs:
            yield from self._of_stream(each) if isinstance(each, Stream) else self.of(each)
        if node.as_stream_of is None:
            yield from self._result(node, words_of(node))

    def _of_stream(self, stream: Stream) -> Iterator[Stage]:
        for branch in stream.branches:
            writer = written_by(branch.topic)
            if writer is not None:
                yield from self.of(writer)
                self._fold(replace(writer, sinks=()), is_read=True)
            begins = 0 if writer is None else 1
            for number in range(begins, len(branch.steps) + 1):
                part = Branch(branch.topic, branch.steps[:number])
                columns = part.shape.columns
                if columns is None:
                    raise DescriptionError(
                        f"preview: {words_of_branch(part)} leaves the columns unknown.",
                        hint="Declare them: .transform(function, columns='…').",
                    )
                rows = NamedStream(Stream((part,), columns))
                yield from self._result(rows, words_of_branch(part), branch.topic if number == 0 else None)

    def _result(self, node: Node, title: str, topic: Topic | None = None) -> Iterator[Stage]:
        """The rows of one step, unless they were shown before. In: topic  whose records the rows are, before any step."""
        fingerprint = node.fingerprint()
        if fingerprint in self._shown:
            return
        self._shown.add(fingerprint)
        if node.name is not None and not is_unnamed(node.name):
            title = f"{node.name}: {title}"
        node = replace(node, name=f"step_{len(self._shown)}", sinks=())
        self._fold(node)
        table, columns = _ordered(node, self._views.stored(node).table)
        rows = [tuple(row.values()) for row in table.slice(0, self._rows_max + 1).to_pylist()]
        fates: Counter[str] = Counter()
        for row in self._views.ledger(node).to_pylist():
            fates[row["fate"]] += row["records"]
        yield Stage(
            title,
            columns,
            tuple(rows[: self._rows_max]),
            len(rows) > self._rows_max,
            tuple((fate, fates[fate]) for fate in FATES if fates[fate]),
            tuple(self._unusable(node, topic)) if fates[DEAD_LETTER] else (),
        )

    def _fold(self, node: Node, *, is_read: bool = False) -> None:
        runner = NodeRunner(self._spark, node, self._lake, is_read=is_read)
        while runner.advance():
            pass

    def _unusable(self, node: Node, topic: Topic | None) -> Iterator[str]:
        """Why records cannot be used, some of them: by the topic itself, or by the step."""
        for read in node.topics if topic is None else [topic]:
            if not is_of_kafka(read):
                continue
            letters = self._views.dead_letters(read, [node])
            some = [row for row in letters if topic is not None or row["node"] is not None]
            for row in sorted(some, key=lambda each: (each["partition"], each["offset"]))[:NOTES_MAX]:
                yield f"{read.name} partition {row['partition']} offset {row['offset']}: {row['reason']}"


def _ordered(node: Node, table: pa.Table) -> tuple[pa.Table, tuple[str, ...]]:
    """The rows of a node as people look at them, in their order; and the names of the columns."""
    shown: dict[str, str] = {}
    if node.passes_chains:
        order, shown = (SEQUENCE, *operator_for(node).order), POSITION
    elif node.has_days and not node.has_windows:  # of which some may be open
        order = (SEQUENCE, *operator_for(node).order)
    else:
        order = node.key
    plain = [field.name for field in table.schema if not pa.types.is_nested(field.type)]
    by = [(name, "ascending") for name in order if name in plain]
    rows = table.sort_by(by) if by else table
    columns = (*shown, *node.columns)
    return rows.select([*shown.values(), *node.columns]).rename_columns([*columns]), columns
