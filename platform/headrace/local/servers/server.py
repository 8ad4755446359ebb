"""A server on this machine, as a child process over one data folder that outlives it."""

from __future__ import annotations

import atexit
import signal
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Self

import typer

from headrace.errors import TerminalError
from headrace.local.servers import lifeline
from headrace.local.servers.broker_config import HOST, free_port, port_is_free

LAST_LINES = 15  # of its log, for errors
ANSWER_S = 10.0  # that a client waits for one answer of a server that is about to be ready


class LocalServer(ABC):
    """The base of the servers of this package.

    In:     `port` None takes a free one, and keeps it over restarts of this object.
    """

    noun = "server"  # as errors name it
    failed: type[TerminalError] = TerminalError
    ready_s = 300.0  # within which it answers, on a busy machine too

    def __init__(self, data_dir: Path, port: int | None, log_name: str) -> None:
        self.data_dir = data_dir
        self.port = port
        self.log_file = data_dir / log_name
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Launch the server; does not wait until it is ready.

        Raises: `failed` when its port or its data folder is taken, or there is no program; JarsMissing
        """
        if self.pid is None:
            self.data_dir.mkdir(parents=True, exist_ok=True)
            self._launch()
            atexit.register(self.stop)
        return self

    @abstractmethod
    def _launch(self) -> None:
        """Start the process."""

    @property
    def address(self) -> str:
        """Where it listens, as `host:port`."""
        if self.port is None:
            raise self.failed(f"The {self.noun} has no port yet.", hint="Call start(), or name a port.")
        return f"{HOST}:{self.port}"

    @property
    @abstractmethod
    def title(self) -> str:
        """The server and its address, as an error begins with them."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether clients can use it."""

    def wait_ready(self, timeout_s: float | None = None) -> Self:
        """Return when the server answers.

        Raises: `failed`, when it has ended or does not answer in time.
        """
        limit_s = timeout_s or self.ready_s
        deadline = time.monotonic() + limit_s
        while not self._answers():
            if self.pid is None and not self._starts_again():
                raise self.failed(f"{self.title} ended.", detail=self._last_words())
            if time.monotonic() > deadline:
                silent = f"{self.title} did not answer in {limit_s:g} s."
                raise self.failed(silent, detail=self._last_words())
            time.sleep(0.1)
        return self

    def _starts_again(self) -> bool:
        """Start a server anew that has ended for a reason that passes; False: for another reason."""
        return False

    def stop(self) -> None:
        """Shut the server down in order; nothing happens when it does not run."""
        if self._process is not None:
            lifeline.stop(self._process)
            self._process = None
        atexit.unregister(self.stop)

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def kill(self) -> None:
        """End the server with SIGKILL, as a crash does; start() brings it back with its data."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        try:
            return self.start().wait_ready()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _choose_port(self) -> None:
        if self.port is None:
            self.port = free_port()
        elif not port_is_free(self.port):
            raise self.failed(
                f"Port {self.port} on {HOST} is taken.", hint="Stop what listens there, or name another port."
            )

    def _last_words(self) -> str:
        return f"The end of '{self.log_file}':\n{tail_of(self.log_file)}"


def tail_of(log: Path) -> str:
    """The last lines of a log; none if there is none."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-LAST_LINES:]) if log.exists() else ""


def run_until_stopped(server: LocalServer, ready: Callable[[], str]) -> None:
    """Run a server until Ctrl-C or SIGTERM; exit code 1 when it does not start, or ends by itself.

    In: ready  what to print once it answers
    """
    asked_to_stop = threading.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda *_: asked_to_stop.set())
    try:
        with server:
            typer.echo(f"{ready()}; Ctrl-C stops it.")
            while server.pid is not None:
                if asked_to_stop.wait(0.5):
                    return
            server.wait_ready(0)  # it has ended by itself: this says why
    except server.failed as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
