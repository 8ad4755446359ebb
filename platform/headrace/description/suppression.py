"""What a suppressed aggregate emits, and when. Source: Kafka Streams, Suppressed.java (KIP-328)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class UntilWindowCloses:
    """Final results only: each window once, when stream time reaches its end plus grace."""


def until_window_closes() -> UntilWindowCloses:
    """Emit each window once, when it has closed."""
    return UntilWindowCloses()
