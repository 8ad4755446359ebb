"""`HeadraceComponent`: scaffolded and loaded as `dg` does it, and found by it in an installed Headrace."""

from __future__ import annotations

import inspect
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster.components.testing import create_defs_folder_sandbox
from hatchling.builders.wheel import WheelBuilder

from headrace.orchestration import HeadraceComponent, build_definitions
from headrace.orchestration.alerting.alert_channels import EmailAlerts, SlackAlerts
from headrace.orchestration.component import ThresholdsOfAsset
from headrace.quality import Thresholds

pytestmark = pytest.mark.dagster
ROOT = Path(__file__).resolve().parents[2]
CLICKS = """
import headrace as hr

clicks = hr.Topic("clicks", key="page STRING", value="page STRING")
per_page = clicks.group_by("page").aggregate(n=hr.count()).named("per_page")
"""


def test_a_scaffolded_component_loads_a_pipeline_that_can_be_changed_at_once() -> None:
    with create_defs_folder_sandbox() as sandbox:
        place = sandbox.scaffold_component(
            HeadraceComponent, "payments", {"topic": "payments", "node": "payment_counts"}
        )
        said = yaml.safe_load((place / "defs.yaml").read_text())
        assert said["type"] == "headrace.orchestration.component.HeadraceComponent"
        assert said["attributes"]["stream_name"] == "payments"
        with sandbox.load_component_and_build_defs(place) as (component, defs):
            assert isinstance(component, HeadraceComponent)
            keys = {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}
            assert keys == {"log/payments", "stream/payment_counts_stream", "payment_counts"}
            assert defs.resolve_job_def("payments")
            dg.Definitions.validate_loadable(defs)


def test_what_yaml_says_reaches_the_definitions() -> None:
    attributes = {
        "pipeline": "clicks.py",
        "partitions_start": "2026-11-01",
        "group": "web",
        "owners": {"per_page": ["team:web"]},
        "stale_after": "4 hours",
        "sensor_running": True,
    }
    body = {"type": "headrace.orchestration.HeadraceComponent", "attributes": attributes}
    with create_defs_folder_sandbox() as sandbox:
        place = sandbox.scaffold_component(HeadraceComponent, "web", defs_yaml_contents=body)
        (place / "clicks.py").write_text(CLICKS)
        with sandbox.load_component_and_build_defs(place) as (_, defs):
            spec = {s.key.to_user_string(): s for s in defs.resolve_all_asset_specs()}
            assert spec["per_page"].owners == ["team:web"]
            assert {s.group_name for s in spec.values()} == {"web"}
            assert str(spec["log/clicks"].freshness_policy).count("14400") == 1
            (keep,) = (s for s in defs.sensors or () if s.name == "keep_streams_running")
            assert keep.default_status is dg.DefaultSensorStatus.RUNNING


def test_it_takes_all_that_build_definitions_takes() -> None:
    """What comes from the environment, and the nodes, which its pipeline names, are the only differences."""
    ours = {*HeadraceComponent.model_fields} - {"pipeline"}
    assert {*inspect.signature(build_definitions).parameters} - {"nodes", "kafka"} == ours
    assert {*ThresholdsOfAsset.model_fields} == {field.name for field in fields(Thresholds)}
    assert ThresholdsOfAsset().made() == Thresholds()


def test_standby_alerts_and_thresholds_come_from_yaml(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def noted(nodes: Any, **more: Any) -> dg.Definitions:
        given.update(more)
        return build_definitions(nodes, **more)

    monkeypatch.setattr("headrace.orchestration.component.build_definitions", noted)
    attributes = {
        "pipeline": "clicks.py",
        "partitions_start": "2026-11-01",
        "standby": True,
        "thresholds": {"per_page": {"late_ratio_max": 0.5, "severities": {"late_drops_below": "error"}}},
        "alerts": [{"slack": "#web"}, {"email": ["web@example.com"]}],
        "alerts_running": True,
    }
    with loaded(attributes) as defs:
        assert given["thresholds"] == {
            "per_page": Thresholds(late_ratio_max=0.5, severities={"late_drops_below": "error"})
        }
        assert given["alerts"] == [SlackAlerts("#web"), EmailAlerts(["web@example.com"])]
        assert defs.resolve_job_def("streams_standby")
        (alerts,) = (s for s in defs.sensors or () if s.name == "alerts")
        assert alerts.default_status is dg.DefaultSensorStatus.RUNNING


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"alerts": [{"slack": "#web", "email": ["web@example.com"]}]}, "names two channels"),
        ({"alerts": [{}]}, "names no channel"),
        ({"thresholds": {"per_page": {"late_ratio_max": 5}}}, "late_ratio_max=5.0 is no ratio"),
        ({"thresholds": {"per_page": {"late": 0.5}}}, "late"),
    ],
)
def test_a_wrong_entry_is_refused_with_its_name(wrong: dict[str, Any], said: str) -> None:
    attributes = {"pipeline": "clicks.py", "partitions_start": "2026-11-01", **wrong}
    with pytest.raises(Exception, match="web") as raised, loaded(attributes):
        pass
    assert said in str(raised.getrepr(chain=True))


@contextmanager
def loaded(attributes: dict[str, Any]) -> Iterator[dg.Definitions]:
    body = {"type": "headrace.orchestration.HeadraceComponent", "attributes": attributes}
    with create_defs_folder_sandbox() as sandbox:
        place = sandbox.scaffold_component(HeadraceComponent, "web", defs_yaml_contents=body)
        (place / "clicks.py").write_text(CLICKS)
        with sandbox.load_component_and_build_defs(place) as (_, defs):
            yield defs


def test_a_module_without_nodes_is_named() -> None:
    body = {
        "type": "headrace.orchestration.HeadraceComponent",
        "attributes": {"pipeline": "empty.py", "partitions_start": "2026-11-01"},
    }
    with create_defs_folder_sandbox() as sandbox:
        place = sandbox.scaffold_component(HeadraceComponent, "empty", defs_yaml_contents=body)
        (place / "empty.py").write_text("")
        with pytest.raises(Exception, match="empty") as raised, sandbox.build_all_defs():
            pass
    assert "defines no named node" in str(raised.getrepr(chain=True))


def test_the_wheel_registers_the_component(tmp_path: Path) -> None:
    wheel = zipfile.ZipFile(
        next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"]))
    )
    (name,) = (each for each in wheel.namelist() if each.endswith("entry_points.txt"))
    text = wheel.read(name).decode()
    assert "[dagster_dg_cli.registry_modules]\nheadrace = headrace.orchestration" in text
