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

import urllib.error
import urllib.request
from pathlib import Path
from typing import Annotated

import typer

from headrace.errors import TerminalError
from headrace.local.servers import lifeline
from headrace.local.servers.broker_config import HOST, JVM_FLAGS
from headrace.local.servers.server import ANSWER_S, LocalServer, run_until_stopped
from headrace.spark.jars import java, registry_jar

INTERFACE = "/apis/ccompat/v7"  # Confluent's


class RegistryFailed(TerminalError):
    """The registry did not start, or ended; the detail holds the last lines of its log."""


class SchemaRegistry(LocalServer):
    """A schema registry whose log lies in a folder.

    In:     `port` None takes a free one, and keeps it over restarts of this object.
    """

    noun = "registry"
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
        return f"http://{self.address}{INTERFACE}"

    def _launch(self) -> None:
        self._choose_port()
        listens = (f"-Dquarkus.http.host={HOST}", f"-Dquarkus.http.port={self.port}")
        command = [java(), *JVM_FLAGS, *listens, "-jar", registry_jar()]
        self._process = lifeline.spawn(command, log=self.log_file, cwd=self.data_dir)

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
    registry = SchemaRegistry(data_dir, port)
    run_until_stopped(registry, lambda: f"The registry is ready on {registry.url}")


if __name__ == "__main__":
    typer.run(main)
