"""`headrace dev`: a project on this machine while it is written. A saved file is planned, applied, and runs.

The parts are processes of their own, so that each start reads the code anew: the stream (`headrace run`), the traffic, and
Dagster's UI. Spark and the broker are those of a deployment.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.description.printed_sink import VARIABLE as PRINT_SINKS
from headrace.local import lifeline
from headrace.local.broker import Broker
from headrace.local.dagster_ui import require_free, tail_of, wait_for_ui
from headrace.local.schema_registry import SchemaRegistry
from headrace.local.settings_file import read_settings_file, second_terminal, write_settings
from headrace.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

KAFKA, REGISTRY = "HEADRACE_KAFKA_BOOTSTRAP_SERVERS", "HEADRACE_DEV_REGISTRY"
# Of a deployment's settings those by which this machine would speak in its name.
OF_A_DEPLOYMENT = re.compile(r"HEADRACE_(SLACK|SMTP)_.*|DAGSTER_.*|HEADRACE_(LAKE|METRICS_.*|DOCS.*)")
EVERY_SECONDS, DRAIN_SECONDS = 1.0, 90.0
DEFINITIONS = """from headrace.orchestration import build_definitions
from headrace.settings import Settings, load_pipeline

defs = build_definitions(load_pipeline(Settings().pipeline), partitions_start="2026-01-01")
"""
DAGSTER = "telemetry: {enabled: false}\nnux: {enabled: false}\n"
COMMAND = [sys.executable, "-c", "from headrace.cli import main; main()"]


def run_dev(*, port: int, source: Path | None, ui: bool, console: Console) -> None:
    """Start the parts, follow the project's files, and stop everything on Ctrl-C.

    In: port    of Dagster's UI
        source  a file with the settings of a deployment: its topics are read, and every sink prints; None: as configured
        ui      whether Dagster's UI is started
    """
    name = "dev" if source is None else f"dev-{source.stem}"
    home = Path.cwd() / ".headrace" / name
    home.mkdir(parents=True, exist_ok=True)
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    if ui:
        require_free(port)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with ExitStack() as stack, suppress(KeyboardInterrupt):
        settings = private_settings(home, None if source is None else read_settings_file(source))
        has_kafka = KAFKA in settings or bool(os.environ.get(KAFKA))
        if not has_kafka:
            console.print("starting a Kafka broker and a schema registry: no Kafka is configured")
            broker = stack.enter_context(Broker(home / "kafka"))
            registry = stack.enter_context(SchemaRegistry(home / "registry"))
            settings |= {KAFKA: broker.bootstrap_servers, REGISTRY: registry.url}
        settings.setdefault(KAFKA, os.environ.get(KAFKA, ""))
        os.environ.update(settings)
        dev = _Parts(home, console, sends=not has_kafka)
        stack.callback(dev.stop)
        dev.apply()
        if ui:
            _start_ui(stack, home, port, console)
        console.print(second_terminal(write_settings(home, settings)), soft_wrap=True, markup=False)
        console.print(f"Save a file of '{Settings().pipeline}', and it is applied. Ctrl-C stops everything.")
        dev.follow()


def private_settings(home: Path, source: Mapping[str, str] | None) -> dict[str, str]:
    """The settings of the parts: the lake and Dagster's records lie below `home`.

    In:  source  of a deployment: then nothing is delivered, nobody is told, and no consumer group is moved
    """
    ours = {
        "HEADRACE_LAKE": f"file:{home / 'lake'}",
        "DAGSTER_HOME": str(home / "dagster"),
        "PYTHONUNBUFFERED": "1",
    }
    if source is None:
        return ours
    read = {name: value for name, value in source.items() if not OF_A_DEPLOYMENT.fullmatch(name)}
    return read | ours | {"HEADRACE_KAFKA_GROUP": "", PRINT_SINKS: str(home / "sinks.jsonl")}


class _Parts:
    """The stream and the traffic of a project, as its files are now."""

    def __init__(self, home: Path, console: Console, *, sends: bool) -> None:
        self._home, self._console, self._sends = home, console, sends
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._printed = 0
        self._files = self._watched()

    def apply(self) -> None:
        """Plan the pipeline, and start it if nothing is refused; what runs goes on until then."""
        code, plan = self._run("plan")
        words = [line for line in plan.splitlines() if line and not line.endswith(": unchanged")]
        self._console.print("\n".join(words), soft_wrap=True, markup=False)
        if code:
            self._console.print("Nothing was changed: correct the file, and save it.")
            return
        self.stop()
        if words[-1:] != ["Nothing is to be applied."]:
            code, applied = self._run("apply")
            self._console.print(applied, soft_wrap=True, markup=False)
            if code:
                return
        if self._sends:
            traffic = [sys.executable, "-m", "headrace.local.dev_traffic", os.environ[KAFKA]]
            subprocess.run([*traffic, "topics"], check=True)
            self._start("traffic", traffic)
        self._start("stream", [*COMMAND, "run"])

    def follow(self) -> None:
        """Apply each saved change, and print what sinks would get; until Ctrl-C."""
        while True:
            time.sleep(EVERY_SECONDS)
            files = self._watched()
            if files != self._files:
                changed = sorted({path.name for path, _ in files ^ self._files})
                self._files = files
                self._console.print(f"{time.strftime('%H:%M:%S')}  {', '.join(changed)} changed")
                self.apply()
            self._print_sinks()
            for name in [name for name, each in self._running.items() if each.poll() is not None]:
                del self._running[name]
                words = tail_of(self._home / f"{name}.log")
                self._console.print(
                    f"The {name} ended; save a file to start it again.\n{words}", markup=False
                )

    def stop(self) -> None:
        """Stop the stream, which finishes its micro-batches, and the traffic."""
        for process in self._running.values():
            lifeline.stop(process, patience_s=DRAIN_SECONDS)
        self._running = {}

    def _start(self, name: str, command: list[str]) -> None:
        log = self._home / f"{name}.log"
        self._running[name] = lifeline.spawn(command, log=log, cwd=Path.cwd())

    def _run(self, command: str) -> tuple[int, str]:
        done = subprocess.run([*COMMAND, command], capture_output=True, text=True, check=False)
        return done.returncode, (done.stdout + (done.stderr if done.returncode else "")).strip()

    def _watched(self) -> frozenset[tuple[Path, int]]:
        spec = find_spec(Settings().pipeline)
        places = (spec.submodule_search_locations or []) if spec else []
        paths = [path for place in places for path in Path(place).glob("*.py")]
        if spec is not None and spec.origin is not None and not places:
            paths.append(Path(spec.origin))
        return frozenset((path, path.stat().st_mtime_ns) for path in paths if path.exists())

    def _print_sinks(self) -> None:
        path = Path(os.environ.get(PRINT_SINKS, ""))
        if path.is_file():
            lines = path.read_text(encoding="utf-8").splitlines()
            for line in lines[self._printed :]:
                self._console.print(line, soft_wrap=True, markup=False)
            self._printed = len(lines)


def _start_ui(stack: ExitStack, home: Path, port: int, console: Console) -> None:
    """Dagster's UI over the project's definitions, or over its nodes where it has none."""
    folder = home / "dagster"
    folder.mkdir(exist_ok=True)
    (folder / "dagster.yaml").write_text(DAGSTER, encoding="utf-8")
    pipeline = Settings().pipeline
    module = f"{pipeline}.definitions"
    if _has(module):
        location = ["-m", module]
    else:
        (home / "definitions.py").write_text(DEFINITIONS, encoding="utf-8")
        location = ["-f", str(home / "definitions.py")]
    command = [sys.executable, "-m", "dagster", "dev", "-h", "127.0.0.1", "-p", str(port), *location]
    console.print("starting Dagster's UI (half a minute)")
    dagster = lifeline.spawn(command, log=home / "dagster.log", cwd=Path.cwd())
    stack.callback(lifeline.stop, dagster)
    wait_for_ui(dagster, port, home / "dagster.log")
    console.print(f"Open http://127.0.0.1:{port}")


def _has(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the pipeline is no package
        return False
