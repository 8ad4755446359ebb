"""`headrace dev`: a project on this machine while it is written. A saved file is planned, applied, and runs.

The parts are processes of their own, so that each start reads the code again: the stream, which is a run of Dagster, the
traffic, and Dagster's UI. Spark and the broker are those of a deployment.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.description.printed_sink import VARIABLE as PRINT_SINKS
from headrace.local.development.dev_errors import last_words
from headrace.local.development.dev_traffic import TRAFFIC
from headrace.local.schema_registry import SchemaRegistry
from headrace.local.servers import lifeline
from headrace.local.servers.broker import Broker
from headrace.local.servers.dagster_ui import create_databases, reload_code, require_free, wait_for_ui
from headrace.local.servers.descendants import end_with_descendants
from headrace.local.servers.settings_file import read_settings_file, second_terminal, write_settings
from headrace.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.console import Console

KAFKA, REGISTRY = "HEADRACE_KAFKA_BOOTSTRAP_SERVERS", "HEADRACE_DEV_REGISTRY"
# Of a deployment's settings those by which this machine would speak in its name.
OF_A_DEPLOYMENT = re.compile(
    r"HEADRACE_(SLACK|SMTP|ICEBERG)_.*|(DAGSTER|OPENLINEAGE)_.*|HEADRACE_(LAKE|METRICS_.*|DOCS.*)"
)
EVERY_SECONDS, DRAIN_SECONDS = 1.0, 90.0
DEFINITIONS = """from headrace.orchestration import build_definitions
from headrace.settings import Settings, load_pipeline

defs = build_definitions(
    load_pipeline(Settings().pipeline), partitions_start="2026-01-01", first_checks_running=True
)
"""
DAGSTER = "telemetry: {enabled: false}\nnux: {enabled: false}\n"
# Lines of a plan that say nothing to somebody whose changes are applied at once.
NOTICED = re.compile(r": unchanged$|^To (re)?build .*: headrace apply|^Nothing is to be applied")


def run_dev(*, port: int, source: Path | None, ui: bool, console: Console) -> None:
    """Start the parts, follow the project's files, and stop everything on Ctrl-C.

    In: port    of Dagster's UI
        source  a file with the settings of a deployment: its topics are read, and every sink prints; None: as configured
        ui      whether Dagster's UI is started
    """
    name = "dev" if source is None else f"dev-{source.stem}"
    home = Path.cwd() / ".headrace" / name
    (home / "dagster").mkdir(parents=True, exist_ok=True)
    (home / "dagster" / "dagster.yaml").write_text(DAGSTER, encoding="utf-8")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    if ui:
        require_free(port)
    lifeline.hear_signals()
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
        if ui:
            create_databases()
        dev.apply()
        if ui:
            _start_ui(stack, home, port, console)
        console.print(second_terminal(write_settings(home, settings)), soft_wrap=True, markup=False)
        console.print(f"Save a file of '{Settings().pipeline}', and it is applied. Ctrl-C stops everything.")
        stack.callback(_begin_to_stop, console)
        dev.follow(applied=partial(reload_code, port) if ui else lambda: None)


def _begin_to_stop(console: Console) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    console.print("stopping: the stream finishes its micro-batches first")


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
        self._notices = Path(os.environ.get(PRINT_SINKS) or home / "notices")
        self._printed = self._notices.stat().st_size if self._notices.exists() else 0
        self._files = self._watched()

    def apply(self) -> bool:
        """Plan the pipeline, and start it if nothing is refused; what runs goes on until then. Out: if it was started."""
        code, plan = self._run_plan()
        words = [line for line in plan.splitlines() if line and not NOTICED.search(line)]
        self._console.print("\n".join(words) or "No table changes.", soft_wrap=True, markup=False)
        if code:
            self._console.print("Nothing was changed: correct the file, and save it.")
            return False
        self._print_ended()  # a part may have ended while the plan was made
        self.stop()
        bootstrap = os.environ[KAFKA] if self._sends else ""
        self._start("stream", [str(self._notices), bootstrap])
        self._start_traffic()
        return True

    def follow(self, applied: Callable[[], None]) -> None:
        """Apply each saved change, and print what the stream says; until Ctrl-C. In: applied  is called after each."""
        while True:
            time.sleep(EVERY_SECONDS)
            files = self._watched()
            if files != self._files:
                changed = sorted({path.name for path, _ in files ^ self._files})
                self._files = files
                self._console.print(f"{time.strftime('%H:%M:%S')}  {', '.join(changed)} changed")
                if changed == [TRAFFIC]:
                    self._start_traffic()
                elif self.apply():
                    applied()
            self._print_notices()
            self._print_ended()

    def stop(self) -> None:
        """Stop the stream, which finishes its micro-batches, and the traffic."""
        for process in self._running.values():
            end_with_descendants(process, patience_s=DRAIN_SECONDS)
        self._running = {}

    def _start(self, name: str, arguments: list[str]) -> None:
        command = [sys.executable, "-m", f"{__package__}.dev_{name}", *arguments]
        log = self._home / f"{name}.log"
        log.unlink(missing_ok=True)  # its last words are those of this process
        self._running[name] = lifeline.spawn(command, log=log, cwd=Path.cwd())

    def _start_traffic(self) -> None:
        if "traffic" in self._running:
            lifeline.stop(self._running.pop("traffic"))
        if self._sends:
            self._start("traffic", [os.environ[KAFKA]])

    def _run_plan(self) -> tuple[int, str]:
        command = [sys.executable, "-c", "from headrace.cli import main; main()", "plan"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, (done.stdout + (done.stderr if done.returncode else "")).strip()

    def _watched(self) -> frozenset[tuple[Path, int]]:
        spec = find_spec(Settings().pipeline)
        places = (spec.submodule_search_locations or []) if spec else []
        paths = [path for place in places for path in Path(place).rglob("*.py")]
        if spec is not None and spec.origin is not None and not places:
            paths.append(Path(spec.origin))
        return frozenset((path, path.stat().st_mtime_ns) for path in paths if path.exists())

    def _print_ended(self) -> None:
        """Print why parts have ended, before the next start removes their logs."""
        for name in [name for name, each in self._running.items() if each.poll() is not None]:
            code = self._running.pop(name).returncode
            words = last_words(self._home / f"{name}.log", code)
            again = f"The {name} ended; save a file to start it again. Its log is {self._home / name}.log"
            self._console.print(f"{words}\n{again}", markup=False, soft_wrap=True)

    def _print_notices(self) -> None:
        if not self._notices.exists():
            return
        with self._notices.open("rb") as file:
            file.seek(self._printed)
            whole, end, _ = file.read().rpartition(b"\n")
        self._printed += len(whole + end)
        for line in whole.decode("utf-8", "replace").splitlines():
            self._console.print(line, soft_wrap=True, markup=False)


def _start_ui(stack: ExitStack, home: Path, port: int, console: Console) -> None:
    """Dagster's UI over the project's definitions, or over its nodes where it has none."""
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
    stack.callback(end_with_descendants, dagster, patience_s=DRAIN_SECONDS)
    wait_for_ui(dagster, port, home / "dagster.log")
    console.print(f"Open http://127.0.0.1:{port}")


def _has(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the pipeline is no package
        return False
