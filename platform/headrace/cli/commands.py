"""Streams whose tables follow from their logs alone: run them, look at them, change them, repair them."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.console.deployment import USUAL, Deployment
from headrace.cli.console.long_work import long_work
from headrace.cli.console.options import DEFAULTS, Root
from headrace.cli.console.telling import report, report_error
from headrace.cli.console.unexpected import print_trace_if_asked, unexpected
from headrace.errors import HeadraceError, TransientError
from headrace.extras import missing_extra

if TYPE_CHECKING:
    from headrace.log.decisions.limits import LimitsSet

UNEXPECTED, MAY_GO_AWAY = 70, 75  # EX_SOFTWARE and EX_TEMPFAIL of sysexits.h
EXIT_CODES: Mapping[int, str] = {
    0: "done",
    1: "the answer is no: a check or a comparison failed, a plan refuses something, an erasure is pending, a key has no row",
    2: "an error, which says what to do",
    UNEXPECTED: "an error that Headrace did not expect; it names the file with its stack trace",
    MAY_GO_AWAY: "an error that may go away: try again",
}
EPILOG = f"Exit codes: {'; '.join(f'{code} {meaning}' for code, meaning in EXIT_CODES.items())}."
app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help=__doc__, epilog=EPILOG)


def accept_gap(
    topic: Annotated[str, typer.Argument(help="The topic that lost records.")],
    deployment: Deployment = USUAL,
) -> None:
    """Record in a topic's log which records Kafka deleted before they were read, so that its stream can go on."""
    from headrace.lifecycle.log_repair.gaps import accept_gap as accept
    from headrace.spark.kafka import KafkaSettings

    lost = accept(deployment.session(), deployment.lake, deployment.topic(topic), KafkaSettings())
    for partition, (first, end) in sorted(lost.items()):
        told = f"Partition {partition}: offsets {first} to {end - 1} recorded as lost."
        report(told, topic=topic, partition=partition, first_offset=first, end_offset=end)
    if not lost:
        report(f"Topic '{topic}' has lost nothing that its log needs.")


def repair(
    topic: Annotated[str, typer.Argument(help="The topic whose log or nodes are repaired.")],
    deployment: Deployment = USUAL,
) -> None:
    """Put lost commits back into a topic's log, and undo what other clients did to its tables. Stop the stream first."""
    from headrace.lifecycle.log_repair.repair import Repair
    from headrace.spark.kafka import KafkaSettings

    act = Repair(
        deployment.session(), deployment.lake, deployment.nodes, deployment.topic(topic), KafkaSettings()
    )
    done = False
    with long_work("Looks at the log and at the tables.") as work:
        act.on_stage, act.on_folded = work.begin, work.reach
        act.on_put_back = partial(work.reach, what="lost commits put back")
        for each in act.run():
            report(each)
            done = True
    if not done:
        report(f"Topic '{topic}': nothing is lost, no node has read beyond its log, and nobody changed rows.")


def reset_guard(
    topic: Annotated[str, typer.Argument(help="The topic whose replay guard refuses new records.")],
    root: Annotated[str, typer.Argument(help="The root topic that was created again.")],
    partition: Annotated[int | None, typer.Option(help="One partition of the root; all by default.")] = None,
    deployment: Deployment = USUAL,
) -> None:
    """Let a topic's replay guard forget a root topic whose offsets began again. Stop the topic's stream first."""
    from headrace.lifecycle.log_repair.guards import reset_guard as reset

    forgotten = reset(deployment.session(), deployment.lake, deployment.topic(topic), root, partition)
    for number in forgotten:
        told = f"Topic '{topic}': all that was seen of {root} partition {number} is forgotten from here on."
        report(told, topic=topic, root=root, partition=number)


def set_limits(
    node: Annotated[str, typer.Argument(help="The suppressed node.")],
    time_limit: Annotated[str | None, typer.Option(help="How long a wait lasts, as '5 minutes'.")] = None,
    max_records: Annotated[int | None, typer.Option(help="Bound of each partition; 0: none.")] = None,
    max_bytes: Annotated[int | None, typer.Option(help="Bound of each partition; 0: none.")] = None,
    deployment: Deployment = USUAL,
) -> None:
    """Set limits of a suppression, whether its stream runs or not. A limit that is not given stays as it is."""
    from headrace.description.limits import limits_asked
    from headrace.lifecycle.live_limits import set_limits as record

    asked = limits_asked(time_limit, max_records, max_bytes)
    entry = record(deployment.session(), deployment.lake, deployment.node(node), asked)
    report(f"Node '{node}': {_limits_set(entry)}", node=node, **_facts(entry))


def set_trigger(
    trigger_ms: Annotated[int, typer.Argument(help="Shortest time between micro-batches; 0: as configured.")],
    stream: Annotated[str, typer.Option(help="Name of the stream run.")] = "streams",
    lake: Root = DEFAULTS.lake,
) -> None:
    """Set how often the queries of a stream work. A running stream follows within seconds."""
    from headrace.lake.paths import Lake
    from headrace.streams.trigger import set_trigger as record

    record(Lake(lake), stream, trigger_ms)
    told = f"Stream '{stream}': trigger_ms {trigger_ms or 'as configured'}."
    report(told, stream=stream, trigger_ms=trigger_ms or None)


def limits(
    node: Annotated[str, typer.Argument(help="The suppressed node.")],
    deployment: Deployment = USUAL,
) -> None:
    """Show the limits of a suppression in force, and when each was set."""
    from headrace.description.limits import limits_in_words, limits_of
    from headrace.lifecycle.live_limits import limits_known

    policy, entries = limits_known(deployment.lake, deployment.node(node))
    words = [f"In force: {limits_in_words(limits_of(policy))}.", *map(_limits_set, entries)]
    report("\n".join(words), node=node, in_force=dict(limits_of(policy)), set=[*map(_facts, entries)])


def _limits_set(entry: LimitsSet) -> str:
    from headrace.description.limits import limits_in_words

    at = dt.datetime.fromtimestamp(entry.ingested_at_ms / 1000, dt.UTC)
    return f"{limits_in_words(entry.limits)} since ingested_at {at.isoformat(timespec='milliseconds')}."


def _facts(entry: LimitsSet) -> dict[str, Any]:
    return {"ingested_at_ms": entry.ingested_at_ms, **entry.limits}


def rebuild(
    node: Annotated[str, typer.Argument(help="The node whose suppression was added, altered or removed.")],
    deployment: Deployment = USUAL,
) -> None:
    """Rebuild a node from its log into new tables, while its old stream runs. Its next start swaps the new tables in."""
    from headrace.lifecycle.rebuilds.rebuild import rebuild_due
    from headrace.log.clock import SystemClock
    from headrace.nodes.descriptions.references import resolve_references
    from headrace.spark.session import pipeline_session

    described = resolve_references(deployment.lake, deployment.node(node))
    built = rebuild_due(pipeline_session(deployment.session()), described, deployment.lake, SystemClock())
    if built is None:
        report(f"Node '{node}': its tables are those of this description.", node=node, rebuilt=False)
        return
    try:
        with long_work("Folds the log.") as work:
            while built.advance():
                work.reach(built.records, built.records_before)
    finally:
        built.close()
    told = f"Node '{node}': rebuilt as far as its tables have read the log. Start its stream with this description."
    report(told, node=node, rebuilt=True, records=built.records)


def redeliver(
    node: Annotated[str, typer.Argument(help="The node whose rows are delivered again.")],
    day: Annotated[
        list[dt.datetime] | None, typer.Option(formats=["%Y-%m-%d"], help="UTC day; all by default.")
    ] = None,
    missing: Annotated[bool, typer.Option(help="Only rows that the sink says it lacks.")] = False,
    sink: Annotated[list[str] | None, typer.Option(help="Name of a sink; all by default.")] = None,
    deployment: Deployment = USUAL,
) -> None:
    """Deliver a node's rows to its sinks again. Without --day and --missing, correctable sinks then hold only these rows."""
    from headrace.writing.delivery.redeliver import redeliver as again

    days = [d.date() for d in day] if day else None
    given = again(
        deployment.session(),
        deployment.lake,
        deployment.node(node),
        days,
        only_missing=missing,
        sinks=sink or None,
    )
    for each in given:
        report(each.in_words, vars(each))


def erase(
    topic: Annotated[str, typer.Argument(help="The topic whose records are erased.")],
    key: Annotated[str, typer.Argument(help="Their key: its text, or a JSON object of the key's columns.")],
    deployment: Deployment = USUAL,
) -> None:
    """Erase a key's records from a topic's log and from every table made of them. Streams may run."""
    from headrace.lifecycle.erasure import Erasure, until_vacuum

    nodes = deployment.nodes
    erasure = Erasure(deployment.session(), deployment.lake, nodes, deployment.topic(topic), key)
    with long_work("Erases the key's records.") as work:
        for done in erasure.run(on_stage=work.begin, on_folded=work.reach):
            report(done)
    report(until_vacuum())


def retain(
    topic: Annotated[str, typer.Argument(help="The topic whose log is cut.")],
    before: Annotated[dt.datetime, typer.Option(help="Log commits before this time are cut off, in UTC.")],
    deployment: Deployment = USUAL,
) -> None:
    """Cut off a log's older rows, after every node has written its opening balance. Streams may run."""
    from headrace.description.epoch_time import milliseconds
    from headrace.lifecycle.retention import Retention

    work = Retention(deployment.session(), deployment.lake, deployment.nodes, deployment.topic(topic))
    with long_work("Looks at the log.") as shown:
        cut = work.run(milliseconds(before), on_stage=shown.begin, on_folded=shown.reach)
    report(cut)


def maintain(
    node: Annotated[
        list[str] | None, typer.Option(help="A node, with the logs that it reads; all by default.")
    ] = None,
    compact: Annotated[bool, typer.Option(help="Pack small files.")] = True,
    vacuum: Annotated[bool, typer.Option(help="Delete files that left the newest version long ago.")] = True,
    retention_hours: Annotated[float, typer.Option(help="How long ago; at least 48.")] = 168.0,
    deployment: Deployment = USUAL,
) -> None:
    """Pack small files of logs and tables, and delete files that nobody can read any more. Streams may run meanwhile."""
    from headrace.lifecycle.maintenance import Maintenance

    nodes = [deployment.node(name) for name in node] if node else deployment.nodes
    work = Maintenance(
        deployment.session_when_needed(), deployment.lake, nodes, retention_hours=retention_hours
    )
    for done in work.run(compact=compact, vacuum=vacuum):
        freed = done.stored_before.bytes - done.stored_after.bytes
        files = f"{done.before.files:>6,} files became {done.after.files:,}, {freed:,} bytes freed"
        report(
            f"{done.of} {done.what}: {f'left as it is. {done.skipped}' if done.skipped else files}",
            asdict(done),
        )


def main() -> None:
    """Run the command line. An error is shown by its words, and as a stack trace only if HEADRACE_DEBUG asks for it."""
    try:
        app()
    except HeadraceError as error:
        print_trace_if_asked(error)
        report_error(error)
        sys.exit(MAY_GO_AWAY if isinstance(error, TransientError) else 2)
    except Exception as error:
        print_trace_if_asked(error)
        report_error(missing_extra(error) or unexpected(error))
        sys.exit(2 if missing_extra(error) else UNEXPECTED)
