"""The findings of earlier runs of the checks: since when a claim holds or fails, how figures move, what changed last.

One file for each asset holds the newest runs. Each run notes since when each of its claims stands as it does, for the runs
before it are not kept for ever.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from headrace.quality.words import counted, moment, percent, span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from headrace.quality.results import CheckResult

RUNS_KEPT = 200
HISTORY = "history"
WIDTH, HEIGHT = 120, 24  # of a trend, in the units of its picture
# Limits and samples are what people set, so they have no trend.
SETTINGS = frozenset({"limit", "sample"})

Run = dict[str, Any]


def runs_of(docs: Path, asset_file: str) -> list[Run]:
    """The runs that are kept of an asset, the oldest first."""
    path = docs / HISTORY / f"{asset_file}.json"
    try:
        found: list[Run] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    return found


def with_run(
    before: Sequence[Run], results: Sequence[CheckResult], figures: Mapping[str, float], at_ms: int
) -> list[Run]:
    """The runs with one more at the end.

    In: figures  of the asset as a whole, such as the records delivered
    """
    last = before[-1]["checks"] if before else {}
    checks = {}
    for result in results:
        known = last.get(result.name, {})
        stays = known.get("passed") == result.passed
        checks[result.name] = {
            "passed": result.passed,
            "since_ms": known["since_ms"] if stays else at_ms,
            "runs": known["runs"] + 1 if stays else 1,
            "numbers": {name: value for name, value in result.metadata.items() if _has_trend(name, value)},
        }
    return [*before, {"at_ms": at_ms, "checks": checks, "figures": dict(figures)}][-RUNS_KEPT:]


def standing(runs: Sequence[Run], check: str) -> str:
    """How long a claim has held or failed, in words."""
    now = runs[-1]["checks"][check]
    verb = "Holds" if now["passed"] else "Fails"
    if now["runs"] == 1:
        if len(runs) == 1 or check not in runs[-2]["checks"]:
            return f"{verb} in its first run."
        return f"{verb} since this run: the run before found the opposite."
    lasted = span(runs[-1]["at_ms"] - now["since_ms"])
    return f"{verb} since {moment(now['since_ms'])}: for {lasted}, in {counted(now['runs'], 'run')}."


def changes(runs: Sequence[Run]) -> list[str]:
    """The differences between the last two runs, claims first."""
    if len(runs) < 2:
        return []
    before, now = runs[-2], runs[-1]
    turned = [
        f"{name} {'holds' if check['passed'] else 'fails'} now; it {'failed' if check['passed'] else 'held'} before."
        for name, check in now["checks"].items()
        if name in before["checks"] and before["checks"][name]["passed"] != check["passed"]
    ]
    new = [f"{name} was judged for the first time." for name in now["checks"] if name not in before["checks"]]
    moved = [
        f"{name.replace('_', ' ')}: {_shown(name, before['figures'][name])} before, {_shown(name, value)} now."
        for name, value in now["figures"].items()
        if name in before["figures"] and before["figures"][name] != value
    ]
    return [*turned, *new, *moved]


def trend(runs: Sequence[Run], check: str, figure: str) -> list[tuple[int, float]]:
    """The values of a check's figure: time in ms and value, the oldest first."""
    found = ((run["at_ms"], run["checks"].get(check, {}).get("numbers", {}).get(figure)) for run in runs)
    return [(at_ms, value) for at_ms, value in found if value is not None]


def figure_trend(runs: Sequence[Run], figure: str) -> list[tuple[int, float]]:
    """The same of a figure of the asset as a whole."""
    return [(run["at_ms"], run["figures"][figure]) for run in runs if figure in run["figures"]]


def line(points: Sequence[tuple[int, float]]) -> str:
    """The points of a trend's picture, as SVG's polyline has them; empty: fewer than two runs have the figure."""
    if len(points) < 2:
        return ""
    first, last = points[0][0], points[-1][0]
    low, high = min(value for _, value in points), max(value for _, value in points)
    across, up = max(last - first, 1), (high - low) or 1
    places = (
        (
            WIDTH * (at_ms - first) / across,
            HEIGHT / 2 if high == low else HEIGHT - HEIGHT * (value - low) / up,
        )
        for at_ms, value in points
    )
    return " ".join(f"{x:.1f},{abs(round(y, 1))}" for x, y in places)


def _has_trend(name: str, value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and name not in SETTINGS


def _shown(name: str, value: float) -> str:
    return (
        percent(value)
        if name.endswith("ratio")
        else f"{value:,.6g}"
        if isinstance(value, float)
        else f"{value:,}"
    )
