"""Random changelogs for the laws of tables and joins, lived through in a driver; many keys at once, as a cut is dear."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

from tests.laws.plain import Change, Moved, Value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.sinks import Delivery
    from headrace.testing import TestDriver

STEPS = ("before outputs", "after outputs", "after state")
BEGIN_MS, SPREAD_MS, SECOND = 1_700_000_000_000, 40, 1_000
Make = Callable[[Random], Value | None]


@dataclass(frozen=True)
class Changelog:
    """What is sent to a topic: over some keys, values that `make` draws; None is a tombstone."""

    keys: Sequence[str]
    make: Make


class Recorder:
    """A sink that keeps what it is given: for each identity the last row by sequence and place."""

    def __init__(self) -> None:
        self.name = "recorder"
        self.rows: dict[tuple[object, ...], tuple[tuple[int, bytes], Value | None]] = {}
        self.seen: set[tuple[object, ...]] = set()

    def clear(self) -> None:
        """Forget everything."""
        self.rows.clear()
        self.seen.clear()

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        found = [row.asDict() for row in rows.collect()]
        by_place = {(row["__sequence"], bytes(row["__place"])): row for row in found}
        assert len(by_place) == len(found), "two rows at one place"
        for place, row in sorted(by_place.items()):
            key = tuple(row[name] for name in delivery.identity)
            value = {n: row[n] for n in delivery.columns if n not in delivery.identity}
            assert not row["__deleted"] or set(value.values()) == {None}
            if key in self.rows and place < self.rows[key][0]:
                assert (key, place) in self.seen, "an older row came later"
                continue
            self.seen.add((key, place))
            self.rows[key] = (place, None if row["__deleted"] else value)

    def table(self) -> dict[object, Value]:
        """The rows that were not deleted since, by a key of one column."""
        return {key[0]: value for key, (_, value) in self.rows.items() if value is not None}


class History:
    """Everything that was sent to a driver, with its place in the logs."""

    def __init__(self, driver: TestDriver, changelogs: Mapping[str, Changelog]) -> None:
        self.driver, self.changelogs = driver, changelogs
        self.changes: dict[str, list[Change]] = defaultdict(list)
        self._at: Counter[str] = Counter()

    def send(self, sent: Mapping[str, int], random: Random, now_ms: int | None = None) -> None:
        """Pipe so many random records to each topic; the next cut makes a commit of them.

        In: now_ms  they are up to a minute older, in whole seconds; None: all are of the same few milliseconds
        """
        self.begin(*(topic for topic, number in sent.items() if number))
        for topic, number in sent.items():
            for _ in range(number):
                self._pipe(topic, random, None if now_ms is None else now_ms - random.randrange(60) * SECOND)

    def begin(self, *topics: str) -> None:
        """What is piped to these topics from now on is in one commit of each."""
        for topic in topics:
            self._at[topic] = max(self.driver.now_ms, self._at[topic] + 1)

    def _pipe(self, topic: str, random: Random, ts: int | None = None) -> None:
        changelog, ts = self.changelogs[topic], ts or BEGIN_MS + random.randrange(SPREAD_MS)
        key, partition = random.choice(changelog.keys), random.randrange(2)
        value, dead = changelog.make(random), random.random() < 0.03
        self.pipe(topic, None if random.random() < 0.03 else key, value, ts, partition, dead=dead)

    def pipe(
        self,
        topic: str,
        key: str | None,
        value: Value | None,
        ts: int,
        partition: int = 0,
        *,
        dead: bool = False,
    ) -> None:
        """Pipe one record, into the commit that was begun last."""
        text = "{" if dead else None if value is None else json.dumps(value)
        offset = self.driver.pipe(
            topic,
            key=key,
            value=None if text is None else text.encode(),
            timestamp_ms=ts,
            partition=partition,
        )
        self.changes[topic].append(Change((self._at[topic], topic, partition, offset), ts, key, value, dead))


def live(history: History, names: Sequence[str], random: Random, *, cuts: int, records: int) -> None:
    """A few cuts, in each of which some nodes run and some die; at the end all of them have run."""
    for name in random.sample(list(names), len(names) // 2):
        history.driver.crash(random.choice(STEPS), name)
    for number in range(1, cuts + 1):
        if random.random() < 0.4:
            history.driver.advance_wall_clock("1 second")
        history.send({t: random.choice((0, records // 2, records)) for t in history.changelogs}, random)
        last = number == cuts
        history.driver.cut(names if last else [name for name in names if random.random() < 0.6])


def live_on(history: History, names: Sequence[str], random: Random, *, cuts: int, records: int) -> None:
    """The same while time goes on by half a minute a cut; some cuts wait for idle topics; some states are maintained."""
    driver = history.driver
    for name in random.sample(list(names), len(names) // 2):
        driver.crash(random.choice(STEPS), name)
    for number in range(1, cuts + 1):
        if random.random() < 0.3:
            driver.advance_wall_clock("61 seconds")
        sent = {topic: random.choice((0, records // 2, records)) for topic in history.changelogs}
        history.send(sent, random, BEGIN_MS + number * 30 * SECOND)
        driver.cut(names if number == cuts else [name for name in names if random.random() < 0.6])
        if random.random() < 0.4:
            driver._runners[random.choice(names)].maintain()


def placed(driver: TestDriver, topic: str, changes: list[Change]) -> list[Change]:
    """The records at the commit times that the sequencer gave them: it keeps what it has promised to other topics."""
    rows = (
        driver.log(topic)
        .where("offset IS NOT NULL")
        .selectExpr("unix_millis(ingested_at)", "partition", "offset")
    )
    at = {(partition, offset): ms for ms, partition, offset in rows.collect()}
    return [replace(change, at=(at[change.at[2:]], *change.at[1:])) for change in changes]


def movements(driver: TestDriver, topics: Iterable[str]) -> tuple[list[Moved], dict[tuple[object, ...], int]]:
    """What each row of the logs moves; and the stream time after each record, by its place."""
    moved: list[Moved] = []
    streams: dict[tuple[object, ...], int] = {}
    for topic in topics:
        shown = ("unix_millis(ingested_at)", "topic", "partition", "offset", "unix_millis(stream_time)")
        action = "get_json_object(control, '$.action')"
        for at, name, partition, offset, ms, of in driver.log(topic).selectExpr(*shown, action).collect():
            moved.append((at, name, partition, ms, offset, of))
            if ms is not None:
                streams[at, name, partition, offset] = ms
    return moved, streams


def ledger(frame: DataFrame) -> Counter[tuple[str, int, str]]:
    """The ledger's records; what nothing met is left out."""
    rows = [row.asDict() for row in frame.where("records > 0").collect()]
    return Counter({(row["topic"], row["partition"], row["fate"]): row["records"] for row in rows})


def by_key(frame: DataFrame) -> dict[str, Value]:
    """The rows by key, the first column; a key that occurs twice is an error."""
    found = [row.asDict() for row in frame.collect()]
    rows = {row.pop(frame.columns[0]): row for row in found}
    assert len(rows) == len(found)
    return rows
