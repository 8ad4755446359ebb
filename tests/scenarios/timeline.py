"""Timelines drawn as text, played into a test driver.

One line per cut; in it, from left to right, what happens before the cut:
    s1@11         a record with key s1 and event time 11 minutes; its value is 1
    s1@11=2.5     the same with value 2.5 (null: a null field)
    p2:s1@11      the same on partition 2 (the default is 0)
    b/s1@11       the same on topic b (the default is the first topic)
    +3m           three minutes of wall clock pass
    !after state  the nodes' next micro-batch dies after that commit step
Words are separated by two blanks or more; `#` begins a remark.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Any

from tests.laws.tables import ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.testing import TestDriver

MINUTE = 60_000
RECORD = re.compile(
    r"(?:(?P<topic>\w+)/)?(?:p(?P<partition>\d):)?(?P<key>\w+)@(?P<minute>[\d.]+)(?:=(?P<value>\S+))?"
)


def play(driver: TestDriver, drawing: str, topic: str = "readings") -> None:
    """Play the lines one by one, each ending in a cut."""
    for line in filter(None, (line.split("#")[0].strip() for line in drawing.splitlines())):
        for word in re.split(r"\s{2,}", line):
            happen(driver, word, topic)
        driver.cut()


def happen(driver: TestDriver, word: str, default_topic: str) -> None:
    if word == "|":  # nothing happens; only the cut
        return
    if word.startswith("+"):
        driver.advance_wall_clock(word[1:])
    elif word.startswith("!"):
        driver.crash(word[1:])
    else:
        drawn = RECORD.fullmatch(word)
        assert drawn, f"cannot read {word!r}"
        driver.pipe(
            drawn["topic"] or default_topic,
            key=drawn["key"],
            value=f'{{"value": {drawn["value"] or 1}}}'.encode(),
            timestamp_ms=round(float(drawn["minute"]) * MINUTE),
            partition=int(drawn["partition"] or 0),
        )


def shown(rows: Iterable[Mapping[str, Any]], *columns: str) -> list[str]:
    """Rows as text, sorted: `s1 10-12 3`; windows in minutes, then the columns named (all the aggregates if none is)."""
    lines = []
    for row in rows:
        names = [*row]
        groups = names[: names.index("window_start")]
        start, end = (ms(row[name]) / MINUTE for name in ("window_start", "window_end"))
        others = columns or [name for name in names[len(groups) + 2 :] if not name.startswith("__")]
        texts = (
            [str(row[name]) for name in groups],
            [f"{start:g}-{end:g}"],
            [str(row[name]) for name in others],
        )
        lines.append(" ".join(chain(*texts)))
    return sorted(lines)
