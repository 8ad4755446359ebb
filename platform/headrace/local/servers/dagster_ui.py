"""Dagster's UI as a process of this machine: its port, its start, its log."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
from contextlib import suppress
from http.client import HTTPException
from typing import TYPE_CHECKING

from headrace.errors import TerminalError
from headrace.local.servers.server import ANSWER_S, tail_of

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path


def require_free(port: int) -> None:
    """Raise TerminalError when something listens at the port of the UI."""
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            raise TerminalError(
                f"Port {port} is taken.", hint="Another demo may be running; or name another one: --port 3001"
            )


def create_databases() -> None:
    """Create the databases of Dagster's home if they are missing.

    Dagster's processes each create them when they start, and two that do so at once leave a history with two heads, which
    no process opens. So they exist before the first two start.
    """
    from dagster import DagsterInstance

    with DagsterInstance.get():
        pass


def wait_for_ui(dagster: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Return when the UI answers.

    Raises: TerminalError when Dagster ends, or is silent for three minutes
    """
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        if dagster.poll() is not None:
            raise TerminalError("Dagster did not start.", detail=tail_of(log), hint=f"Read {log}.")
        with (
            suppress(OSError, HTTPException),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/server_info", timeout=ANSWER_S),
        ):
            return
        time.sleep(0.5)
    raise TerminalError(
        "Dagster's UI did not answer within three minutes.", detail=tail_of(log), hint=f"Read {log}."
    )


def reload_code(port: int) -> None:
    """Let the UI show the definitions as the files are now; it shows those before if it does not answer."""
    asked = json.dumps({"query": "mutation { reloadWorkspace { __typename } }"}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/graphql", asked, {"Content-Type": "application/json"}
    )
    with suppress(OSError, HTTPException), urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()
