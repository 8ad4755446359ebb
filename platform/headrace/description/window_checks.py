"""The checks of windows, of their clock and of their groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.description.clocks import WALL, check_clock
from headrace.description.durations import format_duration, require_ms
from headrace.description.grouping import refuse_regrouping
from headrace.description.windows import END, START, WindowKind
from headrace.description.wording import a_value
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.stream import Stream

BOUND_NAMES = (START, END)


def check_window(window: object, grace_ms: int) -> None:
    """Raise DescriptionError when these are no window and no grace."""
    if not isinstance(window, WindowKind):
        raise DescriptionError(
            f"window: {a_value(window)} is no window.",
            hint="Write hr.tumbling('2 minutes'), hr.hopping('2 minutes', advance='1 minute'), "
            "hr.calendar('day', zone='Europe/Berlin'), hr.sliding('2 minutes') or hr.session('5 minutes').",
        )
    require_ms(grace_ms, "grace")


def check_window_clock(clock: object, window: WindowKind, grace_ms: int) -> None:
    """Raise DescriptionError when windows cannot go by this clock."""
    check_clock(clock, "window")
    if clock == WALL and (window.by_records or window.unit):
        raise DescriptionError(
            f"window: clock='wall' is for tumbling and hopping windows, and this is a {window.in_words}.",
            hint="Write hr.tumbling(…) or hr.hopping(…), or leave clock out.",
        )
    if clock == WALL and grace_ms:
        raise DescriptionError(
            f"window: by the wall clock no record is late, and a grace of {format_duration(grace_ms)} only delays results.",
            hint="Leave grace out.",
        )


def check_grouping(window: WindowKind, stream: Stream, by: tuple[str, ...]) -> None:
    """Raise DescriptionError when windows that are final per partition have groups that are not."""
    if window.moves:
        refuse_regrouping(stream, by, "session windows")


def check_bounds(by: tuple[str, ...]) -> None:
    """Raise DescriptionError when a group column has the name of a bound."""
    for name in by:
        if name.lower() in BOUND_NAMES:
            raise DescriptionError(
                f"group_by: '{name}' is also the name of an output column, a bound of the window.",
                hint=f"Rename it first: .with_column('its_{name}', '{name}').",
            )
