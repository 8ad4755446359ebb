"""The time limits of a node that people set in a log: those under which something may wait yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class SetLimit(NamedTuple):
    """A time limit that was set.

    ms       how long something waits
    over_ms  when the last wait by the wall clock that began under it is over; None: it is in force
    """

    ms: int
    over_ms: int | None = None


def set_after(before: Iterable[SetLimit], limit_ms: int, at_ms: int) -> tuple[SetLimit, ...]:
    """A node's limits once another one is set at a commit time.

    Law: a limit stays until the last wait that began under it is over. The longest one stays for good, because the node's
    log stays so far behind (L32).
    """
    others = [each for each in before if each.ms != limit_ms]
    replaced = [SetLimit(of.ms, of.ms + at_ms) if of.over_ms is None else of for of in others]
    longest_ms = max([limit_ms, *(each.ms for each in replaced)])
    open_yet = [each for each in replaced if (each.over_ms or 0) > at_ms or each.ms == longest_ms]
    return (*open_yet, SetLimit(limit_ms))


def limits_read(document: int | Sequence[Sequence[Any]]) -> tuple[SetLimit, ...]:
    """A node's limits as a commit has them. In: document  a number: the last one alone, as older commits have it."""
    return (SetLimit(document),) if isinstance(document, int) else tuple(SetLimit(*each) for each in document)
