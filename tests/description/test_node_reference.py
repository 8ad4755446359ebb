"""Nodes of other pipelines by their names: what can be said of them, and what a lake has to hold."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.description import (
    NodeReference,
    OtherNodeError,
    is_of_kafka,
    is_unnamed,
    output_of,
    references_of,
    with_references,
    with_unnamed,
    written_by,
)
from tests.description.refusal import refused
from tests.scenarios.chained import COUNTS, ENRICHED, READINGS, SENSORS, SITES

pytestmark = pytest.mark.fast

SCHEMA = "n BIGINT, sensor STRING, window_start TIMESTAMP, window_end TIMESTAMP"
BY_NAME = hr.node("counts", schema=SCHEMA)


def found(reference: NodeReference) -> NodeReference:
    return reference.resolved(COUNTS.fingerprint(), output_of(COUNTS))


def test_what_cannot_be_is_refused() -> None:
    with refused("node: kind 'both' does not exist; kinds are stream, table"):
        hr.node("counts", schema=SCHEMA, kind="both")  # type: ignore[call-overload]
    with refused("'Counts' is not a name in lower-case letters"):
        hr.node("Counts", schema=SCHEMA)
    with refused("Node 'counts': key column 'site' is not in its schema", "Its columns are n, sensor"):
        hr.node("counts", schema=SCHEMA, key=["site"])
    with refused("Node 'counts': a table has a key", "key=['…']"):
        hr.node("counts", schema=SCHEMA, kind="table")


def test_once_found_it_is_the_topic_that_a_reader_in_the_same_pipeline_has() -> None:
    (own,) = COUNTS.as_stream().topics
    there = found(BY_NAME)
    assert (there.name, there.key_columns, there.value_columns) == (
        own.name,
        own.key_columns,
        own.value_columns,
    )
    assert there.has_one_partition
    assert [is_of_kafka(topic) for topic in (BY_NAME, there, own, READINGS)] == [False, False, False, True]


def test_a_reader_that_says_something_else_of_the_columns_is_told_what_there_is() -> None:
    wrong = hr.node("counts", schema="sensor STRING, n INT, window_start TIMESTAMP, what STRING")
    with pytest.raises(OtherNodeError) as refusal:
        found(wrong)
    told = str(refusal.value)
    assert "Node 'counts' has other columns than its reader describes." in told
    assert "n: BIGINT, described as INT" in told
    assert "window_end: TIMESTAMP, described as not a column" in told
    assert "what: not a column, described as STRING" in told
    assert 'schema="sensor STRING, window_start TIMESTAMP' in told
    keyed = hr.node("counts", schema=SCHEMA, key=["sensor"])
    with pytest.raises(OtherNodeError, match=r"has the key sensor, window_start, and not sensor\."):
        found(keyed)


def test_rows_that_are_revised_have_no_log_to_be_read() -> None:
    assert "Its rows are revised" in output_of(SITES)["refusal"]
    assert "Its rows are revised" in output_of(READINGS.table().named("latest"))["refusal"]
    with pytest.raises(OtherNodeError, match="cannot be read by its name"):
        BY_NAME.resolved(SITES.fingerprint(), output_of(SITES))
    assert output_of(ENRICHED).keys() == {"key", "value", "changes", "behind_ms"}


def test_the_changes_of_a_table_are_a_table_to_whoever_reads_them_by_name() -> None:
    moves = SENSORS.table().changes().named("moves")
    table = hr.node("moves", schema="sensor STRING, site STRING", key=["sensor"], kind="table")
    asked = READINGS.lookup(table, on="sensor").named("asked")
    own = READINGS.lookup(moves.as_stream().table(), on="sensor").named("asked")
    there = with_references(asked, lambda each: each.resolved(moves.fingerprint(), output_of(moves)))
    assert there.revised_at_commit_end == own.revised_at_commit_end == (f"moves@{moves.fingerprint()[:12]}",)
    assert there.result_columns == own.result_columns


def test_references_are_found_wherever_they_stand_in_a_description() -> None:
    rare = BY_NAME.where("n < 4").group_by("sensor").batch(max_records=2, collect=["n"])
    alerts = rare.where("records > 1").named("alerts")
    latest = hr.node("counts", schema=SCHEMA, key=["sensor", "window_start"], kind="table")
    joined = latest.join(READINGS.table(), on="sensor")
    for described in (alerts, joined.named("joined")):
        (reference,) = references_of(described)
        assert reference.generation == ""
        there = with_references(described, found)
        assert [each.name for each in references_of(there)] == [found(BY_NAME).name]
        assert there.fingerprint() != described.fingerprint()
        assert there.columns == described.columns
    step, _ = with_unnamed([with_references(alerts, found)])
    assert is_unnamed(step.required_name)
    assert step.required_name == f"unnamed_{step.fingerprint()[:12]}"  # as if it had been described so
    (output,) = with_references(alerts, found).topics
    assert written_by(output) == step


def test_a_description_without_references_stays_what_it_is() -> None:
    assert with_references(SITES, found) is SITES


def test_a_description_names_the_node_as_another_pipelines() -> None:
    assert "node counts of another pipeline" in str(hr.describe(BY_NAME.where("n < 4").named("alerts")))
