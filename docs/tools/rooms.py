"""The picture of the rooms in `docs/architecture.md`, made of the imports. `python -m docs.tools.rooms` writes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tests.tidy.test_imports import HEADRACE, ORDER, imports

PAGE = Path(__file__).resolve().parents[1] / "architecture.md"
BEGIN, END = "<!-- rooms: begin -->", "<!-- rooms: end -->"
PART = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}", re.DOTALL)


def page(written: str) -> str:
    """The page with the picture made again. In: written  the page as it stands."""
    return PART.sub(lambda _: f"{BEGIN}\n\n```\n{picture()}\n```\n\n{END}", written)


def picture() -> str:
    """A line for each room, the outermost first: the rooms on which it stands."""
    width = max(map(len, ORDER))
    under = stands_on(imported())
    lines = (
        f"{room:{width}} ─▶ {', '.join(under[room])}" if under[room] else room for room in reversed(ORDER)
    )
    return "\n".join(lines)


def imported() -> dict[str, set[str]]:
    """The rooms from which each room imports."""
    rooms: dict[str, set[str]] = {room: set() for room in ORDER}
    for path in HEADRACE.rglob("*.py"):
        room = path.relative_to(HEADRACE).with_suffix("").parts[0]
        for _, name in imports(path):
            package, _, rest = name.partition(".")
            other = rest.partition(".")[0]
            if package == "headrace" and room in rooms and other in rooms and other != room:
                rooms[room].add(other)
    return rooms


def stands_on(rooms: Mapping[str, set[str]]) -> dict[str, list[str]]:
    """The rooms from which each imports, without those below another one of them."""
    below: dict[str, set[str]] = {}
    for room in ORDER:  # each imports from those before it alone
        below[room] = rooms[room].union(*(below[other] for other in rooms[room]))
    return {
        room: sorted(others - set().union(*(below[other] for other in others)), key=ORDER.index)
        for room, others in rooms.items()
    }


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
