"""`headrace dev`: its settings, its sinks and its sample records."""

from __future__ import annotations

import io
import json
import socketserver
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from confluent_kafka import Producer
from rich.console import Console

import headrace as hr
from headrace.cli.new_project import make_project
from headrace.description.printed_sink import PrintedSink
from headrace.errors import TerminalError
from headrace.local.development.dev import DAGSTER, _Parts, private_settings
from headrace.local.development.dev_errors import last_words, run_part
from headrace.local.development.dev_stream import finals_named
from headrace.local.development.dev_traffic import _records, record_key, send
from headrace.local.samples import sample_records
from headrace.local.servers.dagster_ui import create_databases, wait_for_ui
from headrace.local.servers.settings_file import read_settings_file, write_settings
from headrace.local.workbench import key_bytes
from headrace.settings import load_pipeline
from headrace.sinks.encoding.records import record_bytes

pytestmark = pytest.mark.fast
VIEWS = hr.Topic(
    "views",
    key="user STRING",
    value="page STRUCT<url: STRING, words: ARRAY<STRING>>, ts BIGINT NOT NULL, price DECIMAL(9,2), ok BOOLEAN, day DATE",
    timestamp="ts",
)


def test_the_settings_of_a_deployment_are_read_and_nothing_speaks_in_its_name(tmp_path: Path) -> None:
    production = {
        "HEADRACE_KAFKA_BOOTSTRAP_SERVERS": "kafka:9092",
        "HEADRACE_KAFKA_GROUP": "headrace",
        "HEADRACE_LAKE": "s3://production/lake",
        "HEADRACE_POSTGRES_DSN": "postgresql://production",
        "HEADRACE_SLACK_TOKEN": "secret",
        "HEADRACE_SMTP_HOST": "mail",
        "DAGSTER_POSTGRES_URL": "postgresql://dagster",
        "DAGSTER_HOME": "/opt/dagster",
        "HEADRACE_ICEBERG_URI": "postgresql://catalog",
        "OPENLINEAGE_URL": "http://marquez",
    }
    assert private_settings(tmp_path, production) == {
        "HEADRACE_KAFKA_BOOTSTRAP_SERVERS": "kafka:9092",
        "HEADRACE_KAFKA_GROUP": "",  # no offsets are committed
        "HEADRACE_LAKE": f"file:{tmp_path}/lake",
        "HEADRACE_POSTGRES_DSN": "postgresql://production",
        "HEADRACE_PRINT_SINKS": f"{tmp_path}/sinks.jsonl",
        "DAGSTER_HOME": f"{tmp_path}/dagster",
        "PYTHONUNBUFFERED": "1",
    }
    assert "HEADRACE_PRINT_SINKS" not in private_settings(tmp_path, None)


def test_with_the_variable_no_node_has_a_sink_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_PRINT_SINKS", str(tmp_path / "sinks"))
    totals = VIEWS.group_by("user").aggregate(n=hr.count()).to(hr.KafkaSink("totals")).named("totals")
    named = VIEWS.to(hr.KafkaSink("copies")).to(hr.PostgresSink("copies")).named("copies")
    table = VIEWS.table().to(hr.KafkaSink("latest")).named("latest")
    for node, names in ((totals, ["kafka-totals"]), (table, ["kafka-latest"])):
        assert [sink.name for sink in node.sinks] == names
    assert len(named.sinks) == 2
    assert all(isinstance(each, PrintedSink) for node in (totals, named, table) for each in node.sinks)


def test_sample_records_are_what_the_schema_says() -> None:
    (first, *_) = rows = [*sample_records(VIEWS, 7, 1_700_000_000_000)]
    assert rows == [*sample_records(VIEWS, 7, 1_700_000_000_000)]
    assert rows != [*sample_records(VIEWS, 8, 1_700_000_000_000)]
    assert list(first) == ["user", "page", "ts", "price", "ok", "day"]
    assert first["ts"] == 1_700_000_000_000
    assert set(first["page"]) == {"url", "words"}
    assert key_bytes(VIEWS, first, None) == first["user"].encode()
    assert json.loads(json.dumps(first)) == first


def test_a_part_that_ends_by_an_error_is_shown_by_its_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def part(name: str) -> None:
        raise TerminalError(f"Node '{name}' raises.", hint="Mend it.")

    with pytest.raises(SystemExit, match="1"):
        run_part(part, "cards")
    log = tmp_path / "stream.log"
    log.write_text("WARN noise\nerror: an earlier one\nWARN more\n" + capsys.readouterr().err)
    assert last_words(log) == "Node 'cards' raises.\nMend it."
    log.write_text("Traceback\nKeyError: 'x'\n")
    assert last_words(log) == "Traceback\nKeyError: 'x'"
    killed = "Signal SIGKILL ended the process: a person or the machine ended it, for example because memory was short."
    assert last_words(log, -9) == killed
    assert last_words(log, -15) == "Signal SIGTERM ended the process."


def test_a_part_that_ends_while_a_plan_is_made_is_shown_and_the_save_starts_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed, started = io.StringIO(), list[str]()
    parts = _Parts(tmp_path, Console(file=printed, width=500), sends=False)
    stream = subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"])
    parts._running["stream"] = stream

    def plan() -> tuple[int, str]:
        stream.wait()
        (tmp_path / "stream.log").write_text("error: Node 'cards': Check.process raises for a record.\n")
        return 0, "node cards: rebuilt from the log"

    monkeypatch.setattr(parts, "_run_plan", plan)
    monkeypatch.setattr(parts, "_start", lambda name, arguments: started.append(name))
    assert parts.apply()
    assert "Node 'cards': Check.process raises for a record." in printed.getvalue()
    assert "The stream ended; save a file to start it again." in printed.getvalue()
    assert started == ["stream"]


@pytest.mark.parametrize(
    ("value", "sent"),
    [("a line", b"a line"), (b"\xff{broken", b"\xff{broken"), ({"n": None}, b'{"n": null}'), (None, None)],
)
def test_traffic_sends_texts_and_bytes_as_they_are(value: object, sent: bytes | None) -> None:
    assert record_bytes(VIEWS, "value", value) == sent


def test_a_record_without_a_key_is_sent_without_one() -> None:
    of_value = {"user": "ann", "page": {}}
    assert record_key(VIEWS, of_value, None) == b"ann"
    assert record_key(VIEWS, {"page": {}}, None) is None
    assert record_key(VIEWS, "broken", None) is None
    assert record_key(VIEWS, None, "ann") == b"ann"


def test_traffic_for_a_topic_that_no_node_reads_is_named() -> None:
    with pytest.raises(TerminalError) as refusal:  # before: a stack trace that ends with KeyError: 'vews'
        send(Producer({}), {"views": VIEWS}, "vews", "ann", {}, 0)
    assert "traffic.py sends to topic 'vews', which no node reads; there are views." in str(refusal.value)


def test_a_project_without_traffic_of_its_own_has_samples_of_each_topic() -> None:
    send = _records("tests.project.no_such_module", {"views": VIEWS})
    records = [*send(1_700_000_000_000)]
    assert {topic for topic, *_ in records} == {"views"}
    assert {timestamp for *_, timestamp in records} == {1_700_000_000_000}


def test_a_settings_file_is_read_as_a_shell_reads_it(tmp_path: Path) -> None:
    odd = {
        "A": "it's",
        "B": "a b",
        "C": "one\ntwo # no comment",
        "D": "",
        "E": "x#y",
        "F": "$HOME",
        "G": 'a"b',
    }
    assert read_settings_file(write_settings(tmp_path, odd)) == odd
    file = tmp_path / "by hand"
    file.write_text(
        "# a comment\n\n  export A='1 2' # of A\nB=\"say \\\"x\\\"\"#y\nC=#z\r\nD= # none\nE='a\n# b'\nF=a'b'\"c\"",
        encoding="utf-8",
    )
    read = {"A": "1 2", "B": 'say "x"#y', "C": "#z", "D": "", "E": "a\n# b", "F": "abc"}
    assert read_settings_file(file) == read
    for wrong in ("A=1\nB=a b\n", "A=1\nB='a\n", "A=1\n1=2", "A=1\nnothing\n"):
        file.write_text(wrong, encoding="utf-8")
        with pytest.raises(TerminalError, match="line 2 is no NAME=value"):
            read_settings_file(file)


@pytest.mark.slow
def test_processes_that_open_a_new_home_of_dagster_at_once_find_its_databases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    (tmp_path / "dagster.yaml").write_text(DAGSTER)
    create_databases()
    opens = "from dagster import DagsterInstance\nwith DagsterInstance.get(): pass"
    started = [subprocess.Popen([sys.executable, "-c", opens], stderr=subprocess.PIPE) for _ in range(3)]
    errors = [each.communicate()[1].decode() for each in started]
    assert [each.returncode for each in started] == [0, 0, 0], errors


@pytest.mark.dagster
def test_the_stream_reports_the_final_days_and_hours_that_the_project_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project("final_hours", tmp_path)
    definitions = project / "final_hours" / "definitions.py"
    code = definitions.read_text(encoding="utf-8")
    definitions.write_text(
        code.replace("    group=", '    finals={"declined_per_minute": "hour"},\n    group=')
    )
    monkeypatch.syspath_prepend(str(project))
    monkeypatch.setenv("HEADRACE_LAKE", f"file:{tmp_path}/lake")
    load_pipeline("final_hours")
    assert finals_named("final_hours") == {
        "declined_per_minute": "hour"
    }  # before: the asset had no partition, ever
    assert finals_named("a_module_without_definitions") == {}


class NoUI(socketserver.StreamRequestHandler):
    """A server that is no UI, as a gateway to a JVM."""

    def handle(self) -> None:
        self.rfile.readline()
        self.wfile.write(b"!unknown command\n")


def test_another_server_at_the_port_is_not_taken_for_the_ui(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("address already in use\n")
    with socketserver.TCPServer(("127.0.0.1", 0), NoUI) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        dagster = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1)"])
        with pytest.raises(TerminalError, match="Dagster did not start") as refused:
            wait_for_ui(dagster, other.server_address[1], tmp_path / "log")
        other.shutdown()
    assert "address already in use" in str(refused.value.detail)
