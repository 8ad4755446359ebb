"""A server on this machine, as a child process over one data folder that outlives it."""

from __future__ import annotations

import atexit
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.errors import TerminalError
from headrace.local.servers import lifeline

LAST_LINES = 15  # of its log, for errors
ANSWER_S = 10.0  # that a client waits for one answer of a server that is about to be ready


class LocalServer(ABC):
    """The base of the servers of this package.

    In:     `port` None takes a free one, and keeps it over restarts of this object.
    """

    failed: type[TerminalError] = TerminalError
    ready_s = 180.0  # within which it answers, on a busy machine too

    def __init__(self, data_dir: Path, port: int | None, log_name: str) -> None:
        self.data_dir = data_dir
        self.port = port
        self.log_file = data_dir / log_name
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def start(self) -> Self:
        """Launch the server; does not wait until it is ready."""

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
            if self.pid is None:
                raise self.failed(f"{self.title} ended.", detail=self._last_words())
            if time.monotonic() > deadline:
                silent = f"{self.title} did not answer in {limit_s:g} s."
                raise self.failed(silent, detail=self._last_words())
            time.sleep(0.1)
        return self

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _last_words(self) -> str:
        said = self.log_file.read_text(errors="replace").splitlines() if self.log_file.exists() else []
        return "\n".join([f"The end of '{self.log_file}':", *said[-LAST_LINES:]])
