"""The steps of a description, each folded as a node of its own in a temporary lake."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace import lake as lakes
from headrace.description import (
    NamedStream,
    Node,
    is_of_kafka,
    is_unnamed,
    quote,
    written_by,
)
from headrace.description.stream import Branch, Stream
from headrace.description.topology import words_of, words_of_branch
from headrace.errors import DescriptionError
from headrace.fold.fates import DEAD_LETTER, FATES
from headrace.lake.paths import Lake
from headrace.log.promise import write_promise
from headrace.nodes.node_tables import snapshot
from headrace.nodes.operator_frames import operator_of
from headrace.nodes.references import resolve_references
from headrace.observe.newest_records import copy_newest
from headrace.observe.preview import Stage
from headrace.observe.views import Views, fates_of
from headrace.operators.contract import SEQUENCE
from headrace.operators.registry import operator_for
from headrace.settings import Settings
from headrace.spark.jars import spark_jars
from headrace.spark.kafka import KafkaSettings
from headrace.spark.session import build_session, pipeline_session, spark_conf
from headrace.writing.node_runner import NodeRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
    base = spark or build_session(spark_conf(spark_jars(), lake=source.root), "headrace-preview")
    folder = Path(tempfile.mkdtemp(prefix="headrace-preview-"))
    target = Lake(f"file:{folder}")
    try:
        session = pipeline_session(base, interpreted=True)
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
        self._views = Views(spark, lake)
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
        held, progress = snapshot(self._spark, self._lake, node)
        frame, columns = _ordered(node, operator_of(node).read(held, progress))
        rows = [tuple(row) for row in frame.limit(self._rows_max + 1).collect()]
        fates: Counter[str] = Counter()
        for met in fates_of(node, held, progress).values():
            fates.update(met)
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
            found = self._views.dead_letters(read, [node])
            if topic is None:
                found = found.where(F.col("node").isNotNull())
            for row in found.orderBy("partition", "offset").limit(NOTES_MAX).collect():
                yield f"{read.name} partition {row['partition']} offset {row['offset']}: {row['reason']}"


def _ordered(node: Node, frame: DataFrame) -> tuple[DataFrame, tuple[str, ...]]:
    """The rows of a node as people look at them, in their order; and the names of the columns."""
    shown: dict[str, str] = {}
    if node.passes_chains:
        order, shown = (SEQUENCE, *operator_for(node).order), POSITION
    elif operator_of(node).appended and not node.has_windows:  # of which some may be open
        order = (SEQUENCE, *operator_for(node).order)
    else:
        order = node.key
    comparable = [field.name for field in frame.schema if "map<" not in field.dataType.simpleString()]
    by = (F.col(quote(name)) for name in order if name in comparable)
    kept = [F.col(name).alias(label) for label, name in shown.items()]
    kept += [F.col(quote(name)) for name in node.columns]
    return frame.orderBy(*by).select(*kept), (*shown, *node.columns)
