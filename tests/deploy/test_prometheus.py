"""A real Prometheus loads `deploy/monitoring`, reads a run's endpoint, and answers each question of dashboard and rules.

It needs the program `prometheus` (Debian's package of that name), so it is one of the long tests.
"""

from __future__ import annotations

import json
import shutil
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.local.servers import lifeline
from headrace.local.servers.broker_config import free_port
from headrace.observe.metrics import MetricsEndpoint
from tests.deploy.test_monitoring import FOLDER, STATUS, panels, questions, rules
from tests.waiting import until

pytestmark = pytest.mark.long


class Prometheus:
    """The server's HTTP interface."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of its answer. Raises: HTTPError when it refuses."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.address}/api/v1/{path}?{query}") as answer:
            return json.load(answer)["data"]

    def up(self) -> bool:
        """Whether it has read the run's endpoint."""
        try:
            result = self.ask("query", query="up")["result"]
        except OSError:
            return False
        return [series["value"][1] for series in result] == ["1"]

    def readings(self) -> int:
        """How often it has read the run's endpoint."""
        (series,) = self.ask("query", query="count_over_time(up[1h])")["result"]
        return int(series["value"][1])


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder, port = tmp_path_factory.mktemp("prometheus"), free_port()
    shutil.copy(FOLDER / "alerts.yaml", folder)
    with MetricsEndpoint(port=0) as endpoint:
        endpoint.see([STATUS])
        settings = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())
        settings["global"]["scrape_interval"] = settings["global"]["evaluation_interval"] = "1s"
        settings["scrape_configs"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{endpoint.port}"]
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(settings))
        command = [
            "prometheus",
            f"--config.file={folder}/prometheus.yaml",
            f"--storage.tsdb.path={folder}/data",
        ]
        server = Prometheus(port)
        process = lifeline.spawn(
            [*command, f"--web.listen-address=127.0.0.1:{port}"], log=Path(folder / "log"), cwd=folder
        )
        try:
            until(server.up, told=(folder / "log").read_text, every_s=0.2)
            until(lambda: server.readings() > 2)  # rates need two
            yield server
        finally:
            lifeline.stop(process, patience_s=10)


def test_it_answers_each_question(prometheus: Prometheus) -> None:
    for question in questions():
        prometheus.ask("query", query=question.replace("$asset", ".*").replace("$__rate_interval", "1m"))


def test_each_panel_shows_something(prometheus: Prometheus) -> None:
    empty = [
        panel["title"]
        for panel in panels()
        if not any(
            prometheus.ask(
                "query", query=target["expr"].replace("$asset", ".*").replace("$__rate_interval", "1m")
            )["result"]
            for target in panel["targets"]
        )
    ]
    assert empty == []


def test_it_has_loaded_each_rule_and_knows_of_the_failed_query(prometheus: Prometheus) -> None:

    def loaded() -> dict[str, Any]:
        (group,) = prometheus.ask("rules")["groups"]
        return {rule["name"]: rule for rule in group["rules"]}

    found = until(loaded, lambda seen: "unknown" not in {rule["health"] for rule in seen.values()})
    assert found.keys() == {rule["alert"] for rule in rules()}
    assert {rule["health"] for rule in found.values()} == {"ok"}
    assert found["HeadraceQueryFailed"]["state"] in (
        "pending",
        "firing",
    )  # the one for a minute, then the other
    assert found["HeadraceAbsent"]["state"] == "inactive"
