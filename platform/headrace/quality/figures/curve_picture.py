"""The curve of a node's grace as the page draws it: the share of complete records for each grace, as a staircase.

The axis of graces is logarithmic, because few records are very late. The axis of shares begins where the curve does.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from headrace.description.durations import format_duration
from headrace.explain.graces.grace_curve import wait_in_words
from headrace.quality.words import percent

if TYPE_CHECKING:
    from headrace.explain.graces.grace_curve import GraceCurve, GracePoint

WIDTH, HEIGHT = 640, 200  # of the plot, in the units of its picture
TICKS_S = (0, 1, 10, 60, 600, 3_600, 36_000, 86_400, 864_000)
FLOORS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.96, 0.98, 0.996)  # where the axis of shares may begin
SHARES = 4  # lines across, above the lowest


def curve_picture(curve: GraceCurve) -> dict[str, Any]:
    """The curve as its template takes it.

    Out: `line`, `mark` (of the node's grace) and `ticks` in units of the picture, `rows` of the table below, `sentence`
    """
    points = sorted({*curve.points, curve.more}, key=lambda each: each.grace_ms)
    last_ms = max(points[-1].grace_ms, 1_000)
    floor = max(each for each in FLOORS if each <= _share(curve, points[0]))
    places = [(_across(each.grace_ms, last_ms), _down(_share(curve, each), floor)) for each in points]
    stairs = [places[0]]
    for across, down in places[1:]:
        stairs += [(across, stairs[-1][1]), (across, down)]
    across, down = _across(curve.now.grace_ms, last_ms), _down(_share(curve, curve.now), floor)
    shares = [round(floor + (1 - floor) * number / SHARES, 4) for number in range(SHARES + 1)]
    rows = [("no grace", curve.points[0]), ("now", curve.now), ("one more minute", curve.more)]
    if curve.points[-1].complete == curve.records:
        rows.append(("all records", curve.points[-1]))
    return {
        "sentence": curve.in_words,
        "line": " ".join(f"{x:.1f},{y:.1f}" for x, y in stairs),
        "mark": (round(across, 1), round(down, 1)),
        "mark_words": f"now: {format_duration(curve.now.grace_ms)}, {percent(_share(curve, curve.now))}",
        "mark_anchor": "end" if across > WIDTH / 2 else "start",
        "across": [
            (round(_across(s * 1_000, last_ms), 1), format_duration(s * 1_000) if s else "0")
            for s in TICKS_S
            if s * 1_000 <= last_ms
        ],
        "up": [(round(_down(share, floor), 1), f"{100 * share:.4g}%") for share in shares],
        "rows": [_row(curve, what, point) for what, point in rows],
    }


def _row(curve: GraceCurve, what: str, point: GracePoint) -> dict[str, Any]:
    return {
        "what": what,
        "grace": format_duration(point.grace_ms) if point.grace_ms else "none",
        "complete": percent(_share(curve, point)),
        "incomplete": curve.records - point.complete,
        "wait": wait_in_words(point.wait_ms),
        "wait_p99": wait_in_words(point.wait_p99_ms),
    }


def _share(curve: GraceCurve, point: GracePoint) -> float:
    return point.complete / curve.records


def _across(grace_ms: int, last_ms: int) -> float:
    return WIDTH * math.log1p(grace_ms / 1_000) / math.log1p(last_ms / 1_000)


def _down(share: float, floor: float) -> float:
    return HEIGHT * (1 - (share - floor) / (1 - floor))
