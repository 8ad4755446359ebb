"""What trials have found: one line each in `results.jsonl`, and the table that `docs/reliability.md` shows of them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.jsonl"
PAGE = HERE.parents[1] / "docs" / "reliability.md"
BEGIN, END = "<!-- the table: make faults ARGS=--table -->", "<!-- the end of the table -->"
HELD, BROKEN = "held", "broken"


@dataclass(frozen=True)
class Line:
    """One trial: a life through which a fault came so many times.

    recovery_s  from each restart, or each return of what was away, to the next commit
    words       about what is wrong
    """

    fault: str
    storage: str
    seed: int
    times: int
    outcome: str
    records: int
    rows: int
    lost: int
    doubled: int
    unaccounted: int
    recovery_s: list[float]
    revision: str
    date: str
    words: list[str]


def revision() -> str:
    """The commit that is tried; with a plus if files of the engine differ from it."""
    root = HERE.parents[1]
    git = ["git", "-C", str(root)]
    head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    changed = subprocess.run(
        [*git, "status", "--porcelain", "platform"], capture_output=True, text=True, check=True
    )
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")


def append(line: Line, path: Path = RESULTS) -> None:
    """Keep the line of a trial."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(line)) + "\n")


def kept(path: Path = RESULTS) -> list[Line]:
    """The lines so far."""
    return [Line(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def times(lines: Iterable[Line], fault: str) -> int:
    """How often a fault came, over all trials of it that were judged."""
    return sum(line.times for line in lines if line.fault == fault)


def table(lines: Sequence[Line], promises: Mapping[str, str]) -> str:
    """The matrix in Markdown: one row for each fault and storage that was tried, and one for each fault that was not.

    In: promises  what is promised by fault, in the order of the rows
    """
    rows = [
        "| fault | promise | lake on | runs | trials | rows compared | lost | doubled | unaccounted | recovery: median, worst |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for fault, promise in promises.items():
        if not any(line.fault == fault for line in lines):
            rows.append(f"| {fault} | {promise} | - | 0 | 0 | - | - | - | - | - |")
        for storage in sorted({line.storage for line in lines if line.fault == fault}):
            some = [line for line in lines if (line.fault, line.storage) == (fault, storage)]
            figures = (
                f"{sum(getattr(line, name) for line in some):,}"
                for name in ("times", "rows", "lost", "doubled", "unaccounted")
            )
            runs, *others = figures
            cells = [fault, promise, storage, runs, f"{len(some):,}", *others, _recovery(some)]
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _recovery(lines: Iterable[Line]) -> str:
    seconds = [each for line in lines for each in line.recovery_s]
    return f"{median(seconds):.1f} s, {max(seconds):.1f} s" if seconds else "-"


def write_table(promises: Mapping[str, str], page: Path = PAGE, results: Path = RESULTS) -> None:
    """Put the table between its marks."""
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    assert END in rest, f"{page} has no place for the table: '{BEGIN}' and '{END}'"
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n\n{table(kept(results), promises)}\n\n{END}{after}", encoding="utf-8")
