"""A sign of life of each stream run, by which the sensor finds runs whose machine is gone.

One old sign of life does not tell: after Dagster's database was away, or the machine slept, a look may come before the
run's next one. So a run is gone when looks have found the same sign for longer than a run needs for the next.

The run looks at its own record too: one that was declared dead but lives (a laptop slept) stops itself.
"""

from __future__ import annotations

import json
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
KEPT_SECONDS = 86_400.0  # a run that was silent for so long is gone
SURE_SECONDS = 1.5 * EVERY_SECONDS  # a run that lives gives its next sign before


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


class Silences:
    """Follows runs without a sign of life over the looks of a sensor, whose cursor keeps them."""

    def __init__(self, text: str | None) -> None:
        """In: text  what `to_text` gave with the look before; None: there was none."""
        self._before: dict[str, tuple[float, float]] = json.loads(text) if text else {}
        self._silent: dict[str, tuple[float, float]] = {}

    def is_sure(self, run_id: str, since: float, now: float) -> bool:
        """Whether the same silence was found `SURE_SECONDS` ago. In: since  the last sign of life, or when the run began."""
        before_since, first = self._before.get(run_id, (None, now))
        first = min(first, now) if since == before_since else now
        self._silent[run_id] = (since, first)
        return now - first >= SURE_SECONDS

    def to_text(self) -> str:
        """Keep what this look has found."""
        return json.dumps(self._silent)


def write_heartbeat(instance: DagsterInstance, run_id: str, at: float) -> None:
    """Note that a run lives at `at`, in seconds since 1970."""
    beats = _beats(instance, run_id)
    lately = {run: beat for run, beat in beats.items() if at - beat < KEPT_SECONDS}
    instance.daemon_cursor_storage.set_cursor_values({_key(run_id): json.dumps({**lately, run_id: at})})


def read_heartbeat(instance: DagsterInstance, run_id: str) -> float | None:
    """When a run last gave a sign of life, in seconds since 1970; None: never."""
    return _beats(instance, run_id).get(run_id)


def _beats(instance: DagsterInstance, run_id: str) -> dict[str, float]:
    """The signs of life that are kept with those of a run. Two runs that write at the same moment may lose one."""
    key = _key(run_id)
    text = instance.daemon_cursor_storage.get_cursor_values({key}).get(key)
    return json.loads(text) if text else {}


def _key(run_id: str) -> str:
    """One of 256: Dagster has no way to delete a key, so there is none for each run."""
    return f"headrace/heartbeats/{run_id[:2]}"
