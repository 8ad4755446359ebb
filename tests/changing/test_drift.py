"""Fields that no column takes: `headrace plan` names them, counts them, and writes the line that takes them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import headrace as hr
from headrace.changing.drift import untaken_fields
from headrace.changing.plan_changes import plan_changes
from headrace.cli import app
from headrace.description.formats.registry import RegisteredSchema
from headrace.lake import small_files
from headrace.lake.paths import Lake
from headrace.log.schema_store import SchemaStore
from headrace.nodes.descriptions.evolution import GOES_ON
from tests.conftest import Drive

pytestmark = pytest.mark.fast
orders = hr.Topic("orders", key="id STRING", value="id STRING, amount DOUBLE", format=hr.Json(unknown="rest"))
totals = orders.group_by("id").aggregate(n=hr.count()).named("totals")
VALUES = [
    {"id": "a", "amount": 1.0},
    {"id": "a", "amount": 1.0, "coupon": "X", "weight": 3},
    {"id": "a", "amount": 1.0, "coupon": None, "weight": 2.5, "to": {"city": "B", "no 1": [1, 2]}},
    {"id": "a", "amount": 1.0, "coupon": "Y", "odd": 1, "big": 2**70},
    {"id": "a", "amount": 1.0, "odd": "text", "ok": True, "none": []},
]


def test_fields_that_json_kept_are_proposed_with_their_counts_and_types(drive: Drive) -> None:
    driver = drive(totals)
    for value in VALUES:
        driver.pipe("orders", key="a", value=value)
    driver.pipe("orders", key="a", value=b"{no JSON")
    driver.cut()
    found = {
        each.name: (each.type, each.records, each.among)
        for each in untaken_fields(Lake(driver.lake.root), orders)
    }
    assert [*found][:2] == ["coupon", "odd"]
    assert found == {
        "coupon": ("STRING", 3, 5),
        "odd": ("STRING", 2, 5),
        "weight": ("DOUBLE", 2, 5),
        "big": ("DECIMAL(38,0)", 1, 5),
        "none": ("ARRAY<STRING>", 1, 5),
        "ok": ("BOOLEAN", 1, 5),
        "to": ("STRUCT<city: STRING, `no 1`: ARRAY<BIGINT>>", 1, 5),
    }


def test_the_line_is_a_description_and_takes_the_field(drive: Drive) -> None:
    driver = drive(totals)
    for value in VALUES:
        driver.pipe("orders", key="a", value=value)
    driver.cut()
    for each in untaken_fields(Lake(driver.lake.root), orders):
        declared = json.loads(each.line.removeprefix("value="))
        grown = hr.Topic("orders", key="id STRING", value=declared, format=hr.Json(unknown="rest"))
        assert each.name in {column.name for column in grown.value_columns}
        later = drive(grown.group_by("id").aggregate(n=hr.count()).named("totals"))
        for value in VALUES:
            later.pipe("orders", key="a", value=value)
        later.cut()
        left = {left.name for left in untaken_fields(Lake(later.lake.root), grown)}
        assert each.name not in left


def test_columns_stay_as_they_are_and_a_field_that_has_one_is_not_proposed_again(drive: Drive) -> None:
    columns = "id STRING NOT NULL, amount DOUBLE"
    strict = replace(orders, value=columns)
    driver = drive(strict.group_by("id").aggregate(n=hr.count()).named("totals"))
    for field in ("coupon", "Amount", "__hidden"):  # no description takes the second and the third
        driver.pipe("orders", key="a", value={"id": "a", field: "X"})
    driver.cut()
    lake = Lake(driver.lake.root)
    (found,) = untaken_fields(lake, strict)
    assert found.line == 'value="id STRING NOT NULL, amount DOUBLE, coupon STRING"'
    grown = replace(orders, value=json.loads(found.line.removeprefix("value=")))
    assert untaken_fields(lake, grown) == []  # before: its older records proposed it a second time


def test_the_plan_shows_proposals_and_nothing_is_to_be_applied(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = drive(totals)
    for value in VALUES[:2]:
        driver.pipe("orders", key="a", value=value)
    driver.cut()
    monkeypatch.setattr("headrace.cli.console.deployment.load_pipeline", lambda _: [totals])
    shown = CliRunner().invoke(app, ["plan", "--lake", driver.lake.root])
    assert shown.exit_code == 0, shown.exception
    assert "topic orders: no column takes the field coupon, STRING, in 1 of the newest 2" in shown.output
    assert 'value="id STRING, amount DOUBLE, coupon STRING"' in shown.output
    assert "Nothing is to be applied." in shown.output
    printed = CliRunner().invoke(app, ["plan", "--json", "--lake", driver.lake.root])
    assert [each["name"] for each in json.loads(printed.output)["untaken"]] == ["coupon", "weight"]


def test_a_topic_that_begins_to_keep_fields_goes_on_and_a_step_reads_old_and_new_records(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, the plan was a crash: the log has no fields of before to propose."""
    plain = replace(orders, value="id STRING, amount DOUBLE", format=hr.Json())
    driver = drive(plain.group_by("id").aggregate(n=hr.count()).named("totals"))
    driver.pipe("orders", key="a", value=VALUES[1])
    driver.cut()
    (topic,) = plan_changes(Lake(driver.lake.root), [totals]).topics
    assert (topic.outcome, topic.detail) == (GOES_ON, "the value gains rest, null in older records")
    monkeypatch.setattr("headrace.cli.console.deployment.load_pipeline", lambda _: [totals])
    shown = CliRunner().invoke(app, ["plan", "--lake", driver.lake.root])
    assert shown.exit_code in (0, 2), shown.exception
    assert "no column takes the field" not in shown.output
    grown = replace(orders, value="id STRING, amount DOUBLE, coupon STRING")
    both = grown.with_column(
        "used", "coalesce(coupon, get_json_object(rest, '$.coupon'))"
    )  # as the guide says
    assert (both.columns or ())[-1:] == ("used",)


def test_a_topic_that_keeps_nothing_has_no_proposals(drive: Drive) -> None:
    plain = replace(orders, format=hr.Json())
    driver = drive(plain.group_by("id").aggregate(n=hr.count()).named("totals"))
    driver.pipe("orders", key="a", value=VALUES[1])
    driver.cut()
    assert untaken_fields(Lake(driver.lake.root), plain) == []
    assert untaken_fields(Lake(f"{driver.lake.root}/elsewhere"), orders) == []


def test_fields_of_schemas_by_which_records_were_read_are_proposed(drive: Drive, tmp_path: Path) -> None:
    registry = "http://registry.test"
    avro = hr.Topic(
        "orders", key="id STRING", value="id STRING, amount DOUBLE", format=hr.Avro(registry=registry)
    )
    driver = drive(totals)
    driver.pipe("orders", key="a", value=VALUES[0])
    driver.cut()
    lake = Lake(driver.lake.root)
    coupon = {"name": "coupon", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None}
    value = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}, coupon]}
    key = {"type": "record", "name": "Key", "fields": [{"name": "tenant", "type": "string"}]}
    for number, schema in enumerate((value, key)):
        kept = SchemaStore(lake.log("orders"), avro)._below(registry)
        small_files.write_json(
            f"{kept}/{number}.json", RegisteredSchema("AVRO", json.dumps(schema)).to_json()
        )
    (found,) = untaken_fields(lake, avro)
    assert (found.name, found.type, found.records) == ("coupon", "DATE", None)
    assert found.line == 'value="id STRING, amount DOUBLE, coupon DATE"'
    assert "in a schema by which records were read" in str(found)
