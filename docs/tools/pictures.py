"""The drawn pictures of the documentation as SVG. Run it: it writes them into docs/images; a test holds that they are these.

Law: text alone makes them, and for measured ones `docs/compared.json`, so the same code makes the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial
from html import escape
from pathlib import Path

IMAGES = Path(__file__).resolve().parents[1] / "images"
INK, SOFT, BLUE, GREEN, RED, AMBER = "#1f2933", "#7b8794", "#2b6cb0", "#2f855a", "#c53030", "#b7791f"
STEP = 76
FLOOR, RIGHT = "the reader, topic to Parquet", ("equal", "complete", "")
# They ran in Headrace's JVM, after its checks: its memory is not theirs.
GUESTS = (FLOOR, "Structured Streaming")


class Drawing:
    """A picture: boxes, lines and texts on a light ground, so that it reads in dark mode, too."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
            'font-family="system-ui, sans-serif" font-size="14">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#f7fafc"/>',
        ]

    def text(
        self, x: float, y: float, said: str, color: str = INK, anchor: str = "start", size: int = 14
    ) -> None:
        """Write one line; `y` is its base."""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" fill="{color}" text-anchor="{anchor}" font-size="{size}">{escape(said)}</text>'
        )

    def box(
        self, x: float, y: float, width: float, said: str = "", color: str = BLUE, height: float = 30
    ) -> None:
        """Draw a box with a text in its middle."""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" fill="{color}" '
            f'fill-opacity=".14" stroke="{color}"/>'
        )
        if said:
            self.text(x + width / 2, y + height / 2 + 5, said, color, "middle")

    def bar(self, x: float, y: float, width: float, color: str) -> None:
        """Draw a full bar."""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:.1f}" height="18" rx="3" fill="{color}" fill-opacity=".75"/>'
        )

    def line(
        self, x1: float, y1: float, x2: float, y2: float, color: str = SOFT, *, arrow: bool = False
    ) -> None:
        """Draw a line; an arrow points to its right, down, or up."""
        self.parts.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{color}" stroke-width="1.5"/>'
        )
        if arrow and y1 == y2:
            self.parts.append(f'<path d="M{x2:g} {y2:g}l-8 -4v8z" fill="{color}"/>')
        elif arrow and y2 < y1:
            self.parts.append(f'<path d="M{x2:g} {y2:g}l-4 8h8z" fill="{color}"/>')
        elif arrow:
            self.parts.append(f'<path d="M{x2:g} {y2:g}l-4 -8h8z" fill="{color}"/>')

    def row(self, y: float, label: str, values: Iterable[str], colors: Iterable[str] | str = BLUE) -> None:
        """Draw boxes in columns, with a label at their left."""
        self.text(20, y + 20, label, SOFT)
        shown = list(values)
        for number, value in enumerate(shown):
            color = colors if isinstance(colors, str) else list(colors)[number]
            if value:
                self.box(150 + number * STEP, y, STEP - 8, value, color)

    def svg(self) -> str:
        """The picture as a file holds it."""
        return "\n".join([*self.parts, "</svg>", ""])


def log_and_cuts() -> Drawing:
    """One log, cut two ways."""
    d = Drawing(640, 330, "One log is cut in two ways; one table is beneath")
    d.row(20, "offset", "012345", SOFT)
    d.row(60, "event time", ("10", "11", "13", "11", "14", "10"), (BLUE, BLUE, BLUE, BLUE, BLUE, RED))
    d.row(100, "stream time", ("10", "11", "13", "13", "14", "14"), GREEN)
    d.text(20, 168, "as a stream", SOFT)
    d.box(150, 148, 4 * STEP - 8, "micro-batch 1", AMBER)
    d.box(150 + 4 * STEP, 148, 2 * STEP - 8, "micro-batch 2", AMBER)
    d.text(20, 208, "as a backfill", SOFT)
    d.box(150, 188, 6 * STEP - 8, "one batch", AMBER)
    d.line(150 + 3 * STEP - 4, 226, 150 + 3 * STEP - 4, 256, arrow=True)
    d.box(150, 262, 6 * STEP - 8, "window 10–12: 3 records, total 3.0", GREEN)
    d.text(150, 316, "Offset 5 is late: 12 + grace 2 ≤ stream time 14 of its own row.", RED)
    return d


def windows() -> Drawing:
    """The four kinds of windows over the same records."""
    d = Drawing(640, 360, "Tumbling, hopping, sliding and session windows over the same four records")
    at = {minute: 150 + minute * 40 for minute in range(12)}
    for minute in (1, 2, 5, 9):
        d.line(at[minute], 30, at[minute], 335, "#cbd5e0")
        d.text(at[minute], 24, f"{minute}", BLUE, "middle")
    d.text(20, 24, "records, minute", SOFT)
    d.text(20, 64, "tumbling 4", SOFT)
    for start in (0, 4, 8):
        d.box(at[start], 44, 4 * 40 if start < 8 else 3 * 40, f"{start}–{start + 4}")
    d.text(20, 114, "hopping 4 by 2", SOFT)
    for number, start in enumerate((0, 2, 4, 6, 8)):
        d.box(at[start], 84 + 34 * (number % 2), min(4, 11 - start) * 40, f"{start}–{start + 4}", GREEN)
    d.text(20, 184, "sliding 3", SOFT)
    for number, (start, end) in enumerate([(0, 1), (0, 2), (2, 5), (6, 9)]):
        d.box(at[start], 164 + 34 * (number % 2), (end - start) * 40, "", AMBER)
        d.text((at[start] + at[end]) / 2, 184 + 34 * (number % 2), f"ends {end}", AMBER, "middle", 12)
    d.text(20, 268, "session, gap 3", SOFT)
    d.box(at[1], 248, 4 * 40, "1–5", RED)
    d.box(at[9] - 10, 248, 20, "", RED)
    d.text(at[9], 296, "9", RED, "middle")
    d.text(20, 325, "tick", SOFT)
    d.line(150, 320, 610, 320, arrow=True)
    d.text(
        600, 345, "stream time never falls; when it reaches end + grace, the window is final", SOFT, "end", 12
    )
    return d


def replays() -> Drawing:
    """A service that crashes and sends again, and the guard that refuses it."""
    d = Drawing(640, 230, "A service crashes and sends two records again; the replay guard refuses them")
    d.row(20, "sent", ("0", "1", "crash", "0", "1", "2"), (BLUE, BLUE, RED, RED, RED, BLUE))
    d.text(20, 90, "source chain: [[orders, 0, offset]]", SOFT)
    d.row(110, "highest seen", ("0", "1", "", "1", "1", "2"), GREEN)
    d.row(150, "verdict", ("new", "new", "", "replay", "replay", "new"), (GREEN, GREEN, RED, RED, RED, GREEN))
    d.text(
        20,
        212,
        "The verdict is written into the log once. A backfill reads it; it does not judge again.",
        INK,
    )
    return d


def join() -> Drawing:
    """A join by foreign key, when either side changes."""
    d = Drawing(640, 280, "A table joined by foreign key: either side can change")
    d.text(20, 30, "positions (left)", SOFT)
    d.box(20, 40, 210, "p1 → AAPL")
    d.box(20, 78, 210, "p2 → AAPL")
    d.box(20, 116, 210, "p3 → MSFT")
    d.text(410, 30, "tickers (right)", SOFT)
    d.box(410, 40, 210, "AAPL: Nasdaq → NYSE", AMBER)
    d.box(410, 116, 210, "MSFT: Nasdaq")
    d.line(232, 55, 406, 55, arrow=True)
    d.line(232, 93, 406, 62, arrow=False)
    d.line(232, 131, 406, 131, arrow=True)
    d.text(20, 186, "touched", SOFT)
    d.box(120, 166, 230, "p1, p2: computed again", AMBER)
    d.box(370, 166, 250, "p3: neither side changed", SOFT)
    d.box(20, 216, 600, "one commit: both sides, the result and the progress", GREEN)
    d.text(20, 268, "So no reader sees one side ahead of the other.", INK)
    return d


def proof() -> Drawing:
    """Where every record ends, and how a backfill proves a table."""
    d = Drawing(640, 300, "Every record has one fate; a backfill recomputes the table and compares")
    d.box(20, 20, 600, "1,000 records delivered by Kafka", BLUE)
    fates = [("used 940", GREEN), ("open 20", GREEN), ("late 25", AMBER), ("dead 10", RED), ("replay 5", RED)]
    for number, (fate, color) in enumerate(fates):
        d.line(74 + number * 122, 52, 74 + number * 122, 76, arrow=True)
        d.box(20 + number * 122, 80, 112, fate, color)
    d.text(20, 140, "every_offset_accounted_for: the fates sum to what Kafka delivered.", INK)
    d.box(20, 170, 180, "the log", BLUE)
    d.line(204, 185, 246, 185, arrow=True)
    d.box(250, 170, 180, "fold again", AMBER)
    d.line(434, 185, 476, 185, arrow=True)
    d.box(480, 170, 140, "rows", GREEN)
    d.box(480, 225, 140, "the table", GREEN)
    d.line(550, 202, 550, 222, arrow=True)
    d.text(20, 245, "backfill_equals_stream: row for row the same,", INK)
    d.text(20, 265, "or the check names the first rows that differ.", INK)
    return d


def waits() -> Drawing:
    """Three partitions and a table; the lowest partition holds a window open."""
    d = Drawing(
        640, 310, "The partition whose stream time is lowest holds the window open; a lookup's table does not"
    )
    at = {minute: 190 + minute * 30 for minute in range(14)}
    d.text(20, 30, "stream time, minute", SOFT)
    for minute in range(0, 14, 2):
        d.text(at[minute], 30, f"{minute}", SOFT, "middle")
    rows = (
        ("views, partition 0", 13, GREEN),
        ("views, partition 1", 8, RED),
        ("clicks, partition 0", 12, GREEN),
    )
    for number, (name, minute, color) in enumerate(rows):
        y = 46 + number * 40
        d.text(20, y + 20, name, color)
        d.box(at[0], y, (minute) * 30, f"{minute}", color)
    d.text(20, 186, "users, a lookup's table", SOFT)
    d.box(at[0], 166, 60, "2", SOFT)
    d.text(at[0] + 72, 186, "reference: it holds no time back", SOFT)
    d.line(at[10], 40, at[10], 226, AMBER)
    d.text(at[10], 244, "window 0-10 closes", AMBER, "middle")
    d.text(
        20,
        270,
        "Partition 1 of views holds it: it is the lowest that drives, and stands at 8.",
        RED,
    )
    d.text(20, 294, "It moves with a record dated 10 or later, or after idle_timeout without a record.", INK)
    return d


def lookup_or_join() -> Drawing:
    """The same records by a lookup and by a join, when the table changes afterwards."""
    d = Drawing(
        640, 330, "A lookup keeps the row that a record has; a join follows later changes of the table"
    )
    at = {step: 150 + step * STEP for step in range(6)}
    d.text(20, 40, "the log", SOFT)
    d.box(at[0], 20, STEP - 8, "A = 1", AMBER)
    d.box(at[1], 20, STEP - 8, "o1: A")
    d.box(at[3], 20, STEP - 8, "A = 2", AMBER)
    d.box(at[4], 20, STEP - 8, "o2: A")
    d.line(150, 66, 610, 66, arrow=True)
    d.text(20, 70, "order of commits", SOFT)
    d.text(20, 114, "lookup", GREEN)
    d.box(at[1], 94, STEP - 8, "o1 A 1", GREEN)
    d.box(at[4], 94, STEP - 8, "o2 A 2", GREEN)
    d.text(150, 148, "one row for each order, for good: the price at the order's place", SOFT, size=12)
    d.text(20, 200, "join", BLUE)
    d.box(at[1], 180, 2 * STEP - 8, "o1 A 1")
    d.box(at[3], 180, STEP - 8, "o1 A 2", AMBER)
    d.box(at[4], 180, STEP - 8, "o2 A 2")
    d.text(150, 234, "one row for each key of the left table: the newest price revises it", SOFT, size=12)
    d.text(20, 278, "What did it cost when it was ordered? A lookup.", INK)
    d.text(20, 302, "What does it cost by what is known now? A join.", INK)
    return d


def apply() -> Drawing:
    """The life of an apply: build beside the stream, compare, swap; and the way back."""
    d = Drawing(640, 340, "An apply builds new tables while the stream goes on, compares, and swaps them in")
    d.text(20, 40, "stream", SOFT)
    d.box(110, 20, 350, "the old version goes on")
    d.box(484, 20, 136, "the new version", GREEN)
    d.text(20, 110, "apply", SOFT)
    stages = (("plan", 110, 70, SOFT), ("build", 190, 120, AMBER), ("compare", 320, 80, AMBER))
    for name, x, width, color in stages:
        d.box(x, 90, width, name, color)
    d.box(410, 90, 80, "swap", RED)
    d.line(450, 52, 450, 86, RED, arrow=True)
    d.line(494, 105, 540, 105)
    d.line(540, 105, 540, 54, arrow=True)
    d.text(110, 148, "changes nothing", SOFT, size=12)
    d.text(224, 148, "folds the log into new tables", SOFT, size=12)
    d.text(410, 148, "one commit for each table", SOFT, size=12)
    d.text(20, 202, "readers", SOFT)
    d.box(110, 182, 340, "old rows")
    d.box(454, 182, 166, "new rows", GREEN)
    d.text(20, 252, "Killed in build or compare: apply again, and it goes on where it stopped.", INK)
    d.text(20, 278, "Killed in the swap: apply again with the same --emit; readers see old or new rows.", INK)
    d.text(20, 304, "Afterwards: headrace rollback puts the old tables back while they are kept.", INK)
    return d


def measured(figure: str, better: str, without: tuple[str, ...] = ()) -> Drawing:
    """A bar for each job and side.

    In:  figure   of `docs/compared.json`
         better   which way is better
         without  sides that are left out
    """
    jobs = json.loads((IMAGES.parent / "compared.json").read_text(encoding="utf-8"))
    sides = {
        name: {title: side for title, side in job["sides"].items() if title not in without}
        for name, job in jobs.items()
    }
    values = [side[figure] for shown in sides.values() for side in shown.values()]
    d = Drawing(
        640, 20 + 34 * len(jobs) + 24 * len(values), f"{figure} of each job and system; {better} is better"
    )
    y = 14
    for name, job in jobs.items():
        d.text(20, y + 20, f"{name}: {job['title']}", size=15)
        y += 32
        for title, side in sides[name].items():
            right = side["results"] in RIGHT
            color = SOFT if title == FLOOR else GREEN if title == "Headrace" else BLUE if right else RED
            d.text(190, y + 14, "the floor: reading alone" if title == FLOOR else title, SOFT, "end", 12)
            d.bar(200, y, max(2, 340 * side[figure] / max(values)), color)
            d.text(206 + 340 * side[figure] / max(values), y + 14, f"{side[figure]:,}", color, size=12)
            y += 24
        y += 2
    return d


PICTURES: dict[str, Callable[[], Drawing]] = {
    "log-and-cuts.svg": log_and_cuts,
    "waits.svg": waits,
    "windows.svg": windows,
    "replays.svg": replays,
    "join.svg": join,
    "lookup-or-join.svg": lookup_or_join,
    "apply.svg": apply,
    "proof.svg": proof,
    "measured-speed.svg": partial(measured, "records/s", "more"),
    "measured-cpu.svg": partial(measured, "CPU s per million", "less"),
    "measured-memory.svg": partial(measured, "peak MiB", "less", GUESTS),
}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (IMAGES / name).write_text(draw().svg(), encoding="utf-8")
