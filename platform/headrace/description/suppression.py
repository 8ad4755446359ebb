"""Policies: when a suppressed aggregate or table emits, and which value. Source: Kafka Streams, Suppressed.java (KIP-328).

A policy says when a row leaves; a bound, how much may wait until then and what happens when more would.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.description.clocks import STREAM, WALL, check_clock
from headrace.description.durations import Duration, duration_ms, format_duration, require_ms
from headrace.description.wording import a_value, require_choice
from headrace.errors import DescriptionError

SPILL, EMIT_EARLY, SHUT_DOWN = "spill", "emit_early", "shut_down"
WHEN_FULL = (SPILL, EMIT_EARLY, SHUT_DOWN)


@dataclass(frozen=True)
class Bound:
    """Says how much may wait in each partition.

    max_records  keys (with windows: keys and windows) that wait at a time; None: any number
    max_bytes    of the raw keys and values of the last record of each; None: any number
    when_full    "spill": the buffer is a Delta table, so it grows on disk and nothing happens; "emit_early": the oldest
                 leave before their time; "shut_down": the stream stops before it commits anything
    """

    max_records: int | None = None
    max_bytes: int | None = None
    when_full: str = SPILL

    def __post_init__(self) -> None:
        for name, value in (("max_records", self.max_records), ("max_bytes", self.max_bytes)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise DescriptionError(
                    f"{name}: {a_value(value)} is not a number from 1.", hint="None: no bound."
                )
        require_choice("when_full:", self.when_full, WHEN_FULL)
        if self.when_full == SPILL and self.any:
            raise DescriptionError(
                f"max_records, max_bytes: with when_full='{SPILL}' a bound alters nothing.",
                hint="Write when_full='shut_down' or, for a time limit, 'emit_early'; or leave the bound out.",
            )
        if self.when_full != SPILL and not self.any:
            raise DescriptionError(
                f"when_full: {a_value(self.when_full)} needs a bound that can be full.",
                hint="Give max_records=… or max_bytes=….",
            )

    @property
    def any(self) -> bool:
        """True if there is a bound at all."""
        return self.max_records is not None or self.max_bytes is not None

    def rules(self) -> dict[str, Any]:
        """The settings that alter rows: only early results do, so any other bound can be changed while rows wait."""
        if self.when_full != EMIT_EARLY:
            return {}
        return {"max_records": self.max_records, "max_bytes": self.max_bytes, "when_full": EMIT_EARLY}


@dataclass(frozen=True)
class UntilWindowCloses:
    """Emits final results only: each window once, when stream time reaches its end plus grace.

    Raises: DescriptionError for a bound that would emit early: what it emits could not be final.
    """

    bound: Bound = Bound()

    def __post_init__(self) -> None:
        if self.bound.when_full == EMIT_EARLY:
            raise DescriptionError(
                "until_window_closes: 'emit_early' would emit windows that are not final.",
                hint="Write when_full='spill' or 'shut_down', or hr.until_time_limit(…).",
            )


@dataclass(frozen=True)
class UntilTimeLimit:
    """Emits the latest value of each key (with windows: key and window) when its wait is over.

    In:  limit_ms  how long a wait lasts: in stream time, from the timestamp of the update that opened it; by the wall clock,
                   from the commit time of its record
         clock     "stream" or "wall"
    Law: see `headrace.operators.time_limits.fold`.
    """

    limit_ms: int
    bound: Bound = Bound()
    clock: str = STREAM

    def __post_init__(self) -> None:
        check_clock(self.clock, "until_time_limit")
        if self.clock == WALL and self.bound.when_full == EMIT_EARLY:
            raise DescriptionError(
                "until_time_limit: 'emit_early' goes by stream time.",
                hint="Write when_full='spill' or 'shut_down', or leave clock='wall' out.",
            )
        require_ms(self.limit_ms, "limit")

    @property
    def in_words(self) -> str:
        """Say in words when a row leaves."""
        early = ", or before when too much waits" if self.bound.when_full == EMIT_EARLY else ""
        of = "wall-clock" if self.clock == WALL else "stream"
        return f"{format_duration(self.limit_ms)} of {of} time after its first change{early}"


Policy = UntilWindowCloses | UntilTimeLimit


def until_window_closes(
    max_records: int | None = None, max_bytes: int | None = None, when_full: str = SPILL
) -> UntilWindowCloses:
    """Emit each window once, when it has closed: when stream time has reached its end plus grace.

    In:     max_records, max_bytes  how much may be open in each partition after a micro-batch (see `Bound`)
            when_full               "spill" or "shut_down"
    Raises: DescriptionError for "emit_early", which could not be final, or a bound that is no positive number
    """
    return UntilWindowCloses(Bound(max_records, max_bytes, when_full))


def until_time_limit(
    limit: Duration,
    max_records: int | None = None,
    max_bytes: int | None = None,
    when_full: str = SPILL,
    *,
    clock: str = STREAM,
) -> UntilTimeLimit:
    """Emit a key's latest value when `limit` of time has passed since the first update that it has not emitted yet.

    In:     limit                   how long a wait lasts, such as "5 minutes"
            clock                   "stream": event time; "wall": the time at which the log recorded the records
            max_records, max_bytes  how much may wait in each partition at any record of the log (see `Bound`)
            when_full               "spill", "emit_early" or "shut_down"
    Law:    which updates leave, and when, follows from the log alone (see `headrace.operators.time_limits.fold`)
    Raises: DescriptionError for a limit that is no duration, a bound that is no positive number, or "emit_early" with the
            wall clock
    """
    bound = Bound(max_records, max_bytes, when_full)
    return UntilTimeLimit(duration_ms(limit, "until_time_limit"), bound, clock)
