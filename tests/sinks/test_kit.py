"""The conformance kit: a sink that keeps the protocol passes, and each way of breaking it is found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from headrace.errors import TransientError
from headrace.sinks import Delivery, Sink
from headrace.sinks.refusals import record_refusals
from headrace.testing import SinkKit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Row = dict[str, Any]


@dataclass
class MemorySink:
    """The smallest sink that keeps the protocol; `broken` names a rule that it forgets."""

    broken: str = ""
    rows: dict[str, tuple[tuple[int, bytes], Row | None]] = field(default_factory=dict)
    away: bool = False
    name: str = "memory"

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        """Newest wins; what is deleted is remembered as a row without content."""
        if self.away and self.broken != "outage":
            raise TransientError("The store is away.")
        refusals = []
        for number, row in enumerate(rows.collect()):
            at = (row["__sequence"], bytes(row["__place"]))
            if row["text"] == "refuse me" and self.broken != "refusal":
                refusals.append((at[0], row["__ordinal"], "it asked for it"))
                continue
            key = repr(
                [row[column] for column in (delivery.key if self.broken == "key" else delivery.identity)]
            )
            if self.broken == "repeat":
                key = f"{key}{number}{len(self.rows)}"
            known = self.rows.get(key)
            if known is None or known[0] <= at or self.broken == "order":
                self.rows[key] = (at, None if row["__deleted"] else row.asDict())
                if row["__deleted"] and self.broken == "deletion":
                    del self.rows[key]
        if self.broken != "unreported":
            record_refusals(rows, delivery, refusals, "the store")

    def correct(self, rows: DataFrame, delivery: Delivery, through: int) -> None:
        """What is not newer gives way."""
        for row in rows.collect():
            key = repr([row[column] for column in delivery.identity])
            at, _ = known = self.rows.get(key, ((0, b""), None))
            new = (row["__sequence"], bytes(row["__place"]))
            wins = at <= new if self.broken == "correction" else at[0] <= through
            if wins or self.broken == "newer":
                self.rows[key] = (new, None if row["__deleted"] else row.asDict())
            else:
                self.rows[key] = known

    def held(self) -> list[Row]:
        """What it holds."""
        return [row for _, row in self.rows.values() if row is not None]

    @contextmanager
    def out(self) -> Iterator[None]:
        """Out of reach for a while."""
        self.away = True
        yield
        self.away = False


def kit_of(spark: SparkSession, sink: MemorySink) -> SinkKit:
    return SinkKit(spark, sink, sink.held, refused=lambda: "refuse me", away=sink.out)


def test_a_sink_that_keeps_the_protocol_passes_every_claim(spark: SparkSession) -> None:
    sink = MemorySink()
    assert isinstance(sink, Sink)
    assert len(kit_of(spark, sink).run()) == 15


@pytest.mark.parametrize(
    ("broken", "claim"),
    [
        ("repeat", "a_second_delivery_changes_nothing"),
        ("order", "an_old_micro_batch_again_changes_nothing"),
        ("order", "micro_batches_in_another_order_lead_to_the_same"),
        ("deletion", "a_deleted_row_is_gone_and_stays_gone"),
        ("deletion", "micro_batches_in_another_order_lead_to_the_same"),
        ("order", "of_several_rows_of_an_identity_the_newest_stays"),
        ("correction", "a_correction_replaces_a_row_that_looks_newer"),
        ("correction", "a_correction_brings_back_what_was_deleted_wrongly"),
        ("newer", "a_correction_leaves_what_is_newer_than_it"),
        ("refusal", "a_refused_row_is_kept_with_its_reason_and_stops_no_other"),
        ("outage", "an_outage_delays_and_loses_nothing"),
    ],
)
def test_each_way_of_breaking_it_is_found(broken: str, claim: str, spark: SparkSession) -> None:
    sink = MemorySink(broken)
    kit = kit_of(spark, sink)
    with pytest.raises(AssertionError, match=claim):
        kit.check(claim)


def test_a_sink_that_keeps_one_row_of_each_key_loses_rows_that_are_only_appended(spark: SparkSession) -> None:
    sink = MemorySink()
    assert len(SinkKit(spark, sink, sink.held, appended=True).run()) == 6
    broken = MemorySink("key")
    with pytest.raises(AssertionError, match="rows_of_one_key_stay_apart"):
        SinkKit(spark, broken, broken.held, appended=True).check("rows_of_one_key_stay_apart")


def test_a_claim_that_cannot_be_tried_is_named(spark: SparkSession) -> None:
    kit = SinkKit(spark, MemorySink(), list)
    assert "an_outage_delays_and_loses_nothing" not in kit.claims
    with pytest.raises(ValueError, match="an_outage"):
        kit.check("an_outage_delays_and_loses_nothing")
