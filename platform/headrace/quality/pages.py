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
from headrace.nodes.standing.emptiness import command_for
from headrace.quality import history
from headrace.quality.judgements.parity import differing_rows
from headrace.quality.results import ERROR, CheckResult
from headrace.quality.suites import DOCS_INDEX
from headrace.quality.words import counted, moment, percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import jinja2

    from headrace.lifecycle.backfills.backfill_plan import DayVerdict
    from headrace.quality.books import Books

TEMPLATES = Path(__file__).with_name("templates")
SUMMARIES = "summaries"
EQUAL_DAYS_SHOWN = 31
WAITING = "waiting"
STATUSES = ("fail", "warn", WAITING, "pass")
NOT_YET = (
    "the sensor of the first checks, once on, runs them when all streams have written something. "
    "The job quality runs them at any time."
)


@dataclass(frozen=True)
class Asset:
    """The subject of a page: a `log` or a `node`, by name, read as far as `read_to_ms`."""

    kind: str
    name: str
    read_to_ms: int | None

    @property
    def file(self) -> str:
        """The name of its files; topics have letters, digits, `.`, `_` and `-` alone, and nodes fewer."""
        return f"{self.kind}-{self.name}"


def node_evidence(books: Books, days: Sequence[DayVerdict]) -> dict[str, Any]:
    """The figures of a node's page beside the checks: the ledger, the days, the late ratio."""
    equal = sorted((v for v in days if v.equal), key=lambda v: v.what)
    shown = [v for v in days if not v.equal] + equal[-EQUAL_DAYS_SHOWN:]
    shown.sort(key=lambda v: v.what, reverse=True)
    return {
        "delivered": books.delivered,
        "fates": [
            {
                "fate": fate,
                "records": books.total(fate),
                "command": command_for(books.node.required_name, fate),
            }
            for fate in FATES
        ],
        "day_column": books.node.day_column,
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
    now_ms = SystemClock().now_ms() // 1000 * 1000
    figures = _figures(evidence)
    runs = history.with_run(history.runs_of(docs, asset.file), results, figures, now_ms)
    ordered = sorted(results, key=_worst_first)
    summary = {
        **asdict(asset),
        "file": asset.file,
        "status": _status(results),
        "verdict": _verdict(asset, results, evidence),
        "read_to": moment(asset.read_to_ms),
        "checked_at": moment(now_ms),
        "checks": [_as_shown(result, claims[result.name], runs) for result in ordered],
        "changes": history.changes(runs),
        "runs": len(runs),
        "figures": [{"name": name, "value": value, **_trend(runs, name)} for name, value in figures.items()],
        "evidence": evidence,
    }
    write_atomically(docs / history.HISTORY / f"{asset.file}.json", json.dumps(runs))
    page = _write_page(docs, summary)
    _write_index(docs)
    return page


def announce(docs: Path, claims: Mapping[Asset, Mapping[str, str]]) -> None:
    """Write a page for each asset that was not checked yet: what will be claimed of it, and when."""
    fresh = {of: said for of, said in claims.items() if not (docs / SUMMARIES / f"{of.file}.json").exists()}
    for asset, said in fresh.items():
        checks = [{"name": name, "claim": claim, "passed": None} for name, claim in said.items()]
        summary = {
            **asdict(asset),
            "file": asset.file,
            "status": WAITING,
            "verdict": f"{_what(asset)} was not checked yet: {NOT_YET}",
            "checks": checks,
        }
        _write_page(docs, summary)
    if fresh:
        _write_index(docs)


def _write_page(docs: Path, summary: Mapping[str, Any]) -> Path:
    page = docs / f"{summary['file']}.html"
    write_atomically(docs / SUMMARIES / f"{summary['file']}.json", json.dumps(summary, indent=1))
    link = f"gx/{summary['file']}/{DOCS_INDEX}"
    write_atomically(page, _template("asset.html").render(asset=summary, gx=link))
    return page


def _as_shown(result: CheckResult, claim: str, runs: Sequence[history.Run]) -> dict[str, Any]:
    """A check as its page shows it: what is wrong and what to do apart, since when, and how its figures moved."""
    said, _, action = result.sentence.rpartition("; ") if not result.passed else (result.sentence, "", "")
    numbers = [
        {"name": name, "value": value, "line": history.line(history.trend(runs, result.name, name))}
        for name, value in result.metadata.items()
    ]
    return {
        **asdict(result),
        "claim": claim,
        "said": f"{said}." if said and action else result.sentence,
        "action": action[:1].upper() + action[1:] if said else "",
        "standing": history.standing(runs, result.name),
        "numbers": numbers,
    }


def _worst_first(result: CheckResult) -> int:
    return 2 if result.passed else 0 if result.severity == ERROR else 1


def _figures(evidence: Mapping[str, Any]) -> dict[str, float]:
    """The figures of an asset as a whole, whose trend its page shows."""
    figures: dict[str, float] = {"delivered": evidence["delivered"]}
    if "dead_letters" in evidence:
        figures["dead_letters"] = evidence["dead_letters"]
    figures |= {each["fate"]: each["records"] for each in evidence.get("fates", ()) if each["records"]}
    if "late_ratio" in evidence:
        figures["late_ratio"] = evidence["late_ratio"]
    return figures


def _trend(runs: Sequence[history.Run], name: str) -> dict[str, Any]:
    points = history.figure_trend(runs, name)
    return {"line": history.line(points), "first": points[0][1]}


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
    by_status = {status: [a for a in assets if a["status"] == status] for status in STATUSES}
    failing, warning, waiting = by_status["fail"], by_status["warn"], by_status[WAITING]
    ordered = [asset for status in STATUSES for asset in by_status[status]]
    if len(waiting) == len(assets):
        verdict = f"Nothing was checked yet: {NOT_YET}"
        return {"status": WAITING, "verdict": verdict, "assets": ordered}
    fine = f"{len(assets) - len(failing) - len(waiting)} of {counted(len(assets), 'asset')}"
    if failing:
        verdict = f"{fine} can be trusted. {failing[0]['verdict']}"
    elif warning:
        verdict = (
            f"All tables can be trusted; look at {counted(len(warning), 'warning')}. {warning[0]['verdict']}"
        )
    elif waiting:
        left = counted(len(waiting), "asset was", "assets were")
        verdict = f"What was checked is in order; {left} not checked yet."
    else:
        verdict = f"Everything is in order: {counted(len(assets), 'asset')}, and every check holds."
    worst = "fail" if failing else "warn" if warning else WAITING if waiting else "pass"
    return {"status": worst, "verdict": verdict, "assets": ordered}


def _status(results: Sequence[CheckResult]) -> str:
    failed = [result.severity for result in results if not result.passed]
    return "fail" if ERROR in failed else "warn" if failed else "pass"


def _what(asset: Asset) -> str:
    return f"The log of {asset.name}" if asset.kind == "log" else asset.name


def _verdict(asset: Asset, results: Sequence[CheckResult], evidence: Mapping[str, Any]) -> str:
    failed = sorted((r for r in results if not r.passed), key=lambda r: r.severity != ERROR)
    what = _what(asset)
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
