"""A supervised loop that a person may let rest (see `pausing`)."""

from __future__ import annotations

from headrace.streams.supervised_loop import SupervisedLoop


class PausableLoop(SupervisedLoop):
    """A loop that keeps all that it has opened while it rests, and begins no work.

    paused  True: it rests
    """

    paused = False

    def pause(self, *, paused: bool) -> None:
        """Let it rest, or go on: the micro-batch under way ends, and no other begins."""
        wakes, self.paused = self.paused and not paused, paused
        if wakes:
            self.check_now()

    @property
    def state(self) -> str:
        """Also `paused` while a person lets it rest."""
        known = super().state
        return "paused" if self.paused and known == "running" else known
