"""The last error of each query, kept below the lake until the query commits again: people look after the run, too.

The run that fails writes it, and whichever run commits next removes it. It decides nothing.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import structlog

from headrace.lake import small_files
from headrace.nodes.standing.last_error import LastError, last_error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.lake.paths import Lake
    from headrace.log.clock import Clock
    from headrace.streams.status.stream_status import StreamStatus

logger = structlog.get_logger(__name__)
FAILING = ("restarting", "failed", "ended")


class LastErrors:
    """Follows the statuses of one run."""

    def __init__(self, lake: Lake, clock: Clock) -> None:
        """Nothing is read yet."""
        self._lake, self._clock = lake, clock
        self._known: dict[str, LastError | None] = {}

    def follow(self, statuses: Iterable[StreamStatus]) -> list[StreamStatus]:
        """Keep the errors of queries that fail, and forget those of queries that have committed since. Never raises.

        Out: the statuses, each with the last error of its query
        """
        return [self._followed(status) for status in statuses]

    def _followed(self, status: StreamStatus) -> StreamStatus:
        try:
            known = self._keep(status)
        except Exception as trouble:
            logger.warning("the last error could not be kept", asset=status.asset, error=str(trouble))
            return status
        return replace(status, last_error=None if known is None else known.error)

    def _keep(self, status: StreamStatus) -> LastError | None:
        asset = status.asset
        if asset not in self._known:
            self._known[asset] = last_error(self._lake, asset, batches=0)  # also one that a commit ended
        known = self._known[asset]
        if known is not None and known.is_over(status.batches):
            small_files.delete(self._lake.last_error(asset))
            known = None
        if status.error and status.state in FAILING and (known is None or known.error != status.error):
            known = LastError(status.error, self._clock.now_ms(), status.batches)
            small_files.write_json(self._lake.last_error(asset), asdict(known))
        self._known[asset] = known
        return known
