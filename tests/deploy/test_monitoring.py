"""The dashboard and the alert rules of `deploy/monitoring` ask for figures that a run serves."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from headrace.observe.figures import FATES, MEANINGS
from headrace.observe.metrics import STATES, MetricsEndpoint
from headrace.streams.status.stream_status import StreamStatus

pytestmark = pytest.mark.fast
FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "monitoring"
METRIC, SERIES = re.compile(r"\bheadrace_\w+"), re.compile(r"^(headrace_\w+)(\{[^}]*\})? ")
STATUS = StreamStatus(
    *("stream", "counts", "failed", None, 4, 100, 12.3, 7, 3.0, 60_000, 5),
    fates=dict.fromkeys(FATES, 2),
    read_ms=1,
    batch_seconds=1.0,
    state_bytes=10,
    state_bytes_read=5,
    input_rows_per_second=3.0,
    mirror={"mirror_behind_seconds": 7.0},
)


def rules() -> list[dict[str, Any]]:
    """The alert rules."""
    (group,) = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    return list(group["rules"])


def panels() -> list[dict[str, Any]]:
    """The panels of the dashboard."""
    return list(json.loads((FOLDER / "grafana-dashboard.json").read_text())["panels"])


def questions() -> Iterator[str]:
    """All expressions of both."""
    yield from (rule["expr"] for rule in rules())
    yield from (target["expr"] for panel in panels() for target in panel["targets"])


@pytest.fixture(scope="module")
def served() -> set[str]:
    """The names of the series that a run's endpoint serves."""
    with MetricsEndpoint(port=0) as endpoint:
        endpoint.see([STATUS])
        with urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
    return {found[1] for line in lines if (found := SERIES.match(line))}


def test_each_question_is_promql_and_asks_for_what_a_run_serves(served: set[str]) -> None:
    asked = set()
    for question in questions():
        promql_parser.parse(question.replace("$asset", ".*"))
        asked |= set(METRIC.findall(question))
    assert asked <= served, asked - served
    assert {name.removeprefix("headrace_").removesuffix("_total") for name in asked} <= (
        {name.removesuffix("_total") for name in MEANINGS} | {"state", "rows"}
    )


def test_labels_are_those_that_a_run_gives() -> None:
    states = {state for question in questions() for state in re.findall(r'state="(\w+)"', question)}
    assert states <= set(STATES)
    by = {
        label.strip()
        for question in questions()
        for names in re.findall(r"by \(([^)]*)\)", question)
        for label in names.split(",")
    }
    assert by <= {"asset", "state"}


def test_rules_are_as_prometheus_reads_them() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))
        assert rule["annotations"].keys() == {"summary", "description"}
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert set(re.findall(r"\$labels\.(\w+)", json.dumps(rule))) <= {"asset"}


def test_panels_have_places_of_their_own_and_the_settings_name_the_rules() -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels()]
    assert len(set(places)) == len(places) == len({panel["id"] for panel in panels()})
    assert yaml.safe_load((FOLDER / "prometheus.yaml").read_text())["rule_files"] == ["alerts.yaml"]


def test_the_page_names_each_alert() -> None:
    page = (FOLDER.parents[1] / "docs" / "guides" / "monitoring.md").read_text()
    assert not [rule["alert"] for rule in rules() if f"`{rule['alert']}`" not in page]
