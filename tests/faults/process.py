"""Start a victim, and wait for what becomes of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from headrace.lake.paths import Lake
from headrace.local.servers import lifeline
from headrace.local.servers.broker import Broker
from tests.waiting import PATIENCE_S, until

ROOT = Path(__file__).resolve().parents[2]


class Victim:
    """A running victim and what it has printed."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self.log = process, log

    def said(self) -> str:
        """All that it has printed."""
        return self.log.read_text(errors="replace")

    def wait_for(self, words: str) -> None:
        """Return when it has printed these words; fails when it ends or keeps silent."""

        def has_said() -> bool:
            ended = self.process.poll() is not None
            assert words in self.said() or not ended, f"it ended: {self.said()}"
            return words in self.said()

        until(has_said, told=lambda: f"no {words!r}: {self.said()}")

    def wait_killed(self) -> int:
        """Its exit status: minus the signal that ended it."""
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it lives on: {self.said()}") from None


@contextmanager
def victim(
    broker: Broker,
    lake: Lake,
    topic: str,
    log: Path,
    *,
    at: str | None = None,
    time: int = 1,
    script: str = "tests/faults/victim.py",
    more: Sequence[str] = (),
) -> Iterator[Victim]:
    """Run a victim; whatever is left of it at the end is killed. Spark's JVM goes with its Python process."""
    command = [
        sys.executable,
        str(ROOT / script),
        broker.bootstrap_servers,
        lake.root,
        topic,
        *more,
    ]
    if at is not None:
        command += ["--at", at, "--time", str(time)]
    path = os.pathsep.join([str(ROOT / "platform"), str(ROOT)])
    process = lifeline.spawn(command, log=log, cwd=log.parent, env={**os.environ, "PYTHONPATH": path})
    try:
        yield Victim(process, log)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
