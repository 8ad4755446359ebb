"""The picture of a year: a line for each figure, over the days."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from docs.tools.pictures import BLUE, SOFT, Drawing

WIDTH, HEIGHT, LEFT = 640, 74, 210


def drawn(days: Mapping[str, Sequence[float]], commits: int, length: int) -> Drawing:
    """A strip for each figure, from 0 to its highest value.

    In: length  of the year, in days
    """
    title = f"{commits:,} commits over {length} days"
    picture = Drawing(WIDTH, 40 + HEIGHT * len(days), title)
    picture.text(20, 26, title)
    for number, (name, values) in enumerate(days.items()):
        top, highest = 40 + HEIGHT * number, max([*values, 1e-9])
        width, height = WIDTH - LEFT - 20, HEIGHT - 24
        picture.text(20, top + 20, name)
        picture.text(20, top + 40, f"last {values[-1]:,.1f}, highest {highest:,.1f}", SOFT, size=12)
        picture.line(LEFT, top + height, LEFT + width, top + height)
        points = " ".join(
            f"{LEFT + width * at / max(1, len(values) - 1):.1f},{top + height * (1 - value / highest):.1f}"
            for at, value in enumerate(values)
        )
        picture.parts.append(f'<polyline points="{points}" fill="none" stroke="{BLUE}" stroke-width="1.5"/>')
    return picture
