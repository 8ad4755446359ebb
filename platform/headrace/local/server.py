"""A server on this machine, as a child process over one data folder that outlives it."""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

LAST_LINES = 15  # of its log, for errors


class LocalServer(ABC):
    """The base of the servers of this package.

    In:     `port` None takes a free one, and keeps it over restarts of this object.
    """

    def __init__(self, data_dir: Path, port: int | None, log_name: str) -> None:
        self.data_dir = data_dir
        self.port = port
        self.log_file = data_dir / log_name
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def start(self) -> Self:
        """Launch the server; does not wait until it is ready."""

    @abstractmethod
    def wait_ready(self, timeout_s: float = 60.0) -> Self:
        """Return when the server answers."""

    @abstractmethod
    def stop(self) -> None:
        """Shut the server down in order; nothing happens when it does not run."""

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
