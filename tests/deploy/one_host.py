"""`compose.yaml` without containers: its commands as processes of this machine, with other ports and folders.

Kafka and PostgreSQL come from `headrace.local`. Everything else runs by the words of the file: S3, Spark, Dagster, the check,
the report, and what asks whether each of them is well.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import yaml

from headrace.local.object_store import program
from headrace.local.postgres import Postgres
from headrace.local.servers import lifeline
from headrace.local.servers.broker import Broker
from headrace.local.servers.broker_config import HOST, free_port
from headrace.local.servers.topics import create_topics
from headrace.spark.jars import java, spark_jars
from headrace.writing.leases.processes import born, runs
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import ExitStack

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
LOCATION = ("assets", "jobs")
SECRETS = {"AWS_ACCESS_KEY_ID": "COMPOSE", "AWS_SECRET_ACCESS_KEY": "not-for-use-elsewhere"}
OWN_IMAGE = "headrace:"
# Of the S3 server: ports of parts that no other service asks for, and parts that nobody uses.
INNER_PORTS = (
    "master.port",
    "master.port.grpc",
    "volume.port",
    "filer.port.grpc",
    "s3.port.grpc",
    "admin.port",
)
UNUSED = ("-webdav=false", "-admin.ui=false", "-s3.port.iceberg=0", "-s3.port.lance=0")


class OneHost:
    """The services of the file; each starts when those that it depends on are as it wants them."""

    def __init__(self, folder: Path, stack: ExitStack, **variables: str) -> None:
        """Nothing starts yet. In: variables  more of the environment of the image's containers."""
        text = (ROOT / "deploy/compose.yaml").read_text(encoding="utf-8")
        self.services: dict[str, Any] = yaml.safe_load(text)["services"]
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._folder, self._stack, self._variables = folder, stack, variables
        self._ports: dict[str, str] = {}
        self._dsn = ""
        self.checked = ""  # what the check has printed
        for name in ("location", "dagster", "docs", "s3", "home"):
            (folder / name).mkdir()
        for name in LOCATION:
            shutil.copytree(ROOT / name, self.location / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copyfile(ROOT / "deploy/dagster.yaml", folder / "dagster/dagster.yaml")
        workspace = (ROOT / "deploy/image/workspace.yaml").read_text(encoding="utf-8")
        (folder / "workspace.yaml").write_text(workspace.replace("4000", self.port("4000")))

    @property
    def location(self) -> Path:
        """The folder in which the image's commands begin."""
        return self._folder / "location"

    @property
    def bootstrap_servers(self) -> str:
        """The address of Kafka."""
        return f"{HOST}:{self.port('9092')}"

    @property
    def environment(self) -> dict[str, str]:
        """What containers of the image are given, by the file and by the image."""
        given = {name: self._here(text) for name, text in self.services["code"]["environment"].items()}
        return {
            "PATH": os.pathsep.join([str(BIN), str(Path(java()).parent), os.environ["PATH"]]),
            "HOME": str(self._folder / "home"),
            "JDK_JAVA_OPTIONS": os.environ.get(
                "JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
            ),
            "HEADRACE_JARS": str(Path(spark_jars()[0]).parents[1]),
            "DAGSTER_HOME": str(self._folder / "dagster"),
            "PYSPARK_PYTHON": sys.executable,
            "GX_ANALYTICS_ENABLED": "false",
            **given,
            "DAGSTER_POSTGRES_URL": self._dsn,
            "HEADRACE_POSTGRES_DSN": self._dsn,
            **self._variables,
        }

    def port(self, of: str) -> str:
        """The port on this machine that stands for one of the file."""
        return self._ports.setdefault(of, str(free_port()))

    def start_all(self) -> None:
        """Start every service, in the order in which Compose does."""
        left = dict(self.services)
        while left:
            ready = [
                name for name, each in left.items() if not left.keys() & each.get("depends_on", {}).keys()
            ]
            for name in ready:
                self._start(name)
                del left[name]

    def ran(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a command of the image to its end."""
        return subprocess.run(
            command, env=self.environment, cwd=self.location, capture_output=True, text=True, check=False
        )

    def said(self, name: str) -> str:
        """What a service has printed."""
        log = self._folder / f"{name}.log"
        return log.read_text(errors="replace")[-5000:] if log.is_file() else ""

    def _start(self, name: str) -> None:
        service = self.services[name]
        if name == "kafka":
            self._stack.enter_context(Broker(self._folder / "kafka", int(self.port("9092"))))
        elif name == "postgres":
            self._begin_postgres()
        elif name == "topics":
            create_topics(self.bootstrap_servers, dict.fromkeys(service["environment"]["TOPICS"].split(), 4))
        elif name == "check":
            done = self.ran(service["command"])
            assert done.returncode == 0, done.stdout + done.stderr
            self.checked = done.stdout
        else:
            self._spawn(name)
            self._wait(name)

    def _begin_postgres(self) -> None:
        dsn = self._stack.enter_context(Postgres(self._folder / "postgres")).dsn
        database = self.services["postgres"]["environment"]["POSTGRES_DB"]
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {database}")
        self._dsn = f"{dsn.rpartition('/')[0]}/{database}"

    def _spawn(self, name: str) -> None:
        service = self.services[name]
        if service["image"].startswith(OWN_IMAGE):
            command, environment = [self._here(word) for word in service["command"]], self.environment
        else:
            words = [program(), *map(self._here, service["command"].split()), *UNUSED]
            inner = [f"-{part}={free_port()}" for part in INNER_PORTS]
            command = [*words, *inner, f"-filer.port={self.port('8888')}"]
            environment = {"PATH": os.environ["PATH"], "HOME": str(self._folder / "home"), **SECRETS}
        log = self._folder / f"{name}.log"
        process = lifeline.spawn(command, log=log, env=environment, cwd=self.location)
        self._stack.callback(_end, process)
        self.processes[name] = process

    def _wait(self, name: str) -> None:
        """Until the service's own question says that it is well; without one, until it has lived for a moment."""
        asked = self.services[name].get("healthcheck", {}).get("test")

        def is_well() -> bool:
            found = self._is_well(asked)
            assert self.processes[name].poll() is None, self.said(name)
            return found

        # Each question to Dagster imports it, which takes as much as what it asks about has to do.
        every_s = 2.0 if asked is not None and asked[1].startswith("dagster") else 0.5
        until(is_well, told=lambda: f"{name} is not well: {self.said(name)}", every_s=every_s)

    def _is_well(self, asked: list[str] | None) -> bool:
        if asked is None:
            time.sleep(1)
            return True
        words = [self._here(word) for word in asked[1:]]
        return self.ran(words if asked[0] == "CMD" else ["sh", "-c", *words]).returncode == 0

    def _here(self, text: str) -> str:
        """Words of the file with the names, ports and folders of this machine."""
        names = "|".join(sorted(self.services, key=len, reverse=True))
        text = re.sub(r"\$\{(\w+)[^}]*\}", lambda found: SECRETS.get(found[1], found[1]), str(text))
        text = re.sub(rf"(?<![\w-])({names}|localhost|0\.0\.0\.0)(?=:\d|$)", HOST, text)
        for inside, outside in (
            ("/opt/headrace/workspace.yaml", "workspace.yaml"),
            ("/var/lib/headrace/docs", "docs"),
            ("/tmp/work", "work"),
            ("=/data", "s3"),
        ):
            if text.endswith(inside):
                text = f"{'=' if inside.startswith('=') else ''}{self._folder / outside}".join(
                    [text.removesuffix(inside), ""]
                )
        return re.sub(r"(?<=[:=])\d{4}\b|^\d{4}$", lambda found: self.port(found[0]), text)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a service, and what it has started: in a container nothing outlives the first process."""
    below = {pid: born(pid) for pid in lifeline.descendants(process.pid)}
    lifeline.stop(process)
    for pid, began in below.items():
        if runs(pid, began):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
