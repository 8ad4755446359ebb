"""Dead letters, and records of other fates, grouped by reason, with examples."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.description import is_unnamed
from headrace.fold.fates import FATES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, Row

    Record = Row | Mapping[str, Any]

NUMBER = "(?<![A-Za-z0-9])(?<![A-Za-z]-)[0-9]+"  # not that of "UTF-8"
NO_REASON = "by the description"  # of records that a step filters, tombstones, and those that are used
TEXT_MAX = 120  # bytes of a key or a value that are shown


@dataclass(frozen=True)
class Example:
    """Holds one record. `key` and `value` are written as people read them; None: there is none."""

    topic: str
    partition: int
    offset: int
    ingested_at: dt.datetime
    reason: str
    key: str | None
    value: str | None

    @property
    def place(self) -> str:
        """Where it is; rows that a node gave have one partition, and the node's name before the `@`."""
        node, at, _ = self.topic.partition("@")
        if at:
            return f"row {self.offset} of {name_of(node)}"
        return f"partition {self.partition}, offset {self.offset}"


@dataclass(frozen=True)
class DeadLetters:
    """Holds the records of one reason, in which numbers are written as `#`.

    node      the node that cannot use them; None: they are dead for every node
    examples  the newest
    """

    reason: str
    node: str | None
    records: int
    first_at: dt.datetime
    last_at: dt.datetime
    examples: Sequence[Example]

    def __str__(self) -> str:
        """A line for the reason, and two for each example, which tell its own reason only if it is another text."""
        who = None if self.node is None else name_of(self.node)
        whose = "" if who is None else f" (for {who} alone)"
        since = f"{self.first_at:%Y-%m-%d %H:%M:%S} to {self.last_at:%Y-%m-%d %H:%M:%S}"
        lines = [f"{self.records:,} × {self.reason}{whose}", f"  {since} UTC"]
        for each in self.examples:
            lines.append(f"  {each.place}" + ("" if each.reason == self.reason else f": {each.reason}"))
            lines.append(f"    key {each.key}, value {each.value}")
        return "\n".join(lines)


def name_of(node: str) -> str:
    """A node as people know it."""
    return "a step without a name" if is_unnamed(node) else node


def by_reason(dead: DataFrame, examples: int) -> list[DeadLetters]:
    """Group records by their fates, if these are told, and their reasons; the reason with most records comes first.

    In: dead  as `Views.dead_letters`, `Views.records` and `records_behind` give them
    """
    dead = dead.withColumn("reason", F.coalesce("reason", F.lit(NO_REASON)))
    alike = dead.withColumn("alike", F.regexp_replace("reason", NUMBER, "#"))
    group = [name for name in ("fate", "alike", "node") if name in alike.columns]
    newest = Window.partitionBy(*group).orderBy(F.desc("ingested_at"), "partition", F.desc("offset"))
    whole = Window.partitionBy(*group)
    found = (
        alike.withColumn("place", F.row_number().over(newest))
        .withColumn("records", F.count("*").over(whole))
        .withColumn("first_at", F.min("ingested_at").over(whole))
        .where(F.col("place") <= max(examples, 1))
        .withColumn("key", F.substring("key", 1, TEXT_MAX + 1))
        .withColumn("value", F.substring("value", 1, TEXT_MAX + 1))
        .collect()
    )
    groups: dict[tuple[str | None, ...], list[Row]] = {}
    for row in sorted(found, key=lambda row: row["place"]):
        groups.setdefault(tuple(row[name] for name in group), []).append(row)

    def order(rows: Sequence[Row]) -> tuple[Any, ...]:
        newest = rows[0]
        fate = FATES.index(newest["fate"]) if "fate" in group else 0
        return fate, -newest["records"], newest["alike"], newest["node"] or ""

    ordered = sorted(groups.values(), key=order)
    return [group_of(rows[0]["alike"], rows[0]["node"], rows, examples) for rows in ordered]


def group_of(reason: str, node: str | None, rows: Sequence[Record], examples: int) -> DeadLetters:
    """The records of one reason. In: rows  the newest first, with `records` and `first_at` of all of them."""
    newest = rows[0]
    return DeadLetters(
        reason,
        node,
        newest["records"],
        _utc(newest["first_at"]),
        _utc(newest["ingested_at"]),
        tuple(_examples(rows[:examples])),
    )


def _examples(rows: Sequence[Record]) -> Iterator[Example]:
    for row in rows:
        yield Example(
            row["topic"],
            row["partition"],
            row["offset"],
            _utc(row["ingested_at"]),
            row["reason"],
            shown(row["key"]),
            shown(row["value"]),
        )


def shown(content: bytes | None) -> str | None:
    """Write bytes as people read them: text in quotes, other bytes as hexadecimal numbers, long ones cut short."""
    if content is None:
        return None
    cut = bytes(content[:TEXT_MAX])
    more = "…" if len(content) > TEXT_MAX else ""
    text = cut.decode("utf-8", errors="replace").rstrip("\ufffd" if more else "")
    if text.isprintable() and "\ufffd" not in text:
        return f"{text!r}{more}"
    return f"0x{cut.hex()}{more}"


def _utc(moment: dt.datetime) -> dt.datetime:
    """A moment as the session's rows have it, in the machine's zone, in UTC."""
    return moment.astimezone(dt.UTC)
