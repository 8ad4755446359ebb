"""Upkeep of one node in the background of its micro-batches: its state in few runs, its changes folded into its table.

A read seeks each key in each run, so a state of many large runs is packed: while the node works, every hundred micro-batches
or when there are many such runs; as soon as the node has caught up, if packing has enough rows to merge.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import structlog

from headrace.writing.background import BackgroundTask
from headrace.writing.leases.lease import LeaseTakenError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.writing.leases.lease import Lease
    from headrace.writing.node_runner import NodeRunner
    from headrace.writing.scheduling import Turns

logger = structlog.get_logger(__name__)
PACK_EVERY = 100  # micro-batches between two packings of the state into fewer files
PACK_WHOLE_EVERY = 1_000  # micro-batches between two packings that include the largest files
RUNS_COUNTED_EVERY = 10  # micro-batches
FOLD_SECONDS = 60.0  # the shortest time between two folds of current results into their table
FOLD_REST = 4  # after a fold it rests at least this many times as long as the fold took


class NodeUpkeep(BackgroundTask):
    """Does one piece at a time."""

    def __init__(
        self, name: str, turns: Turns, cancelled: Callable[[], bool], lease: Callable[[], Lease]
    ) -> None:
        """Nothing is done yet. In: lease  takes that of backfills (see `_with_lease`); the others as of `BackgroundTask`."""
        super().__init__(f"upkeep-{name}", turns, cancelled)
        self._node, self._lease = name, lease
        self.fold_at = time.monotonic() + FOLD_SECONDS
        self._uncounted = RUNS_COUNTED_EVERY  # micro-batches since runs were counted at rest
        self._of_trigger = 0  # micro-batches

    def fold_due(self, runner: NodeRunner) -> bool:
        """Whether it is time to fold current results into their table."""
        return bool(runner.unfolded) and time.monotonic() >= self.fold_at

    def after_micro_batch(self, runner: NodeRunner) -> None:
        """Begin to pack the state, if it is due while the node works."""
        self._uncounted, self._of_trigger = self._uncounted + 1, self._of_trigger + 1
        batch = runner.progress.batch
        if batch % PACK_EVERY == 0:
            self.begin(partial(self._pack, runner, whole=batch % PACK_WHOLE_EVERY < PACK_EVERY))
        elif batch % RUNS_COUNTED_EVERY == 0 and not self.under_way and runner.is_packing_due():
            self.begin(partial(self._pack_state, runner))

    def after_trigger(self, runner: NodeRunner, *, at_rest: bool) -> None:
        """Begin to fold and to pack, as far as it is due. In: at_rest  the node has read all of its logs."""
        micro_batches, self._of_trigger = self._of_trigger, 0
        if self.under_way:
            return
        packs = at_rest and self._packs_at_rest(runner, micro_batches)
        folds = self.fold_due(runner)
        if packs or folds:
            self.begin(partial(self._after_trigger, runner, packs=packs, folds=folds))

    def _packs_at_rest(self, runner: NodeRunner, micro_batches: int) -> bool:
        """Whether the state has runs to pack; they are counted after several micro-batches, or every so many single ones."""
        if micro_batches < 2 and self._uncounted < RUNS_COUNTED_EVERY:
            return False
        self._uncounted = 0
        return runner.is_packing_due(at_rest=True)

    def settle(self, runner: NodeRunner) -> None:
        """Fold all current results into their table, here and now."""
        self._with_lease(runner.settle)

    def _after_trigger(self, runner: NodeRunner, *, packs: bool, folds: bool) -> None:
        if packs:
            self._pack_state(runner, at_rest=True)
        if folds:
            self._fold(runner)

    def _pack(self, runner: NodeRunner, *, whole: bool) -> None:
        self._pack_state(runner, whole=whole)
        if not runner.node.has_days:
            self._fold(runner)

    def _pack_state(self, runner: NodeRunner, *, whole: bool = False, at_rest: bool = False) -> None:
        try:
            runner.pack(whole=whole, at_rest=at_rest)
        except Exception as error:
            logger.warning("state not packed, will be tried again", name=self._node, error=str(error))

    def _fold(self, runner: NodeRunner) -> None:
        began = time.monotonic()
        try:
            self._with_lease(runner.compact)
        finally:
            now = time.monotonic()
            self.fold_at = now + max(FOLD_SECONDS, FOLD_REST * (now - began))

    def _with_lease(self, upkeep: Callable[[], None]) -> None:
        """Do upkeep under the lease of backfills, for none may compare the table meanwhile. While one runs, do nothing."""
        try:
            lease = self._lease()
        except LeaseTakenError:
            return
        try:
            upkeep()
        finally:
            lease.release()
