"""A description run over the newest records of its topics, with the rows after each of its steps.

Each step is folded as a node of its own, by the operators of a stream, in a temporary lake. The lake of the log is read.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.description import Node
from headrace.description.row_operators import RowOperators
from headrace.description.wording import a_value
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Stream, Topic
    from headrace.lake.paths import Lake
    from headrace.spark.kafka import KafkaSettings

CELL_MAX = 40  # letters of a value that are shown


@dataclass(frozen=True)
class Stage:
    """Holds one step of a description, and its rows.

    title    what the step does
    columns  of its rows; of a stream the partition and the offset of each record first
    rows     in their order: of a stream the log's, of a table that of its key
    more     True if there are more rows than these
    fates    how many records met which fate, as in the ledger
    notes    what else a person should know: records that the topic or the step cannot use, and why
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool
    fates: tuple[tuple[str, int], ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The title, the rows as a table, and what became of the records."""
        cells = [self.columns, *(tuple(map(_cell, row)) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in cells
        ]
        lines.insert(1, "  ".join("─" * width for width in widths))
        fates = ", ".join(f"{number} {fate.replace('_', ' ')}" for fate, number in self.fates)
        end = [*(["…"] if self.more else []), *([] if self.rows else ["no rows"])]
        told = [f"records: {fates}"] if fates else []
        return "\n".join([self.title, *(f"  {line.rstrip()}" for line in (*lines, *end, *told, *self.notes))])


@dataclass(frozen=True)
class Preview:
    """Holds the steps of a description with their rows, from its topics to its result; its text is a table for each step."""

    stages: tuple[Stage, ...]

    def __str__(self) -> str:
        """See the class."""
        return "\n\n".join(map(str, self.stages))

    __repr__ = __str__


def preview(
    stream: Stream | Topic | Node,
    records: int = 20,
    *,
    lake: Lake | str | None = None,
    kafka: KafkaSettings | None = None,
    spark: SparkSession | None = None,
) -> Preview:
    """Run a description over the newest records of its topics, and show the rows after each step; nothing is written.

    A topic without a log is read from Kafka. Windows and tables lack older records.

    In:     records  of each topic's log (of Kafka: of each partition); no more rows of a step are shown
            lake     with the logs of the topics; None: HEADRACE_LAKE
            kafka    None: as the environment says
            spark    None: a local session, which starts for steps that the expressions do not cover
    Raises: DescriptionError when `stream` is no description, or a transform leaves its columns unknown;
            TerminalError when a topic has no log and cannot be read from Kafka
    """
    from headrace.observe.previews.preview_stages import stages_of

    if isinstance(records, bool) or not isinstance(records, int) or records < 1:
        raise DescriptionError(f"preview: records {a_value(records)} is not a number from 1.")
    if not isinstance(stream, Node | RowOperators):
        raise DescriptionError(
            f"preview: {a_value(stream)} is no topic, stream or table.",
            hint="Pass a description, such as readings.where('value > 0'); after .group_by(…) add .aggregate(…).",
        )
    node = stream if isinstance(stream, Node) else stream.named("preview")
    return Preview(tuple(stages_of(node, records, lake, kafka, spark)))


def _cell(value: object) -> str:
    if isinstance(value, dt.datetime):
        value = value.replace(tzinfo=None)  # all times are UTC
    text = "" if value is None else value.hex() if isinstance(value, bytes | bytearray) else str(value)
    text = " ".join(text.split())
    return text if len(text) <= CELL_MAX else f"{text[: CELL_MAX - 1]}…"
