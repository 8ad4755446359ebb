"""What a plan says of a pipeline and a lake: outcomes, reasons and costs. No Spark, and no rows."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import headrace as hr
from headrace import lake as lakes
from headrace.changing import plan_topics
from headrace.changing.plan import NEW, RENAMED, UNCHANGED, ChangePlan
from headrace.changing.plan_changes import plan_changes
from headrace.changing.requirements import ALL, NOTHING, require_emittable
from headrace.cli import app
from headrace.lake import small_files
from headrace.lake.paths import Lake
from headrace.log.history.raw_records import decoded_by
from headrace.nodes.descriptions.evolution import GOES_ON, REBUILT, REFUSED
from headrace.nodes.descriptions.references import resolve_references
from headrace.nodes.progress import Progress
from headrace.sequence.log_state import LogState
from tests.changing.held import hold

if TYPE_CHECKING:
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion


pytestmark = pytest.mark.fast

READINGS = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE")


def pipeline(grace: str = "1 minute", *, topic: hr.Topic = READINGS, **more: Any) -> list[Any]:
    windows = topic.group_by("sensor_id").window(hr.tumbling("2 minutes"), grace=grace)
    finals = windows.aggregate(n=hr.count(), **more).suppress(hr.until_window_closes()).named("finals")
    quiet = finals.where("n < 4").named("quiet")
    totals = topic.group_by("sensor_id").aggregate(n=hr.count()).named("totals")
    return [finals, quiet, totals]


def outcomes(plan: ChangePlan) -> dict[str, str]:
    return {each.node: each.outcome for each in plan.nodes}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(f"file:{tmp_path}")


def test_in_an_empty_lake_all_is_new(lake: Lake) -> None:
    plan = plan_changes(lake, pipeline())
    assert outcomes(plan) == {"finals": NEW, "quiet": NEW, "totals": NEW}
    assert [each.outcome for each in plan.topics] == [NEW]


def test_the_same_pipeline_is_unchanged(lake: Lake) -> None:
    hold(lake, *pipeline())
    plan = plan_changes(lake, pipeline())
    assert outcomes(plan) == {"finals": UNCHANGED, "quiet": UNCHANGED, "totals": UNCHANGED}
    assert [each.outcome for each in plan.topics] == [UNCHANGED]
    assert plan.summary == "Nothing is to be applied."


def test_a_changed_node_is_rebuilt_and_its_readers_follow(lake: Lake, snapshot: SnapshotAssertion) -> None:
    hold(lake, *pipeline(), READINGS.table().named("old"))
    small_files.write_json(lake.rebuild_rate("finals"), {"rows": 100, "seconds": 60})
    plan = plan_changes(lake, pipeline("5 minutes", total=hr.sum("value")))
    assert outcomes(plan) == {"finals": REBUILT, "quiet": REBUILT, "totals": UNCHANGED}
    assert plan.undescribed == ("old",)
    assert str(plan) == snapshot
    assert plan.to_json() == snapshot
    assert json.loads(json.dumps(plan.to_json())) == plan.to_json()


def test_texts_and_bounds_go_on_and_are_named(lake: Lake) -> None:
    finals, _, totals = pipeline()
    hold(lake, finals, totals)
    other = totals.named("totals", description="How many.", owners=("team:data",))
    bound = replace(finals, suppression=hr.until_window_closes(max_records=5, when_full="shut_down"))
    plan = plan_changes(lake, [bound, other])
    assert outcomes(plan) == {"finals": GOES_ON, "totals": GOES_ON}
    assert {each.node: each.remarks for each in plan.nodes} == {
        "finals": (
            "bound: max_bytes None, max_records None, when_full spill"
            " -> max_bytes None, max_records 5, when_full shut_down",
        ),
        "totals": ("text: none -> How many.", "owners: none -> team:data"),
    }


def test_a_suppression_that_goes_or_comes_lets_the_node_go_on_and_its_readers_are_rebuilt(lake: Lake) -> None:
    finals, quiet, _ = pipeline()
    hold(lake, finals, quiet)
    plan = plan_changes(lake, [replace(finals, suppression=None)])
    assert outcomes(plan) == {"finals": GOES_ON}
    plan = plan_changes(lake, [finals.where("n < 5").named("quiet"), finals])
    assert outcomes(plan) == {"finals": UNCHANGED, "quiet": REBUILT}


def test_a_sink_whose_rows_get_another_identity_is_corrected_or_nothing_is_applied(lake: Lake) -> None:
    """PostgreSQL's table has its key over the former identity: it takes no row, and the stream stops. Kafka takes all."""
    finals, _, totals = pipeline()
    table, topic, other = hr.PostgresSink("totals"), hr.KafkaSink("totals"), hr.PostgresSink("finals")
    hold(lake, finals.to(other), totals.to(table).to(topic))
    after = totals.suppress(hr.until_time_limit("1 minute")).to(table).to(topic)
    node = after.to(hr.PostgresSink("new")).named("totals")
    (found,) = plan_changes(lake, [node]).nodes
    assert (found.outcome, found.rekeyed) == (REBUILT, ("postgres-totals",))
    assert "sink postgres-totals: the rows have another identity now" in str(found)
    with pytest.raises(hr.TerminalError, match="another identity now, __sequence, __place") as refused:
        require_emittable(node, NOTHING, found.rekeyed)
    assert refused.value.hint == "Apply with --emit differences: it replaces the key and the rows."
    require_emittable(after.named("totals"), ALL, found.rekeyed)
    (found,) = plan_changes(lake, [pipeline("5 minutes")[0].to(other)]).nodes
    assert (found.outcome, found.rekeyed) == (REBUILT, ())


def test_a_node_is_renamed_unless_limits_stand_under_its_former_name(lake: Lake) -> None:
    totals = pipeline()[2]
    hold(lake, totals)
    renamed = totals.named("sums", renamed_from="totals")
    (found,) = plan_changes(lake, [renamed]).nodes
    assert (found.node, found.outcome, found.renamed_from) == ("sums", RENAMED, "totals")
    changed = READINGS.group_by("value").aggregate(n=hr.count()).named("sums", renamed_from="totals")
    (found,) = plan_changes(lake, [changed]).nodes
    assert (found.outcome, found.renamed_from) == (REBUILT, "totals")
    (found, _) = plan_changes(lake, [renamed, totals]).nodes
    assert (found.outcome, found.reason) == (REFUSED, "'totals' is a node of this pipeline")
    hold(lake, totals, progress=Progress(batch=2, limits=[{"limit_ms": 5}]))
    (found,) = plan_changes(lake, [renamed]).nodes
    assert found.reason == "limits of 'totals' were set in the log, and stand under that name"
    (found,) = plan_changes(Lake(f"{lake.root}/other"), [renamed]).nodes
    assert (found.outcome, found.renamed_from) == (NEW, None)


def test_a_node_that_another_pipeline_writes_is_read_as_the_lake_has_it(lake: Lake) -> None:
    schema = "sensor_id STRING, window_start TIMESTAMP, window_end TIMESTAMP, n BIGINT"
    few = hr.node("finals", schema=schema).where("n < 4").named("few")
    (found,) = plan_changes(lake, [few]).nodes
    assert (found.outcome, found.way_out) == (NEW, "Start the stream of the pipeline that has it.")
    assert found.reason == "Waits for node 'finals', which no pipeline has written into this lake yet"
    hold(lake, pipeline()[0])
    hold(lake, resolve_references(lake, few))
    assert outcomes(plan_changes(lake, [few])) == {"few": UNCHANGED}
    hold(lake, pipeline("5 minutes")[0])
    (found,) = plan_changes(lake, [few]).nodes
    assert (found.outcome, found.changes.follows, found.changes.others) == (REBUILT, ("finals",), ())
    assert [each.name for each in found.reads] == ["finals"]
    (found,) = plan_changes(lake, [hr.node("finals", schema="n INT").named("few")]).nodes
    assert found.outcome == REFUSED
    assert "Node 'finals' has other columns than its reader describes; sensor_id" in found.reason
    assert found.way_out.startswith("Write hr.node('finals', schema=")


def test_what_a_stream_rebuilds_by_itself_is_said(lake: Lake) -> None:
    totals = pipeline()[2]
    hold(lake, totals)
    limited = READINGS.group_by("sensor_id").aggregate(n=hr.count()).suppress(hr.until_time_limit("1 minute"))
    (found,) = plan_changes(lake, [limited.named("totals")]).nodes
    assert (found.outcome, found.at_start) == (REBUILT, True)
    changed = READINGS.group_by("value").aggregate(n=hr.count())
    for policy, at_start in (("rebuild", True), ("refuse", False)):
        (found,) = plan_changes(lake, [changed.named("totals", on_change=policy)]).nodes
        assert (found.outcome, found.at_start) == (REBUILT, at_start)
    with pytest.raises(hr.DescriptionError, match="on_change 'perhaps' does not exist"):
        changed.named("totals", on_change="perhaps")


def test_a_topic_gains_a_field_and_is_refused_another_type(lake: Lake) -> None:
    hold(lake, *pipeline())
    wider = replace(READINGS, value="value DOUBLE, unit STRING")
    plan = plan_changes(lake, pipeline(topic=wider))
    assert [(each.outcome, each.detail) for each in plan.topics] == [
        (GOES_ON, "the value gains unit, null in older records")
    ]
    assert outcomes(plan) == {"finals": UNCHANGED, "quiet": UNCHANGED, "totals": UNCHANGED}
    plan = plan_changes(lake, pipeline(topic=replace(READINGS, value="value INT"), total=hr.sum("value")))
    assert [(each.outcome, each.detail) for each in plan.topics] == [(REFUSED, "value: DOUBLE -> INT")]
    assert outcomes(plan) == {"finals": REFUSED, "quiet": REFUSED, "totals": REFUSED}


def test_a_topic_whose_columns_its_rows_tell_is_written_again(
    lake: Lake, snapshot: SnapshotAssertion
) -> None:
    before = replace(READINGS, value="value FLOAT, unit STRING, at INT")
    hold(lake, *pipeline(topic=before, total=hr.sum("value")))
    now = replace(READINGS, value="value DOUBLE, seconds INT, place STRING", renamed={"seconds": "at"})
    plan = plan_changes(lake, pipeline(topic=now, total=hr.sum("value")))
    assert outcomes(plan) == {"finals": REBUILT, "quiet": REBUILT, "totals": UNCHANGED}
    assert str(plan) == snapshot
    assert plan.topics[0].to_json() == snapshot


def test_a_new_column_with_a_value_in_older_records_needs_the_log_to_be_written_again(tmp_path: Path) -> None:
    before, now = Lake(f"file:{tmp_path}/before"), Lake(f"file:{tmp_path}/now")
    filled = replace(READINGS, value="value DOUBLE, place STRING, floor INT", added={"place": "hall"})
    hold(before, *pipeline())
    plan = plan_changes(before, pipeline(topic=filled))
    assert str(plan.topics[0]) == (
        "topic readings: its log is written again\n"
        "  + place, 'hall' in older records\n"
        "  + floor, null in older records\n"
        "  writes 1,000 rows again (100.0 kB); what was decided about each record stays"
    )
    assert outcomes(plan) == {"finals": UNCHANGED, "quiet": UNCHANGED, "totals": UNCHANGED}, (
        "they do not read it"
    )
    hold(now, *pipeline(topic=filled))
    plan = plan_changes(now, pipeline(topic=filled))
    assert [each.outcome for each in plan.topics] == [UNCHANGED], "the column is there"


def test_a_topic_that_keeps_bytes_is_read_anew_if_all_are_there(
    lake: Lake, snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted = ("Kafka has deleted partition 0 offsets 0 to 6", "Restore the description.")
    monkeypatch.setattr(plan_topics, "why_kafka_lacks", lambda *asked: deleted)
    kept = replace(READINGS, keep_raw=True)
    hold(lake, *pipeline(topic=kept))
    now = replace(kept, value="value DOUBLE, at BIGINT", timestamp="at")
    plans = []
    for batch in (0, 7):
        state = LogState(9, raw={"decoded": decoded_by(kept), "batch": batch})
        log = lakes.TableWriter(lakes.open_table(lake.log("readings")), lakes.APPENDER)
        log.append([], {"writer": "log/readings", "after": state.to_json()})
        assert [each.outcome for each in plan_changes(lake, pipeline(topic=kept)).topics] == [UNCHANGED]
        plans.append(plan_changes(lake, pipeline(topic=now)))
    assert outcomes(plans[0]) == {"finals": REBUILT, "quiet": REBUILT, "totals": REBUILT}
    assert outcomes(plans[1]) == {"finals": REFUSED, "quiet": REFUSED, "totals": REFUSED}
    assert [str(plan) for plan in plans] == snapshot


def test_of_a_lake_without_rules_the_details_are_unknown_and_the_node_is_rebuilt(lake: Lake) -> None:
    totals = pipeline()[2]
    hold(lake, totals)
    small_files.delete(lake.description("totals"))
    changed = READINGS.group_by("value").aggregate(n=hr.count()).named("totals")
    (found,) = plan_changes(lake, [changed]).nodes
    assert (found.outcome, found.details_unknown) == (REBUILT, True)
    assert "changed, details unknown" in str(found)


def test_a_change_that_was_broken_off_is_told(lake: Lake) -> None:
    totals = pipeline()[2]
    hold(lake, totals)
    changed = READINGS.group_by("value").aggregate(n=hr.count()).named("totals")
    entry = {"fingerprint": changed.fingerprint(), "rules": json.loads(json.dumps(changed.rules()))}
    small_files.write_json(lake.description("totals"), entry)
    (found,) = plan_changes(lake, [changed]).nodes
    assert (found.outcome, found.interrupted) == (REBUILT, True)
    assert "was broken off" in str(found)


def test_the_command_prints_the_plan_and_fails_if_something_is_refused(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(lake, *pipeline())
    described = pipeline("5 minutes")
    monkeypatch.setattr("headrace.cli.console.deployment.load_pipeline", lambda module: described)
    done = CliRunner().invoke(app, ["plan", "--lake", lake.root])
    assert (done.exit_code, done.output.strip().splitlines()[-1]) == (
        0,
        "To rebuild finals, quiet: headrace apply.",
    )
    done = CliRunner().invoke(app, ["plan", "--json", "--lake", lake.root])
    assert json.loads(done.output)["nodes"][0]["changes"] == ["grace: 1 minute -> 5 minutes"]
    described = pipeline("5 minutes", topic=replace(READINGS, key="sensor_id INT"))
    assert CliRunner().invoke(app, ["plan", "--lake", lake.root]).exit_code == 1
