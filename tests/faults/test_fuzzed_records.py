"""Malformed records of a grammar, in formats of each kind, through a real broker: each is in the log once, as the oracles read it, and no stream ends."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

import pytest

from headrace.lake.paths import Lake
from headrace.local.servers.broker import Broker
from tests.faults.fuzz import PARTITIONS, format_of, fuzzed, records
from tests.faults.fuzz_formats import FORMATS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A text, and bytes with lengths in them. `tests/laws/kernel/test_sequence_any_format.py` decides about bytes of each format.
SOME = ["json", "protobuf"]


@pytest.mark.broker
@pytest.mark.parametrize(
    ("forms", "number"),
    [pytest.param(SOME, 300, id="some"), pytest.param([*FORMATS], 1_000, id="all", marks=pytest.mark.long)],
)
def test_whatever_bytes_a_record_holds_it_is_in_the_log_once_as_the_oracle_reads_it(
    spark: SparkSession,
    lake: Lake,
    kafka: Broker,
    new_topic: Callable[[int], str],
    forms: list[str],
    number: int,
) -> None:
    topics = {form: new_topic(PARTITIONS) for form in forms}
    found = fuzzed(spark, lake, kafka.bootstrap_servers, topics, seed=34, number=number)
    assert found.words == []
    assert found.records == number * len(forms)


@pytest.mark.fast
@pytest.mark.parametrize("form", FORMATS)
def test_many_records_of_each_format_can_be_read_and_many_cannot(form: str) -> None:
    made = [record.value for record in records(Random(34), 1_000, form) if record.value is not None]
    dead = sum(isinstance(FORMATS[form].read(value), str) for value in made)
    # Every value is bytes.
    assert dead == 0 if form == "bytes" else 100 < dead < len(made) - 300
    assert {format_of(seed) for seed in range(len(FORMATS))} == {*FORMATS}
