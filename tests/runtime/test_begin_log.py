"""A log that reads a long seed lets its run look at other things in between, and goes on. No Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.log.decisions.seeding import SeedUnderWayError
from headrace.streams import begin_log
from headrace.writing.leases.handover import WaitsError

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.fast

TOPIC = hr.Topic("readings", value="v BIGINT", start=hr.from_files("file:/archive", raw=True))


class Pieces:
    """A seed of which some are left."""

    left = 0

    def __init__(self, *_: object) -> None:
        """There is one seed."""

    def run(self, partitions: int, *, ends: Callable[[], bool]) -> None:
        while Pieces.left:
            if ends():
                raise SeedUnderWayError("not read to the end")
            Pieces.left -= 1


def begin(*, ends: bool = False) -> None:
    sequencer: Any = SimpleNamespace(topic=TOPIC, state=SimpleNamespace(batch=1))
    nothing: Any = None
    begin_log.begin_log(nothing, sequencer, nothing, [0], ends=lambda: ends)


def test_a_long_seed_is_read_in_several_openings_and_none_reads_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(begin_log, "Seeding", Pieces)
    Pieces.left = 5
    begin()
    assert Pieces.left == 0, "there was time for all of it"
    monkeypatch.setattr(begin_log, "SEED_SECONDS", 0.0)
    Pieces.left = 2
    with pytest.raises(WaitsError, match="its seed is not read to the end; it goes on by itself"):
        begin(ends=True)
    assert Pieces.left == 2
    with pytest.raises(WaitsError):
        begin()
    assert Pieces.left == 1
    begin()
    assert Pieces.left == 0
