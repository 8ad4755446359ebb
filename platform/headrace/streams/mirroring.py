"""The mirror next to streams: a thread that follows the tables of a run every so many seconds.

No stream waits for it, and a catalog that is away makes the mirror older and nothing else.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from headrace import lake as lakes
from headrace.mirror.mirrors import Mirrors
from headrace.nodes.days import last_complete_day

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.streams.status.stream_status import StreamStatus

logger = structlog.get_logger(__name__)
LAST_SECONDS = 10.0  # that a run which ends gives the last round
BEHIND = "mirror_behind_seconds"
MEANINGS: Mapping[str, str] = {
    BEHIND: "Since the Iceberg mirror last equalled the table; with `final_days`, since its last snapshot.",
}


class Mirroring:
    """Follows the tables that this process writes, if the settings name a catalog."""

    def __init__(self, lake: Lake, nodes: Sequence[Node]) -> None:
        """Nothing is mirrored yet."""
        self._lake, self._mirrors = lake, Mirrors(lake)
        self._nodes = {node.required_name: node for node in nodes}
        self._thread = threading.Thread()
        self._next_at, self._began = 0.0, time.monotonic()
        self._equal_at: dict[str, float] = {}  # by asset: when its mirror last equalled the table
        self._final: dict[str, str] = {}  # by node: the last final day that its mirror has
        self._assets: dict[str, str | None] = {}

    def keep(self, statuses: Sequence[StreamStatus]) -> list[StreamStatus]:
        """Begin a round in a thread, if one is due. Out: the statuses, with how far the mirror is behind."""
        if self._mirrors.settings.uri is None:
            return [*statuses]
        self._assets = {each: day for status in statuses for each, day in self._mirrored(status)}
        if time.monotonic() >= self._next_at and not self._thread.is_alive():
            self._next_at = time.monotonic() + self._mirrors.settings.every_seconds
            self._begin()
        return [self._with_age(status) for status in statuses]

    def end(self) -> None:
        """Do a last round, and wait for it for a while: a catalog that is away keeps no run from ending."""
        if self._mirrors.settings.uri is None or not self._assets:
            return
        self._thread.join(LAST_SECONDS) if self._thread.is_alive() else None
        if not self._thread.is_alive():
            self._begin()
            self._thread.join(LAST_SECONDS)

    def _mirrored(self, status: StreamStatus) -> list[tuple[str, str | None]]:
        """The asset of a query that this process writes and that is mirrored, with the last day that is final."""
        settings, name = self._mirrors.settings, status.name
        if status.state == "waiting":
            return []
        if status.kind == "log":
            return [(f"log/{name}", None)] if settings.mirrors_log(name) else []
        node = self._nodes.get(name)
        if node is None or not settings.mirrors(name):
            return []
        day = None
        if node.day_column is not None:
            day = last_complete_day(node, status.stream_time_ms, status.read_ms)
        return [(name, None if day is None else day.isoformat())]

    def _with_age(self, status: StreamStatus) -> StreamStatus:
        asset = status.asset if status.kind == "log" else status.name
        if asset not in self._assets:
            return status
        since = self._equal_at.get(asset, self._began)
        return replace(status, mirror={BEHIND: round(time.monotonic() - since, 1)})

    def _begin(self) -> None:
        work = dict(self._assets)
        self._thread = threading.Thread(target=self._round, args=[work], daemon=True, name="iceberg mirror")
        self._thread.start()

    def _round(self, assets: Mapping[str, str | None]) -> None:
        for asset, day in assets.items():
            try:
                self._follow(asset, day)
            except Exception as error:
                logger.warning(
                    "the Iceberg mirror is behind, will be tried again", asset=asset, error=str(error)
                )

    def _follow(self, asset: str, day: str | None) -> None:
        table = self._mirrors.of(asset)
        if table is None or not lakes.exists(table.uri):
            return
        settings, began = self._mirrors.settings, time.monotonic()
        if (
            settings.when == "final_days"
            and asset in self._nodes
            and self._nodes[asset].day_column is not None
        ):
            if asset not in self._final:
                self._final[asset] = table.final_through()
            if day is None or day <= self._final[asset]:
                return
        table.follow(settings.snapshots_hours, day)
        self._equal_at[asset] = began
        if day is not None:
            self._final[asset] = day
