"""Check a log, or a node: read one snapshot, have it judged, say it in words, write the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from headrace import lake as lakes
from headrace.errors import TerminalError
from headrace.explain.graces.grace_curve import grace_curve
from headrace.lifecycle.backfill import Backfill
from headrace.nodes.descriptions.asset_names import stream_name
from headrace.nodes.descriptions.references import resolve_references
from headrace.nodes.rows.node_frames import shown_results
from headrace.nodes.standing.emptiness import why_empty
from headrace.nodes.standing.lake_facts import LakeFacts
from headrace.nodes.standing.last_error import last_error
from headrace.nodes.standing.waits import at, waits_of
from headrace.operators.grace import is_windowed
from headrace.quality import pages
from headrace.quality.books import open_books
from headrace.quality.claims import Check, Finding, Outcome
from headrace.quality.figures import daily
from headrace.quality.figures.curve_picture import curve_picture
from headrace.quality.figures.log_profile import profile
from headrace.quality.judgements import (
    batching,
    chain,
    conservation,
    joining,
    parity,
    ratios,
    replays,
    uniqueness,
)
from headrace.quality.judgements.expected import expected_checks
from headrace.quality.results import (
    DEFAULT_THRESHOLDS,
    CheckResult,
    Thresholds,
    log_checks,
    node_checks,
)
from headrace.quality.suites import judge
from headrace.spark.session import pinned

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node, Topic
    from headrace.lake.paths import Lake
    from headrace.lifecycle.backfills.backfill_plan import DayVerdict
    from headrace.nodes.progress import Progress
    from headrace.nodes.rows.node_frames import NodeFrames
    from headrace.quality.books import Books

CURVES = "curves"  # the folder of the pages that remembers days


class SnapshotComparison(Backfill):
    """A backfill that swaps nothing, of the tables as of a micro-batch; the stream may be ahead of it."""

    def __init__(
        self, spark: SparkSession, lake: Lake, node: Node, frames: NodeFrames, progress: Progress
    ) -> None:
        """In: held, progress  the node's tables as of one micro-batch."""
        super().__init__(spark, lake, node)
        self._frames, self.progress = frames, progress

    def verdicts(self) -> list[DayVerdict]:
        """Recompute and compare, day by day. Raises: LeaseTakenError when a backfill of the node is running."""
        return self.run(swap=False)

    def _table(self) -> DataFrame:
        """The rows of the snapshot; of current results with the changes that are not folded yet."""
        if self.node.has_days:
            return self._frames.results
        return shown_results(self.node, self._frames, self.progress)

    @property
    def _upto_ms(self) -> Mapping[str, int]:
        return self.progress.upto_ms


def check_log(
    spark: SparkSession, lake: Lake, topic: Topic, docs: str, *, thresholds: Thresholds = DEFAULT_THRESHOLDS
) -> list[CheckResult]:
    """Judge the claims of `log_checks` about a topic's log, in that order.

    In: docs  a local folder for the pages; `index.html` in it lists all assets ever checked there
    """
    spark = pinned(spark)
    log = profile(spark, lake, topic)
    checks = [
        chain.no_log_commit_missing(log.rows, topic.name),
        uniqueness.no_duplicate_offset(log.rows, topic.name, log.records),
        ratios.dead_letters_below(
            log.dead_letters, log.records, log.reasons, thresholds.dead_letter_ratio_max
        ),
    ]
    evidence = log.evidence()
    if topic.replay_guard is not None:
        judged = replays.read_replays(log.rows, topic)
        checks += [
            replays.no_duplicate_replay(judged),
            replays.replays_below(judged, log.records, thresholds.replay_ratio_max),
            replays.guard_is_advancing(judged, thresholds.refused_in_a_row_max),
        ]
        evidence |= {"replays": judged.evidence()}
    asset = pages.Asset("log", topic.name, log.read_to_ms)
    return _report(docs, asset, checks, log_checks(topic), evidence, thresholds)


def check_node(
    spark: SparkSession,
    lake: Lake,
    node: Node,
    docs: str,
    *,
    thresholds: Thresholds = DEFAULT_THRESHOLDS,
    verdicts: Sequence[DayVerdict] | None = None,
) -> list[CheckResult]:
    """Judge the claims of `node_checks` about a node's results, in that order.

    In:     docs      a local folder for the pages; `index.html` in it lists all assets ever checked there
            verdicts  of the days already recomputed; None: recompute every day now, and swap nothing
    Raises: TerminalError when the node's state was written by another description of it.
    """
    spark, name, node = pinned(spark), node.required_name, resolve_references(lake, node)
    books = open_books(spark, lake, node)
    days = _verify(spark, lake, books) if verdicts is None else verdicts
    judged = {
        "every_offset_accounted_for": lambda: conservation.every_offset_accounted_for(spark, lake, books),
        "windows_are_final": lambda: uniqueness.windows_are_final(books.results, node),
        "rows_are_unique": lambda: uniqueness.rows_are_unique(books.results, node),
        "batches_within_limits": lambda: batching.batches_within_limits(books.results, node),  # type: ignore[arg-type]
        "no_batch_lost_or_repeated": lambda: batching.no_batch_lost_or_repeated(spark, lake, books, node),  # type: ignore[arg-type]
        "join_equals_recomputation": lambda: joining.join_equals_recomputation(
            books, thresholds.join_sample_ratio
        ),
        "no_orphans_above": lambda: joining.no_orphans_above(books, thresholds.orphan_ratio_max),
        "no_unmatched_above": lambda: ratios.no_unmatched_above(books, thresholds.unmatched_ratio_max),
        "late_drops_below": lambda: ratios.late_drops_below(books, thresholds.late_ratio_max),
        "backfill_equals_stream": lambda: parity.backfill_equals_stream(
            name, days, log_intact=books.log_intact
        ),
    }
    claims = node_checks(node)
    checks = [judged[check]() for check in claims if check in judged] + expected_checks(books)
    evidence = pages.node_evidence(books, () if isinstance(days, str) else days)
    evidence |= daily.evidence_by_day(spark, lake, books) | {"remarks": remarks_on(node, LakeFacts(lake))}
    if is_windowed(node) and books.accounts:
        evidence |= {"curve": _curve(spark, lake, books, docs)}
    read_to_ms = max(books.progress.upto_ms.values(), default=None)
    return _report(docs, pages.Asset("node", name, read_to_ms), checks, claims, evidence, thresholds)


def _curve(spark: SparkSession, lake: Lake, books: Books, docs: str) -> dict[str, Any] | None:
    """The picture of the node's curve as of the books; None: no record belongs to a window, or the log cannot be read."""
    folder = f"file:{_local(docs)}/{CURVES}"
    try:
        curve = grace_curve(spark, lake, books.node, upto_ms=books.progress.upto_ms, folder=folder)
    except lakes.ForeignCommitError:  # a check says it
        return None
    return curve_picture(curve) if curve.records else None


def announce(docs: str, topics: Iterable[Topic], nodes: Iterable[Node]) -> None:
    """Write pages that say what will be claimed of logs and nodes that were not checked yet.

    In: docs  as of `check_log`
    """
    logs = {pages.Asset("log", topic.name, None): log_checks(topic) for topic in topics}
    tables = {pages.Asset("node", node.required_name, None): node_checks(node) for node in nodes}
    pages.announce(_local(docs), logs | tables)


def _verify(spark: SparkSession, lake: Lake, books: Books) -> Sequence[DayVerdict] | str:
    """The verdicts of every day as of the books, so that one report speaks of one moment; or why they cannot be had."""
    from headrace.writing.leases.lease import LeaseTakenError

    name = books.node.required_name
    if not lakes.exists(lake.table(name)):
        gone = (
            f"The result table of {name} is gone although its state is not: restore it, or rebuild the node."
        )
        return gone if books.accounts else ()
    try:
        return SnapshotComparison(spark, lake, books.node, books.frames, books.progress).verdicts()
    except LeaseTakenError:
        return f"{name} could not be compared: a backfill of it is running; run the check again after it."
    except lakes.ForeignCommitError as error:
        return f"{name} could not be compared: {error}"


def _report(
    docs: str,
    asset: pages.Asset,
    checks: Sequence[Check],
    claims: Mapping[str, str],
    evidence: Mapping[str, Any],
    thresholds: Thresholds,
) -> list[CheckResult]:
    folder = _local(docs)
    judged = {
        check.name: (check.claim, claims[check.name], check.severity or thresholds.severity(check.name))
        for check in checks
        if check.claim is not None
    }
    outcomes = judge(judged, folder / "gx" / asset.file)
    results = [_result(check, outcomes.get(check.name), thresholds) for check in checks]
    page = pages.write(folder, asset, results, claims, evidence)
    return [replace(result, report=str(page)) for result in results]


def _result(check: Check, outcome: Outcome | None, thresholds: Thresholds) -> CheckResult:
    passed = check.unjudged if outcome is None else outcome.passed
    if outcome is not None and outcome.error is not None:
        words = f"{check.name} could not be judged: {outcome.error}; mend that and run the check again."
        finding = Finding(words)
    elif outcome is not None and check.describe is not None:
        finding = check.describe(outcome)
    else:
        finding = check.explain(passed)
    severity = check.severity or thresholds.severity(check.name)
    return CheckResult(check.name, passed, severity, finding.sentence, finding.metadata)


def _local(docs: str) -> Path:
    parsed = urlparse(docs)
    if parsed.scheme not in ("", "file"):
        raise TerminalError(
            f"The folder for quality pages, {docs!r}, is not a local one.",
            hint="Give a path on this machine; publish it from there.",
        )
    return Path(unquote(parsed.path) if parsed.scheme else docs).resolve()


def remarks_on(node: Node, facts: LakeFacts) -> list[str]:
    """The answers, a sentence or two each; none: it has rows, waits for nothing, and has committed since it failed."""
    found, progress = list[str](), facts.progress(node.required_name)
    batches = 0 if progress is None else progress.batch
    error = last_error(facts.lake, stream_name(node.required_name), batches)
    if error is not None:
        found.append(f"It failed at {at(error.at_ms)} and has not committed since: {error.error}")
    waits = [str(wait) for wait in waits_of(node, facts)]
    if not facts.has_rows(node):
        found.append(f"It has no rows: {why_empty(node, facts)}")
        waits = [wait for wait in waits if wait not in found[-1]]
    return [*found, *waits]
