"""The guard's laws: the sequencer refuses what a plain Python oracle refuses, wherever the log is cut, crashed or reopened;
of what services send, crash and send again, each result is taken exactly once; and replays move no stream time.

Every example adds to the same three logs: its root topics have names of their own, so their guards start anew.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, groupby
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.engine.slices.log_slices import LogSlice
from headrace.lake import open_table
from headrace.log.clock import ManualClock
from headrace.log.decisions import guard as guard_module
from headrace.log.sequencer import Sequencer
from headrace.testing.piped import PipedTopic
from tests.laws.republishing import Message, by_offset, republish, root_topic
from tests.laws.tables import in_ms
from tests.no_spark import no_session
from tests.oracle.guard_oracle import Delivery, Entry, ExactOracle, monotone
from tests.oracle.log_oracle import Arrival, Commit, sequence

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.fast, pytest.mark.slow]

NUMBER = count()
PARTITIONS = 3
SMALL = 4
SPREAD = 3_000_000  # ms by which timestamps lie apart in a world; each world begins a third of it later
GUARDS = {
    "monotone": hr.ReplayGuard(),
    "exact": hr.ReplayGuard(mode="exact"),
    "bounded": hr.ReplayGuard(mode="exact", max_gaps=SMALL),
}
STEPS = (None, None, "before log commit", "after log commit", "restart")


@dataclass(frozen=True)
class Sent:
    """A record before it has an offset; `identity` says which result of a pipeline it is, None: none."""

    partition: int
    chain: Sequence[Entry] | None
    dead: bool = False
    identity: tuple[Any, ...] | None = None
    ts: int = 0


class GuardedLog:
    """One guarded topic and its log, whose sequencer dies and is opened again."""

    def __init__(self, folder: Path, name: str) -> None:
        self.topic = hr.Topic(name, value="n INT", replay_guard=GUARDS[name])
        self.path = f"file:{folder}/{name}"
        self.clock, self.piped = ManualClock(1_800_000_000_000), PipedTopic(self.topic, {})
        self.armed: list[str] = []
        self.history: list[Commit] = []
        self.oracle = ExactOracle(name, SMALL if name == "bounded" else 10_000)
        self.sequencer = self.open()

    def open(self) -> Sequencer:
        return Sequencer(no_session(), self.topic, self.path, self.clock, on_step=self.on_step)

    def on_step(self, step: str) -> None:
        if step in self.armed:
            self.armed.remove(step)
            raise InterruptedError(step)

    def commit(self, sent: Sequence[Sent], fate: str | None) -> list[Delivery]:
        """Commit records; with the sequencer killed at a step, or opened anew."""
        delivered = []
        for record in sent:
            headers = {"source-chain": json.dumps(record.chain)} if record.chain else {}
            value = b"{" if record.dead else b'{"n": 1}'
            offset = self.piped.add(None, value, record.ts, record.partition, headers)
            delivered.append(Delivery(record.partition, offset, record.chain, record.dead))
        raw = self.piped.take_here()
        if fate == "restart":
            self.sequencer = self.open()
        elif fate is not None:
            self.armed.append(fate)
            with pytest.raises(InterruptedError):
                self.sequencer.append(raw)
            self.sequencer = self.open()
        self.sequencer.append(raw)
        return delivered

    def rows(self, after_ms: int) -> dict[tuple[int, int], dict[str, Any]]:
        """The rows with an offset that were committed after a time."""
        found = LogSlice.of(self.path, after_ms, self.sequencer.state.ingested_at_ms)
        rows = found.rows(open_table(self.path).columns).to_pylist()
        return {(row["partition"], row["offset"]): in_ms(row) for row in rows if row["offset"] is not None}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, GuardedLog]]:
    folder = tmp_path_factory.mktemp("guarded")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guard_module, "INLINE_CHARACTERS_MAX", 900)  # both places of the state are lived in
        yield {name: GuardedLog(folder, name) for name in GUARDS}


@settings(max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "12")))
@given(data=st.data())
def test_what_the_oracle_refuses_is_refused_and_each_result_is_taken_once(
    logs: dict[str, GuardedLog], data: st.DataObject
) -> None:
    world = f"w{next(NUMBER)}"
    random = data.draw(st.randoms(use_true_random=False))
    for name, log in logs.items():
        sent = mixed(
            data.draw(st.lists(any_record(world, name), max_size=25)), in_order(world, name, random), random
        )
        if name == "exact":
            random.shuffle(sent)
        if not sent:
            continue
        cuts = cut(sent, data.draw(st.lists(st.integers(1, len(sent)), max_size=2)))
        fates = [data.draw(st.sampled_from(STEPS)) for _ in cuts]
        # A draw may end an example, and the log outlives it: nothing is drawn between a commit and its oracle.
        before_ms = log.sequencer.state.ingested_at_ms
        commits = [log.commit(records, fate) for records, fate in zip(cuts, fates, strict=True)]
        rows = log.rows(before_ms)
        assert len(rows) == len(sent)
        found = {at for at, row in rows.items() if row["replay"]}
        if name == "monotone":
            assert found == monotone(name, commits).replays
        else:
            assert found == {at for commit in commits for at in log.oracle.take(commit).replays}
        assert {at: row["stream_time"] for at, row in rows.items()} == stream_times(log, cuts, commits, found)
        if name != "bounded":
            assert_each_taken_once(sent, [record for commit in commits for record in commit], found)


def stream_times(
    log: GuardedLog,
    cuts: Sequence[Sequence[Sent]],
    commits: Sequence[Sequence[Delivery]],
    replays: set[tuple[int, int]],
) -> dict[tuple[int, int], int | None]:
    """The stream time of every row of these commits, by the log's oracle, to which replays are like dead letters."""
    before = sum(len(commit.arrivals) for commit in log.history)
    for sent, delivered in zip(cuts, commits, strict=True):
        unusable = [d.dead or (d.partition, d.offset) in replays for d in delivered]
        arrivals = [
            Arrival(record.partition, None, record.ts, kind="dead_letter" if dead else "record")
            for record, dead in zip(sent, unusable, strict=True)
        ]
        log.history.append(Commit(0, arrivals))
    rows = sequence(log.history, None, 0).rows[before:]
    return {(arrival.partition, offset): stream for arrival, offset, stream in rows}


def assert_each_taken_once(
    sent: Sequence[Sent], delivered: Sequence[Delivery], replays: set[tuple[int, int]]
) -> None:
    """Of what the services made of each root record, every result counts once, however often it was sent."""
    taken = Counter(
        record.identity
        for record, delivery in zip(sent, delivered, strict=True)
        if record.identity is not None and (delivery.partition, delivery.offset) not in replays
    )
    assert taken == Counter({record.identity for record in sent if record.identity is not None})


def now(world: str) -> int:
    """Where the timestamps of a world begin."""
    return int(world[1:]) * SPREAD // 3


def any_record(world: str, topic: str) -> st.SearchStrategy[Sent]:
    """Any chain at all, from so few that many meet; or none, or a record that cannot be decoded."""
    place = st.tuples(st.sampled_from([f"{world}.a", f"{world}.b"]), st.integers(0, 1), st.integers(0, 7))
    entry = st.one_of(place, st.tuples(place, st.integers(0, 3)).map(lambda both: (*both[0], both[1])))
    chain: st.SearchStrategy[list[Any] | None] = st.lists(entry, min_size=1, max_size=3)
    chain = st.one_of(chain, chain, chain, st.none())
    dead = st.sampled_from([False] * 9 + [True])
    return st.builds(
        Sent,
        st.integers(0, PARTITIONS - 1),
        chain,
        dead,
        ts=st.integers(0, SPREAD).map(lambda ts: now(world) + ts),
    )


def in_order(world: str, topic: str, random: Random) -> list[Sent]:
    """Two root topics through one and two services into one topic; each service crashes and sends again."""
    orders = root_topic(
        {0: random.randint(0, 8), 1: random.randint(0, 8)}, first_offset=random.choice([0, 500])
    )
    units = {
        identity: random.choice([None, 0, 1, 2, 3, 3])
        for identity in [(p, n) for p in (0, 1) for n in range(8)]
    }

    def outputs(message: Message) -> int | None:
        return units[message.identity[0], message.identity[1]]

    parts = republish(f"{world}.orders", orders, outputs, 2, random, crashes=random.randint(0, 2))
    direct = republish(f"{world}.calls", orders, outputs, PARTITIONS, random, crashes=1)
    second = random.choice([lambda message: None, lambda message: 2])
    hops = republish(
        f"{world}.parts", by_offset(parts), second, PARTITIONS, random, crashes=random.randint(0, 3)
    )
    sent = [
        [
            Sent(
                partition,
                message.chain,
                identity=(kind, *message.identity),
                ts=now(world) + random.randrange(SPREAD),
            )
            for message in messages
        ]
        for kind, topic_of in (("direct", direct), ("hops", hops))
        for partition, messages in topic_of.items()
    ]
    result: list[Sent] = []
    for messages in sent:
        result = mixed(result, messages, random)
    return result


def mixed(left: Sequence[Sent], right: Sequence[Sent], random: Random) -> list[Sent]:
    """Both in their own order, mixed at random."""
    from_right = set(random.sample(range(len(left) + len(right)), len(right)))
    sources = {True: iter(right), False: iter(left)}
    return [next(sources[place in from_right]) for place in range(len(left) + len(right))]


def cut(sent: Sequence[Sent], places: Sequence[int]) -> list[list[Sent]]:
    """The records in stretches that end at these places."""
    pairs = groupby(enumerate(sent), key=lambda pair: sum(pair[0] >= place for place in places))
    return [[record for _, record in stretch] for _, stretch in pairs]
