"""Every command prints sentences for people, and with `--json` one JSON object a line: no command is left out."""

from __future__ import annotations

import ast
import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import headrace.cli
from headrace.changing.applied import Applied
from headrace.changing.plan import ChangePlan
from headrace.cli import app, commands
from headrace.errors import TerminalError, TransientError
from headrace.explain.graces.other_grace import WhatIf
from headrace.explain.logged_record import LoggedRecord
from headrace.explain.record_fate import NodeFate, RecordFate
from headrace.explain.row_cause import Cause
from headrace.explain.tables.audited_table import Audit
from headrace.explain.tables.compared_rows import ComparedRows, DifferingRow
from headrace.lifecycle.backfills.backfill_plan import DayVerdict
from headrace.lifecycle.backup import Backup
from headrace.lifecycle.erasure import Erased
from headrace.lifecycle.log_repair.repair import Repaired
from headrace.lifecycle.maintenance import Size, Upkept
from headrace.lifecycle.pending_erasures import Pending
from headrace.lifecycle.redrive import Redriven
from headrace.lifecycle.retention import Cut
from headrace.log.decisions.limits import LimitsSet
from headrace.mirror.equality import Comparison
from headrace.observe.fates.dead_letters import DeadLetters
from headrace.observe.fates.refused_rows import RefusedRows
from headrace.observe.previews.preview import Preview, Stage
from headrace.observe.tail import TailRow
from headrace.preflight import Finding
from headrace.quality.figures.failing_rows import FailingRows
from headrace.streams.status.stream_status import StreamStatus
from headrace.writing.delivery.redeliver import Redelivered

pytestmark = pytest.mark.fast
NODE, TOPIC = "reading_counts", "readings"
AT = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
STATUS = StreamStatus("log", TOPIC, "running", None, 0, 1_234, 5.0, 0, 0.0, 1, 3, {})
VERDICT = DayVerdict(AT.date(), False, 3, 3, 1, ("log: n=1", "table: n=2"), False)
STAGE = Stage("where value > 0", ("value",), ((1.5,), (b"\x00",)), False, (("used", 2),))


class Lines:
    """Stands for a class of ours that works: each method gives what it was told to give."""

    def __init__(self, **methods: Any) -> None:
        self.methods = methods

    def __call__(self, *_: Any, **__: Any) -> Lines:
        return self

    def __getattr__(self, name: str) -> Any:
        found = self.methods[name]
        return (lambda *_, **__: found) if not callable(found) else found

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def gives(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


def prints(*lines: str, ends: Any = None) -> Callable[..., Any]:
    def run(*, console: Any, **_: Any) -> Any:
        for line in lines:
            console.print(line)
        return ends

    return run


def rebuilt() -> SimpleNamespace:
    left = iter([True, False])
    return SimpleNamespace(advance=lambda: next(left), close=gives(None), records=5, records_before=9)


RUNTIME = Lines(run_until_caught_up=[STATUS], drain=None)
APPLY = Lines(run=Applied(renamed=("a",)), plan=ChangePlan((), (), ()))
LIMITS = LimitsSet(NODE, {"max_records": 5}, "r", 7)
UPKEPT = Upkept("log/readings", "log", Size(9, 90), Size(1, 80), Size(9, 90), Size(1, 80))
FOUND = DeadLetters("value: no JSON", None, 2, AT, AT, ())
FATE = RecordFate(LoggedRecord(TOPIC, 0, 7, "record", at_ms=5), [NodeFate(NODE, NODE, "late")])
COMPARED = ComparedRows(4, 4, 0, 0, 1, [DifferingRow({"n": 1}, {"n": 2})])
WHAT_IF = WhatIf(NODE, 60_000, 300_000, 9, 2, 1, 4, 1, 0, 240_000, 250_000, AT, COMPARED)
AUDIT = Audit(NODE, "file:/copy", 3, 3, 0, 0, 0, 1, ["n"], [])
LEFT = Redriven(2, 1, {"value: no JSON": 3}, [(0, 7)])

# For each command what it is given, and what stands for the parts that need Spark, Kafka or minutes.
BACKUP = Backup("2026-11-01T00:00:00+00:00", {"logs/views": 7}, 12, 3_400)
KNOWN = {"headrace.lake.format.is_known": gives(True)}
CASES: Mapping[str, tuple[list[str], Mapping[str, Any]]] = {
    "run": (["--until-caught-up"], {"headrace.cli.running.open_runtime": gives(RUNTIME)}),
    "demo": ([], {"headrace.local.demos.demo.run_demo": prints("starting a broker", "[bold]ready[/]")}),
    "dev": ([], {"headrace.local.development.dev.run_dev": prints("starting a broker")}),
    "demo-once": ([], {"headrace.local.demos.demo_once.run_demo_once": prints("1. produced", ends=True)}),
    "describe": ([NODE], {}),
    "preview": ([NODE], {"headrace.cli.describing.preview": gives(Preview((STAGE,)))}),
    "status": ([], {"headrace.lake.format.is_known": gives(True)}),
    "tail": (
        [NODE, "--no-follow"],
        KNOWN | {"headrace.observe.tail.Tail": Lines(newest=[TailRow(False, {"n": 1, "at": AT})])},
    ),
    "backup": (["file:/copy"], {"headrace.lifecycle.backup.back_up": gives(BACKUP)}),
    "restore": (["file:/copy"], {"headrace.lifecycle.backup.restore": gives(BACKUP)}),
    "sql": (
        ["SELECT 1"],
        KNOWN | {"headrace.observe.sql.LakeSql": Lines(query=pa.table({"n": [1, 2]}))},
    ),
    "get": (
        [NODE, "a"],
        KNOWN | {"headrace.observe.keyed_reads.KeyedReads": Lines(fetch=[{"key": "a", "n": 1}])},
    ),
    "why": (
        [NODE, "key=a"],
        KNOWN | {"headrace.explain.row_cause.causes_of": gives([Cause(NODE, {"n": 1}, 3, "final", [], [])])},
    ),
    "why-not": (
        [TOPIC, "0", "7"],
        KNOWN | {"headrace.explain.record_fate.fate_of_record": gives(FATE)},
    ),
    "what-if": (
        [NODE, "grace=5 minutes"],
        KNOWN | {"headrace.explain.graces.other_grace.what_if": gives(WHAT_IF)},
    ),
    "mirror": (
        ["--check"],
        KNOWN
        | {
            "headrace.lake.exists": gives(True),
            "headrace.mirror.mirrors.Mirrors": gives(MagicMock()),
            "headrace.mirror.equality.iceberg_equals_delta": gives(Comparison(True, "equal", 7)),
        },
    ),
    "audit": (
        [NODE, "--against", "file:/copy"],
        KNOWN | {"headrace.explain.tables.audited_table.audit_table": gives(AUDIT)},
    ),
    "verify": ([NODE], {"headrace.lifecycle.backfill.verify": gives([VERDICT])}),
    "limits": ([NODE], {"headrace.lifecycle.live_limits.limits_known": None}),
    "dead-letters": (
        [TOPIC],
        KNOWN | {"headrace.observe.fates.fated_records.FatedRecords": Lines(of_log=([FOUND], 1))},
    ),
    "records": (
        [NODE, "late"],
        KNOWN | {"headrace.observe.fates.fated_records.FatedRecords": Lines(of_node=[FOUND])},
    ),
    "refused": (
        [NODE],
        KNOWN
        | {
            "headrace.observe.fates.refused_rows.refused_rows": gives(
                [RefusedRows("kafka-totals", "too long", 2, ('{"n":1}',))]
            ),
        },
    ),
    "failing": (
        [NODE],
        KNOWN
        | {
            "headrace.quality.figures.failing_rows.failing_rows": gives(
                [FailingRows("expect_n", "n: values to be between", 9, 1, [{"sensor_id": "s1", "n": 5}])]
            ),
        },
    ),
    "erasures": ([], {"headrace.lifecycle.pending_erasures.pending": gives([Pending(NODE, TOPIC, 0)])}),
    "plan": ([], {"headrace.changing.plan_changes.plan_changes": gives(ChangePlan((), (), ()))}),
    "apply": ([], {"headrace.changing.apply_changes.ApplyChanges": APPLY}),
    "rollback": ([], {"headrace.changing.roll_back.roll_back": gives([NODE])}),
    "pause": ([NODE], {}),
    "resume": ([NODE], {}),
    "set-limits": (
        [NODE, "--max-records", "5"],
        {"headrace.lifecycle.live_limits.set_limits": gives(LIMITS)},
    ),
    "set-trigger": (["500"], {}),
    "rebuild": (
        [NODE],
        {
            "headrace.lifecycle.rebuilds.rebuild.rebuild_due": lambda *_: rebuilt(),
            "headrace.spark.session.pipeline_session": gives(None),
        },
    ),
    "redeliver": (
        [NODE],
        {"headrace.writing.delivery.redeliver.redeliver": gives([Redelivered("kafka", 1, 2)])},
    ),
    "maintain": ([], {"headrace.lifecycle.maintenance.Maintenance": Lines(run=[UPKEPT])}),
    "retain": (
        [TOPIC, "--before", "2026-11-01"],
        {"headrace.lifecycle.retention.Retention": Lines(run=Cut(TOPIC, 5, 3, (NODE,)))},
    ),
    "erase": ([TOPIC, "a"], {"headrace.lifecycle.erasure.Erasure": Lines(run=[Erased(NODE, "results", 3)])}),
    "repair": (
        [TOPIC],
        {"headrace.lifecycle.log_repair.repair.Repair": Lines(run=[Repaired(NODE, "mended")])},
    ),
    "redrive": ([TOPIC], {"headrace.lifecycle.redrive.Redrive": Lines(run=LEFT)}),
    "accept-gap": ([TOPIC], {"headrace.lifecycle.log_repair.gaps.accept_gap": gives({0: (3, 5)})}),
    "reset-guard": ([TOPIC, "root"], {"headrace.lifecycle.log_repair.guards.reset_guard": gives([0])}),
    "new": (["my_streams"], {}),
    "fetch-jars": (["jars"], {"headrace.cli.setting_up.fetch_jars": gives(Path("jars"))}),
    "config show": ([], {}),
    "config check": (
        [],
        {"headrace.preflight.check_configuration": gives([Finding("Kafka", "no", "start it")])},
    ),
}


def names_of(group: Any, prefix: str = "") -> Iterator[str]:
    for name, command in getattr(group, "commands", {}).items():
        if hasattr(command, "commands"):
            yield from names_of(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}"


def ran(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> Any:
    words, stand_ins = CASES[name]
    monkeypatch.setenv("HEADRACE_LAKE", f"file:{tmp_path / 'lake'}")
    monkeypatch.setenv("HEADRACE_PIPELINE", "assets")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("headrace.cli.console.deployment.session", gives(Lines()))
    for place, stand_in in stand_ins.items():
        monkeypatch.setattr(place, stand_in or known_limits)
    monkeypatch.setattr("signal.signal", gives(None))
    return CliRunner().invoke(app, [*name.split(), *words, *more], env={"COLUMNS": "160"})


def known_limits(lake: Any, node: Any) -> Any:
    from headrace.description.limits import policy_of

    return policy_of(node), [LIMITS]


def test_there_is_a_case_for_every_command() -> None:
    assert {*names_of(get_command(app))} == {*CASES}


@pytest.mark.parametrize("name", CASES)
def test_a_command_prints_objects_for_programs_and_sentences_for_people(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").mkdir()
    for_people = ran(name, tmp_path / "one", monkeypatch)
    assert for_people.exit_code in (0, 1), for_people.output
    assert for_people.stdout.strip()
    assert name == "get" or not for_people.stdout.startswith("{")
    (tmp_path / "other").mkdir()
    for_programs = ran(name, tmp_path / "other", monkeypatch, "--json")
    assert for_programs.exit_code == for_people.exit_code, for_programs.output
    told = [json.loads(line) for line in for_programs.stdout.splitlines()]
    assert told
    assert all(isinstance(each, dict) and each for each in told)


def test_programs_get_all_that_people_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (verdict,) = map(json.loads, ran("verify", tmp_path, monkeypatch, "--json").stdout.splitlines())
    assert verdict["day"] == "2026-11-01"
    assert verdict["first_differences"] == ["log: n=1", "table: n=2"]
    assert not verdict["equal"]
    (redriven,) = map(json.loads, ran("redrive", tmp_path, monkeypatch, "--json").stdout.splitlines())
    assert redriven == {
        "topic": TOPIC,
        "dry_run": False,
        "sent": 2,
        "before": 1,
        "left": {"value: no JSON": 3},
        "missing": [[0, 7]],
    }
    narrowed = ran("redrive", tmp_path, monkeypatch, "--reason", "UTF-8").stdout
    # Before, it was said to be none, although only its reason is another one.
    assert "Partition 0, offset 7 is no dead letter whose reason contains 'UTF-8'." in narrowed
    said = [json.loads(line) for line in ran("demo", tmp_path, monkeypatch, "--json").stdout.splitlines()]
    assert said == [{"said": "starting a broker"}, {"said": "ready"}], "no colours, no marks"


@pytest.mark.parametrize(
    ("error", "retry"),
    [(TerminalError("no", detail="why", hint="do"), False), (TransientError("later"), True)],
)
def test_programs_get_errors_as_objects_too(
    error: Any, retry: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: Any) -> None:
        raise error

    monkeypatch.setattr("headrace.lifecycle.pending_erasures.pending", fails)
    monkeypatch.setattr("sys.argv", ["headrace", "erasures", "--json"])
    with pytest.raises(SystemExit) as ended:
        commands.main()
    assert ended.value.code == (75 if retry else 2)
    told = capsys.readouterr()
    assert not told.out
    assert json.loads(told.err) == {
        "error": error.message,
        "detail": error.detail,
        "hint": error.hint,
        "retry": retry,
    }


def test_no_command_prints_another_way() -> None:
    """Only `telling` and `long_work` may print; rows of CSV and tables that stay current are not for programs."""
    found = [
        f"{path.name}:{call.lineno}"
        for path in Path(headrace.cli.__file__).parent.rglob("*.py")
        if path.name not in ("telling.py", "long_work.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) in ("typer.echo", "typer.secho", "print", "Console().print")
    ]
    assert not found, "print with headrace.cli.console.telling.tell"
