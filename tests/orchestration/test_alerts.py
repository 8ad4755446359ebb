"""People are told once about each failure: by Slack, and by a real mail server."""

from __future__ import annotations

import email
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NoReturn
from urllib.parse import parse_qs

import dagster as dg
import pytest
from aiosmtpd.controller import Controller
from slack_sdk import WebClient

from assets.readings import reading_counts
from headrace.errors import DescriptionError, TransientError
from headrace.local.servers.broker_config import HOST, free_port
from headrace.orchestration import EmailAlerts, SlackAlerts
from headrace.orchestration.alerting import alerts, no_results
from headrace.orchestration.alerting.alerts import LINES_MAX, OF_ASSETS, News, alert_sensor, cursors_of, news
from headrace.orchestration.pipeline import pipeline_of
from jobs.definitions import defs
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.dagster
PIPELINE = pipeline_of([reading_counts], partitions_start="2026-11-01")
LOG = dg.AssetKey(["log", "readings"])
JOBS = ("streams", "quality")


class Told:
    """A channel that keeps what it is told, or refuses it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.away = False
        self.no_result_for: str | None = None

    def send(self, subject: str, lines: Sequence[str]) -> None:
        if self.away:
            raise TransientError("The channel is away.")
        self.lines += lines


@pytest.fixture
def instance(monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setenv("HEADRACE_LAKE", "/nowhere")
    with dg.DagsterInstance.ephemeral() as found:
        yield found


def judged(instance: dg.DagsterInstance, check: str, *, passed: bool, said: str = "") -> None:
    instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(asset_key=LOG, check_name=check, passed=passed, metadata={}, description=said)
    )


def failed_run(instance: dg.DagsterInstance, job: str = "streams") -> str:
    run = instance.create_run_for_job(defs.resolve_job_def(job))
    instance.report_dagster_event(dg.DagsterEvent(dg.DagsterEventType.RUN_FAILURE.value, job), run.run_id)
    return run.run_id


def look(instance: dg.DagsterInstance, channel: Any, cursor: str | None, *others: Any) -> str | None:
    sensor = alert_sensor("alerts", PIPELINE, JOBS, [channel, *others], dg.DefaultSensorStatus.STOPPED)
    context = dg.build_sensor_context(instance, cursor=cursor)
    sensor(context)
    return context.cursor


def is_away(*_: object) -> NoReturn:
    raise TransientError("It is away.")


def test_each_failure_is_told_once_and_its_end_too(instance: dg.DagsterInstance) -> None:
    told = Told()
    failed_run(instance)  # before the sensor was switched on
    cursor = look(instance, told, None)
    assert told.lines == []
    judged(instance, "dead_letters_below", passed=False, said="7 of 10 records could not be decoded.")
    judged(instance, "no_log_commit_missing", passed=True)
    run = failed_run(instance)
    failed_run(instance, "maintenance")  # of a job that is not watched
    cursor = look(instance, told, cursor)
    assert told.lines == [
        f"Run {run[:8]} of job streams failed.",
        "log/readings: dead_letters_below fails. 7 of 10 records could not be decoded.",
    ]
    judged(instance, "dead_letters_below", passed=False, said="8 of 11")
    cursor = look(instance, told, cursor)
    assert len(told.lines) == 2
    judged(instance, "dead_letters_below", passed=True)
    cursor = look(instance, told, cursor)
    assert told.lines[2:] == ["log/readings: dead_letters_below holds again."]
    look(instance, told, cursor)
    assert len(told.lines) == 3


def test_what_no_channel_took_is_told_again(instance: dg.DagsterInstance) -> None:
    told = Told()
    cursor = look(instance, told, None)
    judged(instance, "dead_letters_below", passed=False)
    told.away = True
    with pytest.raises(TransientError):
        look(instance, told, cursor)
    told.away = False
    look(instance, told, cursor)
    assert told.lines == ["log/readings: dead_letters_below fails."]


def test_a_channel_that_is_away_makes_the_others_repeat_nothing(instance: dg.DagsterInstance) -> None:
    first, second = Told(), Told()
    cursor = look(instance, first, None, second)
    judged(instance, "dead_letters_below", passed=False)
    second.away = True
    for _ in range(2):
        cursor = look(instance, first, cursor, second)
    second.away = False
    look(instance, first, cursor, second)
    assert first.lines == second.lines == ["log/readings: dead_letters_below fails."]


def test_a_lake_that_is_away_keeps_no_failure_from_any_channel_and_repeats_none(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, a channel that is told of silent tables ended the look: the ones before it were told again, the others never."""

    first, second, third = Told(), Told(), Told()
    second.no_result_for = "15 minutes"
    results = partial(monkeypatch.setattr, no_results, "_results")
    results(lambda *_: 7)
    cursor = look(instance, first, None, second, third)
    known = cursors_of(cursor, 3)[1].results
    judged(instance, "dead_letters_below", passed=False)
    results(is_away)
    for _ in range(3):
        cursor = look(instance, first, cursor, second, third)
    assert first.lines == second.lines == third.lines == ["log/readings: dead_letters_below fails."]
    assert known
    assert cursors_of(cursor, 3)[1].results == known  # the time without results goes on


def test_a_channel_whose_news_cannot_be_read_is_told_with_the_next_look(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, that ended the look, and channels before it were told again."""
    first, second = Told(), Told()
    cursor = look(instance, first, None, second)
    judged(instance, "dead_letters_below", passed=False)
    looks: Iterator[Callable[..., News]] = iter([news, is_away])
    with monkeypatch.context() as patch:
        patch.setattr(alerts, "news", lambda *given: next(looks)(*given))
        cursor = look(instance, first, cursor, second)
    look(instance, first, cursor, second)
    assert first.lines == second.lines == ["log/readings: dead_letters_below fails."]


def test_a_run_that_fails_after_a_younger_one_is_told(instance: dg.DagsterInstance) -> None:
    told = Told()
    stream = instance.create_run_for_job(defs.resolve_job_def("streams"))
    cursor = look(instance, told, None)
    younger = failed_run(instance, "quality")
    cursor = look(instance, told, cursor)
    failure = dg.DagsterEvent(dg.DagsterEventType.RUN_FAILURE.value, "streams")
    instance.report_dagster_event(failure, stream.run_id)
    look(instance, told, cursor)
    assert told.lines == [
        f"Run {younger[:8]} of job quality failed.",
        f"Run {stream.run_id[:8]} of job streams failed.",
    ]


def test_a_backfill_that_was_launched_on_the_page_of_a_table_is_told(instance: dg.DagsterInstance) -> None:
    told = Told()
    cursor = look(instance, told, None)
    runs = [
        instance.create_run_for_job(
            defs.resolve_job_def(OF_ASSETS), asset_selection=frozenset({dg.AssetKey([name])})
        ).run_id
        for name in ("reading_counts", "visit_batches")  # the second is no table of this pipeline
    ]
    for run in runs:
        failure = dg.DagsterEvent(dg.DagsterEventType.RUN_FAILURE.value, OF_ASSETS)
        instance.report_dagster_event(failure, run)
    look(instance, told, cursor)
    assert told.lines == [f"Run {runs[0][:8]} of reading_counts failed."]


def test_many_failures_are_one_message(instance: dg.DagsterInstance) -> None:
    told = Told()
    cursor = look(instance, told, None)
    for _ in range(LINES_MAX + 1):
        failed_run(instance)
        failed_run(instance, "quality")
    (known,) = cursors_of(cursor, 1)
    assert len(news(instance, PIPELINE, JOBS, known).lines) > LINES_MAX
    look(instance, told, cursor)
    assert len(told.lines) == LINES_MAX + 1
    assert told.lines[-1].startswith("… and ")


def test_mail_arrives_at_a_real_server(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[Any] = []

    class Handler:
        async def handle_DATA(  # noqa: N802
            self, server: Any, session: Any, envelope: Any
        ) -> str:
            received.append((envelope.rcpt_tos, email.message_from_bytes(envelope.content)))
            return "250 OK"

    port = free_port()
    monkeypatch.setenv("HEADRACE_SMTP_HOST", HOST)
    monkeypatch.setenv("HEADRACE_SMTP_PORT", str(port))
    monkeypatch.setenv("HEADRACE_SMTP_SECURITY", "none")
    monkeypatch.setenv("HEADRACE_SMTP_SENDER", "lake@example.com")
    alerts = EmailAlerts(to=["a@example.com", "b@example.com"])
    with pytest.raises(TransientError, match=f"{HOST}:{port} did not take it"):
        alerts.send("s", ["l"])
    server = Controller(Handler(), hostname=HOST, port=port, ready_timeout=PATIENCE_S)
    server.start()
    try:
        alerts.send("Headrace: 2 messages", ["log/orders: é fails.", "Run 1 failed."])
        monkeypatch.setenv("HEADRACE_SMTP_SECURITY", "starttls")
        with pytest.raises(TransientError, match="STARTTLS"):  # it is not sent in the clear
            alerts.send("s", ["l"])
    finally:
        server.stop()
    ((to, message),) = received
    assert to == ["a@example.com", "b@example.com"]
    assert (message["Subject"], message["From"]) == ("Headrace: 2 messages", "lake@example.com")
    assert message.get_payload(decode=True).decode() == "log/orders: é fails.\r\nRun 1 failed.\r\n"


def test_slack_gets_a_message_with_the_token_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str | None, dict[str, Any]]] = []
    answers = [{"ok": True, "ts": "1"}, {"ok": False, "error": "channel_not_found"}]

    class Slack(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            sent = json.loads(body) if body.startswith("{") else {k: v[0] for k, v in parse_qs(body).items()}
            asked.append((self.path, self.headers["Authorization"], sent))
            content = json.dumps(answers.pop(0)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer((HOST, 0), Slack)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    client = partial(WebClient, base_url=f"http://{HOST}:{server.server_address[1]}/api/")
    monkeypatch.setattr("dagster_slack.resources.WebClient", client)
    with pytest.raises(TransientError, match="HEADRACE_SLACK_TOKEN"):
        SlackAlerts("#data").send("s", ["l"])
    monkeypatch.setenv("HEADRACE_SLACK_TOKEN", "xoxb-a-secret")
    SlackAlerts("#data").send("Headrace: 1 message", ["log/orders fails.", "n < 4 & <!channel>"])
    with pytest.raises(TransientError) as refused:
        SlackAlerts("#data").send("s", ["l"])
    server.shutdown()
    server.server_close()
    assert "xoxb" not in str(refused.value)
    assert "channel_not_found" in str(refused.value)
    path, authorization, sent = asked[0]
    assert (path, authorization) == ("/api/chat.postMessage", "Bearer xoxb-a-secret")
    assert (sent["channel"], sent["text"]) == (
        "#data",
        "*Headrace: 1 message*\n• log/orders fails.\n• n &lt; 4 &amp; &lt;!channel&gt;",
    )


@pytest.mark.parametrize("to", [[], "a@example.com", ["a"]])
def test_what_is_no_list_of_addresses_is_refused(to: Any) -> None:
    with pytest.raises(DescriptionError, match="no list of addresses"):
        EmailAlerts(to)
