"""Each schema registry that a format names is asked before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from dagster import EnvVar

import headrace as hr
from headrace.local.schema_registry import SchemaRegistry
from headrace.local.tightening_message import Tightening
from headrace.preflight.registries import check_registries

SCHEMA = '{"type": "record", "name": "order", "fields": [{"name": "n", "type": "int"}]}'


@pytest.mark.broker
def test_it_answers_or_the_check_says_what_to_correct(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`headrace config check` said that all was well, and the log failed later."""
    monkeypatch.setenv("HEADRACE_REGISTRY_RETRIES", "0")
    monkeypatch.setenv("HEADRACE_REGISTRY_TIMEOUT_SECONDS", "60")
    monkeypatch.setenv("HEADRACE_REGISTRY_USERNAME", "me")
    monkeypatch.setenv("HEADRACE_REGISTRY_PASSWORD", "not-this-one")
    with SchemaRegistry(tmp_path) as running:
        monkeypatch.setenv("OTHER_REGISTRY", running.url)
        ours = hr.Avro(registry=EnvVar("OTHER_REGISTRY"), schema=SCHEMA)
        topic = hr.Topic("orders", key="id STRING", value="n INT", format=ours)
        counts = topic.group_by("id").aggregate(n=hr.count()).named("counts")
        node = counts.to(hr.KafkaSink("counts", format=hr.Avro(registry=running.url)))
        well = [*check_registries([node])]
    away = [*check_registries([node])]
    messages = hr.Topic(
        "tightenings", key="screw STRING", format=hr.Protobuf(Tightening, registry=running.url)
    )
    assert not [*check_registries([messages.group_by().aggregate(n=hr.count()).named("all")])], "never asked"
    assert [each.ok for each in (*well, *away)] == [True, True, False, False], [*map(str, (*well, *away))]
    assert "OTHER_REGISTRY" in str(well[0])
    assert all("correct its address" in str(each) for each in away)
    assert "not-this-one" not in str(away)
