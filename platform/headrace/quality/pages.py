"""The pages of data quality: one for each asset, and an index made of the summaries of all.

A page needs nothing but itself (no network, no script). Every file is written whole and then takes the place
of the last one. Checks of different assets may run in different processes: each writes its own summary and
page, and whoever writes the index looks again afterwards whether a summary has changed meanwhile.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.fold.fates import FATES, LATE
from headrace.log.clock import SystemClock
from headrace.quality.parity import differing_rows
from headrace.quality.results import ERROR, CheckResult
from headrace.quality.suites import DOCS_INDEX
from headrace.quality.words import counted, moment, percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import jinja2

    from headrace.lifecycle.backfill_plan import DayVerdict
    from headrace.quality.books import Books

TEMPLATES = Path(__file__).with_name("templates")
SUMMARIES = "summaries"
EQUAL_DAYS_SHOWN = 31


@dataclass(frozen=True)
class Asset:
    """What a page is about: a `log` or a `node`, by name, read as far as `read_to_ms`."""

    kind: str
    name: str
    read_to_ms: int | None

    @property
    def file(self) -> str:
        """The name of its files; topics have letters, digits, `.`, `_` and `-` alone, and nodes fewer."""
        return f"{self.kind}-{self.name}"


def node_evidence(books: Books, days: Sequence[DayVerdict]) -> dict[str, Any]:
    """What a node's page shows beside the checks: the ledger, the days, the late ratio."""
    equal = sorted((v for v in days if v.equal), key=lambda v: v.what)
    shown = [v for v in days if not v.equal] + equal[-EQUAL_DAYS_SHOWN:]
    shown.sort(key=lambda v: v.what, reverse=True)
    return {
        "delivered": books.delivered,
        "fates": [{"fate": fate, "records": books.total(fate)} for fate in FATES],
        "ledger": [{**asdict(account), "accounted": account.accounted} for account in books.accounts],
        "in_results": books.in_results,
        "late_ratio": books.total(LATE) / books.delivered if books.delivered else 0.0,
        "days": [{**asdict(v), "day": v.what, "rows_differing": differing_rows(v)} for v in shown],
        "days_hidden": len(days) - len(shown),
    }


def write(
    docs: Path,
    asset: Asset,
    results: Sequence[CheckResult],
    claims: Mapping[str, str],
    evidence: Mapping[str, Any],
) -> Path:
    """Write an asset's summary and page, and the index anew; the page's path."""
    summary = {
        **asdict(asset),
        "file": asset.file,
        "status": _status(results),
        "verdict": _verdict(asset, results, evidence),
        "read_to": moment(asset.read_to_ms),
        "checked_at": moment(SystemClock().now_ms() // 1000 * 1000),
        "checks": [{**asdict(result), "claim": claims[result.name]} for result in results],
        "evidence": evidence,
    }
    page = docs / f"{asset.file}.html"
    write_atomically(docs / SUMMARIES / f"{asset.file}.json", json.dumps(summary, indent=1))
    write_atomically(page, _template("asset.html").render(asset=summary, gx=f"gx/{asset.file}/{DOCS_INDEX}"))
    _write_index(docs)
    return page


def write_atomically(path: Path, text: str) -> None:
    """Write a file whole or not at all; a reader sees the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(name).chmod(0o644)
    Path(name).replace(path)


def _write_index(docs: Path) -> None:
    written = None
    while written != (found := _summaries(docs)):
        assets = [json.loads(path.read_text(encoding="utf-8")) for path, _ in found]
        write_atomically(docs / "index.html", _template("index.html").render(_overview(assets)))
        written = found


def _summaries(docs: Path) -> list[tuple[Path, int]]:
    return [(path, path.stat().st_mtime_ns) for path in sorted((docs / SUMMARIES).glob("*.json"))]


def _overview(assets: list[dict[str, Any]]) -> dict[str, Any]:
    by_status = {status: [a for a in assets if a["status"] == status] for status in ("fail", "warn", "pass")}
    failing, warning = by_status["fail"], by_status["warn"]
    fine = f"{len(assets) - len(failing)} of {counted(len(assets), 'asset')}"
    if failing:
        verdict = f"{fine} can be trusted. {failing[0]['verdict']}"
    elif warning:
        verdict = (
            f"All tables can be trusted; look at {counted(len(warning), 'warning')}. {warning[0]['verdict']}"
        )
    else:
        verdict = f"Everything is in order: {counted(len(assets), 'asset')}, and every check holds."
    worst = "fail" if failing else "warn" if warning else "pass"
    return {"status": worst, "verdict": verdict, "assets": [*failing, *warning, *by_status["pass"]]}


def _status(results: Sequence[CheckResult]) -> str:
    failed = [result.severity for result in results if not result.passed]
    return "fail" if ERROR in failed else "warn" if failed else "pass"


def _verdict(asset: Asset, results: Sequence[CheckResult], evidence: Mapping[str, Any]) -> str:
    failed = sorted((r for r in results if not r.passed), key=lambda r: r.severity != ERROR)
    what = f"The log of {asset.name}" if asset.kind == "log" else asset.name
    if not failed:
        records = counted(evidence["delivered"], "record")
        return f"{what} is in order: every check holds over the {records} delivered."
    others = len(failed) - 1
    also = f" {counted(others, 'other check fails', 'other checks fail')} too." if others else ""
    standing = "is not to be trusted" if failed[0].severity == ERROR else "is right, but needs a look"
    return f"{what} {standing}: {failed[0].sentence}{also}"


@cache
def _template(name: str) -> jinja2.Template:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(num=lambda number: f"{number:,}", percent=percent)
    return environment.get_template(f"{name}.j2")
