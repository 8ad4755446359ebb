"""`headrace new`, from the wheel as users install it: the project's own tests pass in an empty folder."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
import zipfile
from collections import Counter
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Any

import pytest
from dagster import DefaultSensorStatus
from hatchling.builders.wheel import WheelBuilder

from headrace.cli import GROUPS
from headrace.cli.console.installed_from import installed_from
from headrace.cli.new_project import make_project
from headrace.cli.setting_up import fetch_jars
from headrace.errors import TerminalError
from headrace.local.development.dev import DEFINITIONS
from headrace.settings.pipeline import pipeline_of_project
from headrace.spark.jars import jars_dir

ROOT = Path(__file__).resolve().parents[2]
RUN = "import sys; from headrace.cli import main; sys.argv[0] = 'headrace'; main()"

# One process answers all of them, so that Spark starts once.
ASK = """
import json, sys
from typer.testing import CliRunner
from headrace.cli import app
from headrace.errors import HeadraceError
for command, _, _ in json.loads(sys.argv[1]):
    done = CliRunner().invoke(app, command)
    if not isinstance(done.exception, (HeadraceError, SystemExit, type(None))):
        raise done.exception
    refused = isinstance(done.exception, HeadraceError)  # the command line prints it, and ends with 2
    print(json.dumps([2, str(done.exception)] if refused else [done.exit_code, done.output]))
"""
BEFORE = "2026-01-01T00:00:00"
# Each command as it is asked in an untouched project after its demo: its words, its exit code, and what it says.
ASKED: dict[str, tuple[list[str], int, str]] = {
    "describe": (["describe"], 0, "alerts"),
    "preview": (["preview", "alerts"], 0, "records: "),
    "status": (["status"], 0, "120"),
    "tail": (["tail", "alerts", "--no-follow"], 0, "north"),
    "sql": (["sql", "SELECT * FROM alerts"], 0, "north"),
    "get": (["get", "alerts", "north"], 0, '"shop": "north", "window_start"'),
    "why": (["why", "alerts", "shop=north"], 0, "1 record made it:"),
    "why-not": (["why-not", "payments", "0", "0"], 0, "event 20"),
    "what-if": (["what-if", "declined_per_minute", "grace=5 minutes"], 0, "windows that would differ"),
    "audit": (["audit", "alerts", "--against", "{lake}/tables/alerts"], 0, "rows that the log says"),
    "verify": (["verify", "alerts", "--oracle"], 0, "no row differs"),
    "limits": (["limits", "alerts"], 2, "alerts"),
    "dead-letters": (["dead-letters", "payments"], 0, "no dead letters"),
    "records": (["records", "declined_per_minute", "filtered"], 0, "by the description"),
    "refused": (["refused", "alerts"], 0, "alerts"),
    "failing": (["failing", "alerts"], 0, "alerts"),
    "erasures": (["erasures"], 0, "No erasure is pending."),
    "plan": (["plan", "--rows"], 0, "No row of any node changes."),
    "apply": (["apply"], 0, "Nothing was to be applied."),
    "rollback": (["rollback"], 2, "There is nothing to go back to"),
    "pause": (["pause", "alerts"], 0, "alerts"),
    "resume": (["resume", "alerts"], 0, "alerts"),
    "set-limits": (["set-limits", "alerts", "--max-records", "5"], 2, "is not suppressed"),
    "set-trigger": (["set-trigger", "2000"], 0, "trigger_ms 2000"),
    "rebuild": (["rebuild", "alerts"], 0, "those of this description"),
    "redeliver": (["redeliver", "alerts"], 2, "has no sink"),
    "backup": (["backup", "copy"], 0, "Backed up to 'copy'"),
    "restore": (["restore", "copy"], 2, "is not empty"),
    "mirror": (["mirror"], 2, "No Iceberg catalog is named."),
    "maintain": (["maintain"], 0, "files became"),
    "retain": (["retain", "payments", "--before", BEFORE], 0, "nothing is older"),
    "erase": (["erase", "payments", "south"], 0, "60 rows"),
    "reset-guard": (["reset-guard", "payments", "orders"], 2, "no replay guard"),
    "config check": (["config", "check"], 1, "WRONG  Kafka"),
    "config show": (["config", "show"], 0, "HEADRACE_LAKE=file:"),
}
# They run until Ctrl-C, need Kafka, or make and fetch what this test uses.
NOT_ASKED = {
    *("run", "dev", "demo", "demo-once"),
    *("repair", "redrive", "accept-gap"),
    *("new", "fetch-jars"),
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds what the wheel installs, and nothing of the checkout."""
    folder = tmp_path_factory.mktemp("installed")
    wheel = next(WheelBuilder(str(ROOT)).build(directory=str(folder / "dist"), versions=["standard"]))
    zipfile.ZipFile(wheel).extractall(folder / "site")
    return folder / "site"


def run(installed: Path, cwd: Path, *command: str, code: int = 0, lake: str | None = None) -> str:
    """Run Python where `headrace` is the installed one; its output, when it ends with this code."""
    environment = {**os.environ, "PYTHONPATH": str(installed), "HEADRACE_JARS": str(jars_dir())}
    environment.pop("HEADRACE_LAKE", None)
    environment |= {} if lake is None else {"HEADRACE_LAKE": lake}
    done = subprocess.run(
        [sys.executable, *command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
    assert "Traceback" not in done.stderr, done.stderr[-3000:]
    return done.stdout + (done.stderr if code else "")


@pytest.mark.spark
@pytest.mark.broker
def test_a_project_made_from_the_wheel_passes_its_own_tests_and_shows_an_alert(
    installed: Path, tmp_path: Path
) -> None:
    where = run(installed, tmp_path, "-c", "import headrace; print(headrace.__file__)")
    assert Path(where.strip()).is_relative_to(installed)
    said = run(installed, tmp_path, "-c", RUN, "new", "my_streams")
    assert "cd my_streams" in said
    project = tmp_path / "my_streams"
    assert "2 passed" in run(installed, project, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert (project / ".github" / "workflows" / "ci.yaml").is_file()
    assert (project / "compose.yaml").is_file()
    shown = run(installed, project, "-m", "my_streams.demo")
    assert "sent 120 records" in shown
    assert "alerts: 1 row" in shown
    assert "Recomputed from the log: the same tables." in shown
    (lake,) = (project / ".headrace" / "once").glob("*/lake")
    answers = run(
        installed,
        project,
        "-c",
        ASK,
        json.dumps([*ASKED.values()]).replace("{lake}", str(lake)),
        lake=f"file:{lake}",
    )
    outcomes = dict(zip(ASKED, map(json.loads, answers.splitlines()), strict=True))
    for command, (_, expected, words) in ASKED.items():
        code, said = outcomes[command]
        assert (code, words in said) == (expected, True), f"{command} ({code}): {said}"
    assert outcomes["describe"][1].count("suppress until the window closes") == 2  # once for each node
    assert f"HEADRACE_LAKE=file:{lake}" in outcomes["config show"][1]


@pytest.mark.fast
def test_every_command_that_needs_no_cluster_is_asked() -> None:
    commands = {command for group in GROUPS.values() for command in group}
    assert commands == {name.partition(" ")[0] for name in ASKED} - {"config"} | NOT_ASKED


@pytest.mark.fast
def test_a_project_says_what_dg_and_pip_ask(tmp_path: Path) -> None:
    project = make_project("my-streams", tmp_path)
    described = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
    assert described["project"]["name"] == "my-streams"
    assert described["tool"]["dg"]["directory_type"] == "project"
    assert described["tool"]["dg"]["project"]["root_module"] == "my_streams"
    assert pipeline_of_project(project) == "my_streams"
    assert pipeline_of_project(tmp_path) == "assets"
    copied = {*(project / "deploy").rglob("*")}  # as they are: see the test of the dashboard
    for path in {*project.rglob("*")} - copied:
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        assert "{{" not in text.replace("${{", ""), path  # GitHub's own begin with a dollar
        if path.suffix == ".py":
            compile(path.read_text(encoding="utf-8"), str(path), "exec")
    assert (project / ".gitignore").is_file()
    assert (project / ".dockerignore").is_file()


@pytest.mark.dagster
def test_the_checks_of_a_new_project_run_once_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project("first_looked_at", tmp_path)
    monkeypatch.syspath_prepend(str(project))
    for code in ((project / "first_looked_at" / "definitions.py").read_text(encoding="utf-8"), DEFINITIONS):
        monkeypatch.setenv("HEADRACE_PIPELINE", "first_looked_at")
        loaded: dict[str, Any] = {}
        exec(code, loaded)
        sensor = loaded["defs"].get_sensor_def("first_checks")
        assert (
            sensor.default_status is DefaultSensorStatus.RUNNING
        )  # before: "0 / 4 Passed" until a person ran them


@pytest.mark.fast
@pytest.mark.parametrize(
    ("schema", "file"),
    [("compose-spec", "compose.yaml"), ("github-workflows", ".github/workflows/ci.yaml")],
)
def test_ci_and_compose_are_what_their_schemas_allow(schema: str, file: str, tmp_path: Path) -> None:
    project = make_project("my-streams", tmp_path)
    check = Path(sys.executable).parent / "check-jsonschema"
    command = [str(check), "--builtin-schema", f"vendor.{schema}", str(project / file)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.fast
def test_ci_runs_what_the_makefile_has(tmp_path: Path) -> None:
    project = make_project("my-streams", tmp_path)
    makefile = (project / "Makefile").read_text(encoding="utf-8")
    ci = (project / ".github/workflows/ci.yaml").read_text(encoding="utf-8")
    runs = re.findall(r"run: make (\w+)", ci)
    assert runs == ["setup", "test", "demo"]
    assert all(f"\n{target}: " in makefile for target in runs)


@pytest.mark.fast
def test_another_headrace_is_installed_though_the_project_is_set_up(tmp_path: Path) -> None:
    """`make setup HEADRACE=…` had nothing to do."""
    project = make_project("my-streams", tmp_path)
    (project / ".venv").mkdir()
    (project / ".venv" / ".ready").touch()
    words = ["make", "--dry-run", "setup"]
    said = [
        subprocess.run([*words, *more], cwd=project, capture_output=True, text=True, check=True).stdout
        for more in ([], ["HEADRACE=other.whl"])
    ]
    assert ["other.whl" in each for each in said] == [False, True]
    assert "pip install" not in said[0]


@pytest.mark.fast
@pytest.mark.parametrize("start_ms", [0, 59_999, 1_795_800_022_626])
def test_the_demo_has_one_alert_whenever_it_is_run(start_ms: int, tmp_path: Path) -> None:
    (demo,) = make_project("my-streams", tmp_path).rglob("demo.py")
    told: dict[str, Any] = {}
    code = demo.read_text(encoding="utf-8").partition("if __name__")[0]
    exec("\n".join(line for line in code.splitlines() if not line.startswith("from ")), told)
    declined = Counter(
        (shop, at_ms // 60_000) for _, shop, value, at_ms in told["payments"](start_ms) if value["declined"]
    )
    assert [number for number in declined.values() if number >= 3] == [3]


@pytest.mark.fast
@pytest.mark.parametrize("name", ["My Streams", "class", "headrace", "2fast"])
def test_a_name_that_no_package_can_have_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(TerminalError, match="cannot be a project's name"):
        make_project(name, tmp_path)
    assert not any(tmp_path.iterdir())


@pytest.mark.fast
def test_a_folder_that_holds_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("kept")
    with pytest.raises(TerminalError, match="holds files"):
        make_project("mine", tmp_path)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["file"]


@pytest.mark.fast
def test_jars_that_are_there_are_not_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / ".resolved").touch()
    assert fetch_jars(tmp_path / "jars") == tmp_path / "jars"
    assert [path.name for path in (tmp_path / "jars").iterdir()] == [".resolved"]


@pytest.mark.fast
def test_the_wheel_has_the_jars_and_the_rules_of_prometheus_where_it_looks_for_them(
    installed: Path, tmp_path: Path
) -> None:
    for name in ("jars", "monitoring"):
        ask = f"from headrace.cli.setting_up import deployed; print(deployed({name!r}))"
        folder = Path(run(installed, tmp_path, "-c", ask).strip())
        assert folder.is_relative_to(installed)  # before: a folder of the working directory, that nobody has
        assert {file.name for file in folder.iterdir()} >= {
            file.name for file in (ROOT / "deploy" / name).iterdir() if file.is_file()
        }


@pytest.mark.fast
def test_a_project_has_the_rules_of_prometheus_and_the_dashboard(tmp_path: Path) -> None:
    ours, theirs = ROOT / "deploy" / "monitoring", make_project("mine", tmp_path) / "deploy" / "monitoring"
    assert {file.name: file.read_text() for file in theirs.iterdir()} == {
        file.name: file.read_text() for file in ours.iterdir()
    }


def described(direct_url: dict[str, Any] | None, folder: Path) -> PathDistribution:
    """A distribution that was installed from there. In: direct_url  None: from an index."""
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: headrace\nVersion: 0.1.0\n")
    if direct_url is not None:
        (folder / "direct_url.json").write_text(json.dumps(direct_url))
    return PathDistribution(folder)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("direct_url", "argument"),
    [
        (None, None),
        (
            {"url": "file:///opt/a%20b/headrace-0.1.0.whl", "archive_info": {}},
            "/opt/a b/headrace-0.1.0.whl",
        ),
        ({"url": "file:///src/headrace", "dir_info": {"editable": True}}, "--editable=/src/headrace"),
        ({"url": "file:///src/headrace", "dir_info": {}}, "/src/headrace"),
        (
            {"url": "https://example.org/h.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "headrace @ git+https://example.org/h.git@abc",
        ),
        (
            {"url": "https://example.org/headrace-0.1.0.whl", "archive_info": {}},
            "headrace @ https://example.org/headrace-0.1.0.whl",
        ),
    ],
)
def test_the_source_of_headrace_is_what_pip_takes(
    direct_url: dict[str, Any] | None, argument: str | None, tmp_path: Path
) -> None:
    assert installed_from(described(direct_url, tmp_path)) == argument


@pytest.mark.fast
@pytest.mark.slow
def test_setup_installs_headrace_from_where_the_running_one_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path / "dist"), versions=["standard"]))
    module = sys.modules[make_project.__module__]  # `headrace.cli` has a function of its name
    monkeypatch.setattr(module, "installed_from", lambda: wheel)
    project = make_project("my_streams", tmp_path)
    shown = subprocess.run(
        ["make", "-n", "setup"], cwd=project, capture_output=True, text=True, check=True
    ).stdout
    (line,) = (line for line in shown.splitlines() if "pip install" in line)
    assert shlex.split(line)[-3:] == [wheel, "--editable", ".[dev]"]
    assert "--quiet" not in line
    assert "setup 2/3" in shown
    target = ["--target", str(tmp_path / "site"), "--no-deps", "--no-index", "--quiet"]
    subprocess.run([sys.executable, "-m", "pip", "install", *target, wheel], check=True)
    assert (tmp_path / "site" / "headrace" / "__init__.py").is_file()
