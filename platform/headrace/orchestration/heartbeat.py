"""A sign of life of each stream run, by which the sensor finds runs whose machine is gone.

The run looks at its own record too: one that was declared dead but lives (a laptop slept) stops itself.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Self

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

    from dagster import DagsterInstance

logger = structlog.get_logger(__name__)
EVERY_SECONDS = 10.0
SILENCE_SECONDS_MAX = 60.0


class Heartbeat:
    """Beats while entered; calls `on_beat` each time, and `on_overtaken` when the run's record says that it has ended."""

    def __init__(
        self,
        instance: DagsterInstance,
        run_id: str,
        on_overtaken: Callable[[str], None],
        every_seconds: float = EVERY_SECONDS,
        on_beat: Callable[[], None] = lambda: None,
    ) -> None:
        self._instance, self._run_id, self._on_overtaken = instance, run_id, on_overtaken
        self._every_seconds, self._on_beat = every_seconds, on_beat
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat_until_stopped, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._beat()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=self._every_seconds)

    def _beat_until_stopped(self) -> None:
        while not self._stop.wait(self._every_seconds):
            self._beat()

    def _beat(self) -> None:
        try:
            write_heartbeat(self._instance, self._run_id, time.time())
            run = self._instance.get_run_by_id(self._run_id)
            if run is None or run.is_finished:
                self._on_overtaken("the run's record was closed by someone else")
            self._on_beat()
        except Exception as error:
            logger.warning("heartbeat failed, will be tried again", error=str(error))


def write_heartbeat(instance: DagsterInstance, run_id: str, at: float) -> None:
    """Note that a run lives at `at`, in seconds since 1970."""
    instance.daemon_cursor_storage.set_cursor_values({_key(run_id): str(at)})


def read_heartbeat(instance: DagsterInstance, run_id: str) -> float | None:
    """When a run last gave a sign of life, in seconds since 1970; None: never."""
    value = instance.daemon_cursor_storage.get_cursor_values({_key(run_id)}).get(_key(run_id))
    return None if value is None else float(value)


def _key(run_id: str) -> str:
    return f"headrace/heartbeat/{run_id}"
