"""Batches: each group's records in the log's order, cut by number, by size, by elapsed time or on a beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.description.clocks import WallWait
from headrace.description.durations import exact_ms, format_duration
from headrace.description.emitting import Emitting
from headrace.description.feeds import Feed
from headrace.description.fingerprint import rules_of
from headrace.description.grouping import group_column, grouping_columns
from headrace.description.schema import COMPUTED, ResultColumn, quote, refuse_repeats, refuse_reserved
from headrace.description.wording import a_value
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.description.stream import Stream

COUNT, BYTES, WAIT, BEAT, DRAIN = "count", "bytes", "wait", "beat", "drain"  # what closes a batch
_BATCH_COLUMNS = ("batch_id", "events", "records", "opened_at", "closed_at", "closed_by")


@dataclass(frozen=True)
class Batches(Emitting):
    """Puts each group's records into batches, each delivered whole.

    Out: columns `by`, `batch_id`, `events` (array of struct of the collected columns), `records`, `opened_at`,
         `closed_at`, `closed_by` (`count`, `bytes`, `wait`, `beat`, `drain`); one row per batch, written when it closes.
    Law: a function of the log alone. A batch opens at the `ingested_at` of its first record and takes its group's records
         in the log's order. It closes with its `max_records`-th record; before the record that would take it beyond
         `max_bytes`, or with the one that fills it; or `max_wait_ms` after it was opened, whatever came since. A record at
         that very moment opens the next batch. In place of `max_wait_ms`, with `every_ms` it closes at the next multiple
         of `every_ms` since 1970, so the batches of all groups close together. With neither, a group that falls silent
         waits for a drain.
         With several topics the order is by `ingested_at`, then topic, partition and offset; a drain recorded in the log of
         one of them closes all batches that are open, behind the records of its `ingested_at`.
    """

    stream: Stream
    by: tuple[str, ...]
    collect: tuple[str, ...]
    max_records: int | None = None
    max_wait_ms: int | None = None
    max_bytes: int | None = None
    every_ms: int | None = None

    def __post_init__(self) -> None:
        _check_sizes(self.max_records, self.max_bytes)
        _check_times(self.max_wait_ms, self.every_ms)
        if (self.max_records, self.max_bytes, self.max_wait_ms, self.every_ms) == (None,) * 4:
            raise DescriptionError(
                "batch: no limit, so that no batch would ever close.",
                hint="Write for example .batch(max_records=100, max_wait='10 seconds', collect=[…]).",
            )
        by = grouping_columns(self.stream, self.by)
        _check_names(by)
        object.__setattr__(self, "by", by)
        object.__setattr__(self, "collect", _collected(self.stream, self.collect))
        super().__post_init__()

    @property
    def feed(self) -> Feed:
        """The rows of its stream; of their columns the group and what is collected."""
        return Feed(self.stream, read=(*self.by, *self.collect))

    def column_sources(self) -> Mapping[str, Sequence[tuple[Stream, str]]]:
        """Those of the group."""
        return {name: [(self.stream, name)] for name in self.by}

    time_column = "closed_at"  # it has waited for the wall clock, not for stream time

    key = ("batch_id",)  # `batch_id`: made of the first record's position and of the group

    @property
    def result_columns(self) -> tuple[ResultColumn, ...]:
        """The group columns, then those of a batch."""
        shape = self.stream.shape
        return (
            *(group_column(shape, name) for name in self.by),
            ResultColumn("batch_id", "STRING", "Position of the first record, and the group: the same in every run."),
            ResultColumn("events", self._events_type(), "The collected columns of its records, in the log's order."),
            ResultColumn("records", "BIGINT", "Number of records."),
            ResultColumn("opened_at", "TIMESTAMP", "When its first record was ingested."),
            ResultColumn("closed_at", "TIMESTAMP", "Its deadline, or when the record or drain that closed it was ingested."),
            ResultColumn("closed_by", "STRING", "What closed it: count, bytes, wait, beat or drain."),
        )  # fmt: skip

    day_column = "opened_at"  # the column of the day in which a batch was opened

    @property
    def longest_wall_wait_ms(self) -> int:
        """How long a batch may be open: `max_wait_ms`, or `every_ms`."""
        return self.max_wait_ms or self.every_ms or 0

    @property
    def wall_waits(self) -> tuple[WallWait, ...]:
        """For `max_wait_ms` after its first record, or for the next beat."""
        return super().wall_waits if self.every_ms is None else (WallWait(self.every_ms, self.every_ms),)

    @property
    def in_words(self) -> str:
        """One sentence for people."""
        limits = [f"{self.max_records:,} records"] if self.max_records else []
        limits += [f"{self.max_bytes:,} bytes"] if self.max_bytes else []
        limits += [f"{format_duration(self.max_wait_ms)} after its first record"] if self.max_wait_ms else []
        limits += [f"each full {format_duration(self.every_ms)}"] if self.every_ms else []
        return f"One row per {', '.join(self.by)} and batch; a batch closes at {' or '.join(limits)}."

    def rules(self) -> dict[str, Any]:
        """Stream, groups, collected columns and limits."""
        return rules_of(self.stream, (*self.by, *self.collect)) | {
            "by": self.by,
            "collect": self.collect,
            "max_records": self.max_records,
            "max_wait_ms": self.max_wait_ms,
            "max_bytes": self.max_bytes,
            "every_ms": self.every_ms,
        }

    def _events_type(self) -> str:
        known = [(name, self.stream.shape.type_of(name)) for name in self.collect]
        if not all(column for _, column in known):
            return COMPUTED
        fields = ", ".join(f"{quote(name)}: {column.type}" for name, column in known if column)
        return f"ARRAY<STRUCT<{fields}>>"


def _check_sizes(max_records: object, max_bytes: object) -> None:
    for name, limit in (("max_records", max_records), ("max_bytes", max_bytes)):
        if limit is not None and not (type(limit) is int and limit > 0):
            raise DescriptionError(
                f"batch: {name} {a_value(limit)} is not a positive whole number.",
                hint=f"Write for example .batch({name}=100, …), or leave it out.",
            )


def _check_times(max_wait_ms: object, every_ms: object) -> None:
    for name, wait_ms in (("max_wait", max_wait_ms), ("every", every_ms)):
        if wait_ms is not None and (type(wait_ms) is not int or exact_ms(wait_ms, name) == 0):
            raise DescriptionError(
                f"batch: {name} {a_value(wait_ms)} leaves no time for a second record.",
                hint=f"Write for example .batch({name}='10 seconds', …), or leave it out.",
            )
    if max_wait_ms is not None and every_ms is not None:
        raise DescriptionError(
            "batch: max_wait and every are both a deadline; a batch has one.",
            hint="Leave out max_wait, to close all open batches together, or every, to count from the first record.",
        )


def _check_names(by: tuple[str, ...]) -> None:
    for name in by:
        if name.lower() in _BATCH_COLUMNS:
            raise DescriptionError(
                f"group_by: '{name}' is also the name of an output column of batches.",
                hint=f"Rename it first: .with_column('its_{name}', '{name}').",
            )


def _collected(stream: Stream, collect: object) -> tuple[str, ...]:
    if isinstance(collect, str) or not isinstance(collect, Sequence):
        raise DescriptionError(
            f"batch: collect {a_value(collect)} is not a list of columns.",
            hint="Write .batch(collect=['visitor_id', 'action'], …).",
        )
    if not collect:
        raise DescriptionError(
            "batch: collect names no column, so that events would be empty.",
            hint="Write .batch(collect=['visitor_id', 'action'], …).",
        )
    names = tuple(stream.shape.resolve(name, "batch: collect") for name in collect)
    refuse_repeats(names, "batch: collect")
    refuse_reserved(names, "batch: collect")
    return names
