"""Set limits of a suppressed node, while its stream runs or not; say which are in force."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace import lake as lakes
from headrace.description import is_of_kafka, written_by
from headrace.description.limits import (
    BOUNDS,
    LIMIT_MS,
    Limits,
    limited,
    limits_of,
    policy_of,
    suppressed_at,
    with_limits,
)
from headrace.description.node_output import sources_of
from headrace.engine.slices.log_slices import whole_log
from headrace.errors import DescriptionError, TerminalError, TransientError
from headrace.log.clock import SystemClock
from headrace.log.decisions.limits import LimitsSet, limits_in, requests_in
from headrace.log.sequencer import Sequencer
from headrace.nodes.descriptions.topics import topics_below
from headrace.spark.session import pipeline_session
from headrace.writing.leases.lease import LeaseTakenError, take_lease
from headrace.writing.leases.requests import ask, carry_out, pending, withdraw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node, Topic
    from headrace.description.suppression import Policy
    from headrace.lake.paths import Lake

MEANINGS: Mapping[str, str] = {
    "suppression_time_limit_seconds": "The time limit in force.",
    "suppression_max_records": "How many keys (with windows: keys and windows) of a partition may wait, as in force.",
    "suppression_max_bytes": "How many bytes of the raw keys and values of a partition may wait, as in force.",
}
PATIENCE_SECONDS = 120.0  # for the stream to end the commit that is under way


def limits_topic(node: Node) -> Topic:
    """The topic of Kafka in whose log limits of a node are recorded: its first one, or that of the node that it reads.

    The logs of nodes in between repeat them (see `writing.node_logs.node_log`).
    """
    topic = node.topics[0]
    writer = written_by(topic)
    return topic if writer is None else limits_topic(writer)


def topics_ticking(node: Node, limits: Limits) -> list[Topic]:
    """The other topics of Kafka below a node: their logs tick for a time limit that the log of the first one sets.

    They know it before it is in force, so none of them promises a moment at which a wait under it is over.
    """
    if LIMIT_MS not in limits:
        return []
    return [topic for topic in topics_below([node]) if topic.name != limits_topic(node).name]


def limits_known(lake: Lake, node: Node) -> tuple[Policy, list[LimitsSet]]:
    """The policy in force, and all limits that were set, oldest first; they stand in the log of `limits_topic`.

    Raises: DescriptionError when the node is not suppressed (see `suppressed_at`).
    """
    node = suppressed_at(node)
    described, log = policy_of(node), lake.log(limits_topic(node).name)
    if not lakes.exists(log):
        return described, []
    entries = [entry for entry in limits_in(whole_log(log).controls()) if entry.node == node.required_name]
    return limited(described, (entry.limits for entry in entries)), entries


def acceptable(lake: Lake, node: Node, limits: Limits) -> Policy:
    """The policy that would be in force with other limits.

    Raises: DescriptionError when it could not be: what is in force stays.
    """
    node = suppressed_at(node)
    topics = [limits_topic(node), *(sources_of(node) if LIMIT_MS in limits else ())]
    if topic := next((each for each in topics if not is_of_kafka(each)), None):
        raise DescriptionError(
            f"set-limits: node '{node.required_name}' reads node '{topic.in_words}' of another pipeline, "
            "whose logs do not know other limits.",
            hint="Change its description: suppress(hr.until_time_limit(…)). The node is rebuilt from its log.",
        )
    return with_limits(limits_known(lake, node)[0], limits)


def set_limits(
    spark: SparkSession, lake: Lake, node: Node, limits: Limits, *, patience_seconds: float = PATIENCE_SECONDS
) -> LimitsSet:
    """Have limits recorded as control rows of the log, by the stream if it runs; in force from there on.

    In:     limits  those that change (see `limits_asked`)
    Raises: DescriptionError for a bad value; TerminalError before the stream has ever run; TransientError when nobody
            recorded it in time.
    """
    node = suppressed_at(node)
    session, topic = pipeline_session(spark), limits_topic(node)
    acceptable(lake, node, limits)
    if not _has_begun(lake, topic):
        raise TerminalError(
            f"Topic '{topic.name}' has no log yet: the limits of '{node.required_name}' are those described.",
            hint="Start its stream first, or change the description.",
        )
    asked = {"node": node.required_name, "limits": dict(limits)}
    for other in topics_ticking(node, limits):
        told = {**asked, "elsewhere": True}
        if _has_begun(lake, other):
            _recorded(session, lake, other, told, patience_seconds)
        else:  # its stream finds the request once it has begun the log
            ask(lake, other.name, told)
    name = _recorded(session, lake, topic, asked, patience_seconds)
    entries = limits_in(whole_log(lake.log(topic.name)).controls())
    return next(entry for entry in entries if entry.request == name)


def limits_shown(policy: Policy) -> dict[str, float]:
    """The limits of a policy as figures of an asset; bounds that there are not are left out."""
    limits = limits_of(policy)
    limit_ms = limits.get("limit_ms")
    known = {
        "suppression_time_limit_seconds": None if limit_ms is None else limit_ms / 1000,
        **{f"suppression_{name}": limits[name] for name in BOUNDS},
    }
    return {name: value for name, value in known.items() if value is not None}


def _has_begun(lake: Lake, topic: Topic) -> bool:
    """Whether the log of a topic has a commit. Until then only its stream may write it, which records where it begins."""
    return lakes.last_commit(lakes.open_table(lake.log(topic.name)), f"log/{topic.name}") is not None


def _recorded(
    spark: SparkSession, lake: Lake, topic: Topic, asked: Mapping[str, Any], patience_seconds: float
) -> str:
    """Have one log record what is asked for; the name of the request.

    Raises: TransientError when nobody did in time
    """
    name = ask(lake, topic.name, asked)
    deadline = time.monotonic() + patience_seconds
    while name in pending(lake, topic.name) and time.monotonic() < deadline:
        if not _record(spark, lake, topic):
            time.sleep(0.5)
    withdraw(lake, topic.name, name)
    if name in requests_in(whole_log(lake.log(topic.name)).controls()):
        return name
    raise TransientError(
        f"The stream that writes the log of '{topic.name}' did not record the limits in {patience_seconds:.0f} s.",
        detail="The request was taken back.",
        hint="Look at the page of its log; headrace limits says what is in force.",
    )


def _record(spark: SparkSession, lake: Lake, topic: Topic) -> bool:
    """Record what is asked for if no stream does; False if one has the log's lease."""
    clock = SystemClock()
    try:
        lease = take_lease(spark, lake.lease(f"log/{topic.name}"), f"Log '{topic.name}'", clock)
    except LeaseTakenError:
        return False
    try:
        carry_out(lake, Sequencer(spark, topic, lake.log(topic.name), clock))
    finally:
        lease.release()
    return True
