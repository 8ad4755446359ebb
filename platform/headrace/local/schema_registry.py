"""A real schema registry on this machine, from its published jars: no Docker, no account.

    with SchemaRegistry(Path("data")) as registry:
        orders = hr.Topic("orders", format=hr.Avro(registry=registry.url))

Invariants:
- it listens on the loopback interface only;
- it keeps schemas in memory: a start begins without any;
- it does not outlive the process that started it.

The program is Apicurio Registry, which speaks Confluent's interface below `/apis/ccompat/v7`.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Annotated, Self

import typer

from headrace.errors import TerminalError
from headrace.local.servers import lifeline
from headrace.local.servers.broker_config import HOST, JVM_FLAGS, free_port, port_is_free
from headrace.local.servers.server import ANSWER_S, LocalServer
from headrace.spark.jars import java, registry_jar

INTERFACE = "/apis/ccompat/v7"  # Confluent's


class RegistryFailed(TerminalError):
    """The registry did not start, or ended; the detail holds the last lines of its log."""


class SchemaRegistry(LocalServer):
    """A schema registry whose log lies in a folder.

    In:     `port` None takes a free one, and keeps it over restarts of this object.
    """

    failed = RegistryFailed

    def __init__(self, data_dir: Path, port: int | None = None) -> None:
        super().__init__(data_dir.absolute(), port, "schema-registry.log")

    @property
    def title(self) -> str:
        """With its address."""
        return f"The registry on {self.url}"

    @property
    def url(self) -> str:
        """The address that `registry=` of a format takes."""
        if self.port is None:
            raise RegistryFailed("The registry has no port yet.", hint="Call start(), or name a port.")
        return f"http://{HOST}:{self.port}{INTERFACE}"

    def start(self) -> Self:
        """Launch the registry, with no schemas; does not wait until it is ready.

        Raises: RegistryFailed when the port is taken; JarsMissing.
        """
        if self.pid is not None:
            return self
        self.data_dir.mkdir(parents=True, exist_ok=True)
        if self.port is None:
            self.port = free_port()
        elif not port_is_free(self.port):
            raise RegistryFailed(
                f"Port {self.port} on {HOST} is taken.", hint="Stop what listens there, or name another port."
            )
        listens = (f"-Dquarkus.http.host={HOST}", f"-Dquarkus.http.port={self.port}")
        command = [java(), *JVM_FLAGS, *listens, "-jar", registry_jar()]
        self._process = lifeline.spawn(command, log=self.log_file, cwd=self.data_dir)
        atexit.register(self.stop)
        return self

    def stop(self) -> None:
        """Shut the registry down in order; nothing happens when it does not run."""
        self.resume()
        super().stop()

    def pause(self) -> None:
        """Make it answer nothing: connections are accepted, and wait."""
        if self.pid is not None:
            os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it answer again."""
        if self.pid is not None:
            os.kill(self.pid, signal.SIGCONT)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=ANSWER_S) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def main(
    data_dir: Annotated[Path, typer.Option(help="Folder for its log.")],
    port: Annotated[int, typer.Option(help="Port on the loopback interface.")] = 8081,
) -> None:
    """Run a schema registry on this machine until Ctrl-C; its schemas are gone then."""
    asked_to_stop = threading.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda *_: asked_to_stop.set())
    with SchemaRegistry(data_dir, port) as registry:
        typer.echo(f"The registry is ready on {registry.url}; Ctrl-C stops it.")
        while registry.pid is not None and not asked_to_stop.wait(0.5):
            pass


if __name__ == "__main__":
    typer.run(main)
