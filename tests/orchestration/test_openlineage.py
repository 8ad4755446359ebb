"""The events of Dagster reach a server of OpenLineage, through the sensor of `dagster-openlineage`."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import dagster as dg
import pytest

from tests.docs.documents import ROOT, compiled, python_blocks

GUIDE = ROOT / "docs" / "guides" / "monitoring.md"
pytestmark = [
    pytest.mark.dagster,
    pytest.mark.filterwarnings("ignore:Use fetch_"),  # the package asks Dagster in a way that it warns of
]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """The events that a server of OpenLineage was sent. The environment names it, and the package reads that as it loads."""
    found: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{server.server_port}")
    for name in [name for name in sys.modules if name.startswith("dagster_openlineage")]:
        monkeypatch.delitem(sys.modules, name)
    yield found
    server.shutdown()
    server.server_close()


@dg.asset(deps=["reading_counts"])
def report(context: dg.AssetExecutionContext) -> None:
    """A stream's run reports its tables so, while it lasts."""
    rows = dg.AssetMaterialization(
        "reading_counts", partition="2026-11-02", metadata={"dagster/row_count": 3}
    )
    context.log_event(rows)


def test_runs_and_the_tables_that_they_report_are_sent(sent: list[dict[str, Any]]) -> None:
    names: dict[str, Any] = {}
    (block,) = (each for each in python_blocks(GUIDE) if "openlineage_sensor" in each.code)
    exec(compiled(block, GUIDE), names)
    sensor = names["defs"].get_sensor_def("openlineage_sensor")
    made = dg.Definitions.merge(names["defs"], dg.Definitions(assets=[report]))
    with dg.DagsterInstance.ephemeral() as instance:
        assert dg.materialize([report], instance=instance).success
        list(sensor(dg.build_sensor_context(instance=instance, definitions=made)) or ())
    jobs = {(event["eventType"], event["job"]["name"]) for event in sent}
    assert {
        ("START", "__ephemeral_asset_job__.report"),
        ("COMPLETE", "__ephemeral_asset_job__.report"),
    } <= jobs
    outputs = {each["name"] for event in sent for each in event.get("outputs", ())}
    assert {"report", "reading_counts"} <= outputs
