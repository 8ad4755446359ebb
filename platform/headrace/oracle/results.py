"""From a node's description to its oracle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace.description import (
    Batches,
    FlatMapped,
    Lookup,
    NamedStream,
    Processed,
    Relation,
    RunningAggregate,
    SessionWindows,
    SlidingWindows,
    StreamJoin,
    Suppressed,
    TableChanges,
    WindowedAggregate,
)
from headrace.description.clocks import WALL
from headrace.description.lookup import EVENT
from headrace.oracle import relations
from headrace.oracle.aggregates import Group
from headrace.oracle.batches import batches
from headrace.oracle.fates import USED, refused
from headrace.oracle.log import Log, Results
from headrace.oracle.lookups import lookup
from headrace.oracle.processors import processed
from headrace.oracle.records import elements, records
from headrace.oracle.sessions import sessions
from headrace.oracle.sliding import sliding
from headrace.oracle.stream_joins import stream_join
from headrace.oracle.time_limits import time_limit
from headrace.oracle.values import Identity, identity
from headrace.oracle.wall_limits import wall_limit
from headrace.oracle.windows import windows

if TYPE_CHECKING:
    from headrace.description import Node


def results(node: Node, log: Log, wanted: Callable[[Identity], bool] = lambda key: True) -> Results:
    """The results of a node, computed from its logs.

    In:  log     the rows of its feeds; of all keys, or of some
         wanted  of a suppression by a time limit: for which keys rows are asked. The others' rows move its time
    Out: the rows of its table, what is still open, and the fate of each record
    Law: a function of the description and of the logs alone.
    """
    log = read_by(node, log)
    match node:
        case Lookup():
            return lookup(node, log)
        case StreamJoin():
            return stream_join(node, log)
        case NamedStream():
            return records(node, log)
        case FlatMapped():
            return elements(node, log)
        case Batches():
            return batches(node, log)
        case Processed():
            return processed(node, log)
        case TableChanges():
            return relations.changed_rows(node, log)
        case Suppressed():
            return (wall_limit if node.clock == WALL else time_limit)(node, log, wanted)
        case RunningAggregate():
            return totals(node, log)
        case WindowedAggregate(window=SessionWindows()):
            return sessions(node, log)
        case WindowedAggregate(window=SlidingWindows()):
            return sliding(node, log)
        case WindowedAggregate():
            return windows(node, log)
        case Relation():
            return relations.relation(node, log)
    at_home = import_module("headrace.operators.registry").part_of(node, "oracle")
    of_home: Results = at_home.results(node, log)
    return of_home


def changes(node: Relation, log: Log) -> dict[tuple[Any, int], relations.Change]:
    """The changes of a table, a join, or aggregates that are revised: one for each key and log commit that changes it.

    Out: by key and commit time the row before and the row after; None: there is none
    """
    return relations.changes(node, read_by(node, log))


def read_by(node: Node, log: Log) -> Log:
    """The logs as a node reads them: which topics drive its stream time.

    Law: the table of a lookup as of the log and global tables move nothing, except if the stream reads their topic, too.
    """
    of_stream = isinstance(node, Processed) or (isinstance(node, Lookup) and node.as_of != EVENT)
    topics = node.stream.topics if of_stream else node.topics  # type: ignore[attr-defined]
    return replace(log, driving=frozenset(topic.name for topic in topics))


def totals(node: RunningAggregate, log: Log) -> Results:
    """The totals that the logs lead to, each at the place of its last record."""
    found = Results()
    groups: dict[Identity, Group] = {}
    for row in log.rows:
        fate = refused(row, node.aggregates)
        if fate is None:
            key = identity(row.values[name] for name in node.by)
            groups.setdefault(key, Group(node.by, node.aggregates)).add(row)
        found.met(row, fate or USED)
    for group in groups.values():
        assert group.last is not None
        names = ("__sequence", "__topic", "__partition", "__offset")
        place = dict(zip(names, group.last.place, strict=True))
        worth = {"__timestamp": group.event_ms, "__records": group.records}
        found.rows.append({**group.shown(), **place, **worth})
    return found
