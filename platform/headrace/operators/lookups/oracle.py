"""Lookups, record by record: of a table's rows the one that a record finds.

Law: as of the log it is the row that the records before it in the log leave of the key that it refers to. As of event time
the record is due once time is beyond its event time and grace, and has reached its own stream time. It is released at the
first commit, not before its own, after which the node's time is so far. A row of the table is there for the record if its
own stream time is not beyond that at which the record is due. The record finds the one of the highest event time that is not
beyond its own. Where the table has to be complete first, a record waits at least for the commit that completes it. As of the
log it finds what the table is after that commit; as of event time rows through that commit are there for all records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.description.epoch_time import moment
from headrace.description.feeds import RECORDS, VERSIONS
from headrace.description.join import LEFT
from headrace.description.lookup import EVENT
from headrace.description.table import TIMESTAMP
from headrace.oracle.fates import COMPLETE, FILTERED, LATE, OPEN, USED, refused_by_table
from headrace.oracle.log import Log, Results, Row, Values
from headrace.oracle.tables import deletes, event_or_before_all, order
from headrace.oracle.values import Identity, identity

if TYPE_CHECKING:
    from headrace.description import Lookup, Topic


def driving(node: Lookup) -> Sequence[Topic]:
    """As of the log the table moves no time, except if the stream reads its topic, too."""
    return node.topics if node.as_of == EVENT else node.stream.topics


def results(node: Lookup, log: Log) -> Results:
    """The records that have been given what they find, in the order in which sinks get them."""
    found = Results()
    versions: dict[Identity, list[Row]] = defaultdict(list)
    for row in log.feeds[VERSIONS]:
        fate = _refused(node, row)
        found.met(row, fate or USED)
        if fate is None:
            versions[identity(row.values[name] for name in node.right.key)].append(row)
    times = log.lowest
    complete_ms = _complete_at(node, log.feeds[VERSIONS])
    answered = []
    for record in log.feeds[RECORDS]:
        fate, at_ms = record.fate, None
        if fate is None:
            at_ms = record.at_ms if node.as_of != EVENT else _released_at(node, record, times)
            at_ms = None if at_ms is None or complete_ms is None else max(at_ms, complete_ms)
            fate = LATE if _is_late(node, record) else OPEN if at_ms is None else USED
        _note(found, record, fate)
        if fate == USED and at_ms is not None:
            refers = [record.values[name] for name in node.on]
            known = [] if None in refers else versions.get(identity(refers), [])
            waited = node.complete_first and at_ms == complete_ms
            if node.as_of == EVENT:
                known = [v for v in known if _in_time(node, v, record, complete_ms or 0)]
            answered.append((at_ms, record, _answer(node, known, record, at_ms, waited=waited)))
        elif fate == LATE:
            assert node.history_ms is not None
            found.missed(record, record.time_ms, record.time_ms + node.history_ms)
    answered.sort(key=lambda one: (one[0], one[1].time_ms if node.as_of == EVENT else 0, one[1].place))
    shown = (_shown(node, *one) for one in answered if one[2] is not None or node.how == LEFT)
    found.rows = [*shown]
    return found


def _complete_at(node: Lookup, rows: Sequence[Row]) -> int | None:
    """The commit from which on records are looked up; None: there is none yet."""
    found = {row.topic: row.at_ms for row in reversed(rows) if row.fate == COMPLETE}
    if not {*node.waits_for} <= found.keys():
        return None
    return max((found[topic] for topic in node.waits_for), default=0)


def _answer(node: Lookup, versions: Sequence[Row], record: Row, at_ms: int, *, waited: bool) -> Row | None:
    """The row that a record finds. In: waited  whether the commit that completes the table is the one that releases it."""
    if node.as_of == EVENT:
        candidates = [version for version in versions if event_or_before_all(version) <= record.time_ms]
        if node.finds_earlier_of_its_own:
            place = record.time_ms, _cause(record)
            candidates = [version for version in candidates if (version.time_ms, _cause(version)) < place]
        if node.prior is not None and node.prior.within_ms is not None:
            oldest_ms = record.time_ms - node.prior.within_ms
            candidates = [version for version in candidates if version.time_ms >= oldest_ms]
        by: Callable[[Row], object] = lambda row: (event_or_before_all(row), _cause(row))  # noqa: E731
    else:
        candidates = [
            version
            for version in versions
            if (version.at_ms <= at_ms if waited else _is_before(node, version, record))
        ]
        by = lambda row: order(node.right, row)  # noqa: E731
    last = max(candidates, key=by, default=None)  # type: ignore[arg-type]
    return None if last is None or deletes(last) else last


def _is_before(node: Lookup, version: Row, record: Row) -> bool:
    """Whether a row of the table stands before a record. The rows that a whole log commit made stand after its records."""
    if version.topic in node.revised_at_commit_end:
        return version.at_ms < record.at_ms
    return version.place < record.place


def _cause(row: Row) -> tuple[object, ...]:
    """The place of what caused a row, which does not depend on commits: a record's position, or what a node's row says."""
    return (row.topic, row.cause, *row.place[2:])


def _refused(node: Lookup, row: Row) -> str | None:
    """The fate of a row of the table that no record finds. Tombstones of a stream that stands for one are no records."""
    if node.prior is None:
        by_timestamp = node.as_of == EVENT or node.right.order_by == TIMESTAMP
        return refused_by_table(row, node.right.key, by_timestamp=by_timestamp)
    has_key = all(row.values[name] is not None for name in node.right.key)
    return row.fate or (None if has_key else FILTERED)


def _released_at(node: Lookup, record: Row, times: Sequence[tuple[int, int]]) -> int | None:
    """When the frontier is beyond a record; None: it waits."""
    return next((at for at, ms in times if at >= record.at_ms and ms > _due(node, record)), None)


def _due(node: Lookup, record: Row) -> int:
    """The stream time that has to be passed before a record is released."""
    deadline_ms = record.time_ms + node.grace_ms
    return deadline_ms if record.stream_ms is None else max(deadline_ms, record.stream_ms)


def _in_time(node: Lookup, version: Row, record: Row, complete_ms: int) -> bool:
    """Whether a version is there for a record: it comes in time, or with the rows that make the table complete."""
    first = node.complete_first and version.at_ms <= complete_ms
    return first or version.stream_ms is None or version.stream_ms <= _due(node, record)


def _is_late(node: Lookup, record: Row) -> bool:
    history, stream = node.history_ms, record.stream_ms
    return history is not None and stream is not None and record.time_ms + history < stream


def _note(results: Results, record: Row, fate: str) -> None:
    """The fate of a record; if the table uses it too, it is used, or waits to be."""
    place = (record.topic, record.partition, record.offset or 0)
    of_table = results.fates.get(place) if record.offset is not None else None
    if of_table == USED and fate != OPEN:
        return
    taken = fate in (USED, OPEN) or of_table is None
    results.met(record, fate if taken else min(fate, of_table or fate))


def _shown(node: Lookup, at_ms: int, record: Row, row: Row | None) -> Values:
    assert node.stream.columns is not None
    own = {name: record.values[name] for name in node.stream.columns}
    theirs = {name: None if row is None else row.values[name] for name in node.right.values}
    place = {
        "__topic": record.topic,
        "__partition": record.partition,
        "__offset": record.offset,
        "__ingested_at": moment(record.at_ms),
    }
    waits = node.as_of == EVENT or node.complete_first
    released = {"__released_at": moment(at_ms)} if waits else {}
    return {**own, **theirs, **place, **released, "__timestamp": record.event_ms, "__sequence": at_ms}
