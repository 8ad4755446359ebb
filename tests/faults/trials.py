"""The faults of the matrix: what each promises, how often it is wanted, and the life that it is tried in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from headrace.local.servers.broker import create_topics
from tests.faults.beside import beside, rebuilt
from tests.faults.fuzz import PARTITIONS
from tests.faults.lives import ROOT, Life, Place, live, orders
from tests.faults.outages import (
    aborted,
    away,
    bad_weather,
    clock_moved,
    created_anew,
    full,
    overtaken,
    widened,
)
from tests.faults.pipeline import NAMES
from tests.faults.s3_proxy import S3Proxy, Weather
from tests.faults.servers import FILE, S3, Servers
from tests.faults.small_disk import SmallDisk
from tests.faults.stops import LEASED, stopped, together
from tests.faults.verdict import Verdict

NODES_AT_ONCE = 4
FUZZED_AT_ONCE, LOGS_AT_ONCE = 10_000, 1_000


@dataclass(frozen=True)
class Setting:
    """What a trial is given."""

    servers: Servers
    storage: str
    seed: int
    say: Callable[[str], None]
    times: int | None = None  # that the fault is to come in one life, in place of the trial's own number

    def often(self, usual: int) -> int:
        """How often the fault is to come in one life."""
        return usual if self.times is None else self.times

    @property
    def random(self) -> Random:
        """What the seed decides."""
        return Random(self.seed)

    def place(self, names: tuple[str, ...], arguments: tuple[str, ...] = ()) -> Place:
        """A place of the trial's own."""
        prefix = f"t{self.seed}x{self.servers.number()}"
        return self.servers.place(prefix, names, self.storage, arguments)


@dataclass(frozen=True)
class Outcome:
    """What a trial found: how often the fault came, and how long after it the next commit was there."""

    verdict: Verdict
    times: int
    recoveries: Sequence[float] = ()


@dataclass(frozen=True)
class Fault:
    """One row of the matrix."""

    promise: str
    wanted: int
    trial: Callable[[Setting], Outcome]
    storages: tuple[str, ...] = (FILE, S3)


def some_nodes(seed: int) -> tuple[str, ...]:
    """Four of the nodes; four seeds in a row have each once."""
    return NAMES[seed % 4 :: len(NAMES) // NODES_AT_ONCE]


def kills(setting: Setting) -> Outcome:
    """At every commit step of four nodes, of their logs and sinks, at random moments, and again in recovery."""
    place = setting.place(some_nodes(setting.seed))
    with Life(place, setting.seed, setting.say) as life:
        verdict = live(life, orders(place, setting.random)[: setting.times])
        return Outcome(verdict, life.times, life.recoveries)


def _again(
    fault: Callable[[Life, Random, int], Verdict],
    times: int,
    names: tuple[str, ...] | None = None,
    arguments: tuple[str, ...] = (),
) -> Callable[[Setting], Outcome]:
    """A trial: one life, in which a fault comes again and again. In: names  of the nodes; None: the seed chooses four."""

    def trial(setting: Setting) -> Outcome:
        with _life(setting, names or some_nodes(setting.seed), arguments) as life:
            return _outcome(life, fault(life, setting.random, setting.often(times)))

    return trial


def broker_away(setting: Setting) -> Outcome:
    """The broker is killed, and comes back after a minute."""
    with _life(setting, some_nodes(setting.seed)) as life:
        return _outcome(life, away(life, setting.servers.broker, setting.random, setting.often(2)))


def postgres_away(setting: Setting) -> Outcome:
    """PostgreSQL is killed, and comes back after a minute."""
    with _life(setting, ("final", "totals", "batches")) as life:
        return _outcome(life, away(life, setting.servers.postgres, setting.random, setting.often(2)))


def topic_created_anew(setting: Setting) -> Outcome:
    """A topic is deleted and created again."""
    with _life(setting, some_nodes(setting.seed)) as life:
        return _outcome(life, created_anew(life, setting.servers))


def retention_overtakes(setting: Setting) -> Outcome:
    """Kafka deletes records that the log lacks."""
    with _life(setting, some_nodes(setting.seed)) as life:
        return _outcome(life, overtaken(life, setting.servers, setting.random, setting.often(2)))


def _weather(begins: Callable[[Weather], None], times: int) -> Callable[[Setting], Outcome]:
    def trial(setting: Setting) -> Outcome:
        with S3Proxy(setting.servers.object_store.endpoint, setting.seed) as proxy:
            place = setting.place(some_nodes(setting.seed))
            place = replace(place, env=place.env | {"AWS_ENDPOINT_URL": proxy.endpoint})
            with Life(place, setting.seed, setting.say) as life:
                return _outcome(life, bad_weather(life, proxy, begins, setting.often(times)))

    return trial


def _unavailable(weather: Weather) -> None:
    weather.unavailable = 0.3


def _slow(weather: Weather) -> None:
    weather.slow_s = 0.5


def _lost(weather: Weather) -> None:
    weather.lost = 0.2


def disk_full(setting: Setting) -> Outcome:
    """The lake's disk is full; with each spare room another write stops in its middle."""
    place = setting.place(some_nodes(setting.seed))
    with SmallDisk(place.folder / "disk") as disk:
        place = replace(place, lake=f"file:{disk.folder}/lake")
        with Life(place, setting.seed, setting.say) as life:
            return _outcome(life, full(life, disk, setting.random, setting.often(3)))


def malformed(setting: Setting) -> Outcome:
    """Ten thousand records of a grammar, in the format that the seed decides about."""
    topic = f"fuzzed-{setting.seed}-{setting.servers.number()}"
    create_topics(setting.servers.broker.bootstrap_servers, {topic: PARTITIONS}, any_timestamp=True)
    place = setting.place(())
    script = ROOT / "tests/faults/fuzz.py"
    command = [sys.executable, str(script), place.bootstrap, place.lake, topic]
    command += ["--seed", str(setting.seed), "--records", str(FUZZED_AT_ONCE)]
    env = {**os.environ, **place.env, "PYTHONPATH": os.pathsep.join([str(ROOT / "platform"), str(ROOT)])}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert "judged " in done.stdout, done.stdout[-2000:] + done.stderr[-6000:]
    verdict = Verdict(**json.loads(done.stdout.rpartition("judged ")[2].splitlines()[0]))
    return Outcome(verdict, verdict.records)


def kernel_crashes(setting: Setting) -> Outcome:
    """A thousand logs of every operator without Spark, each of which is cut three ways and crashes in one of them."""
    command = [
        sys.executable,
        "-m",
        "tests.laws.kernel.many",
        "--logs",
        str(LOGS_AT_ONCE),
        "--seed",
        str(setting.seed),
    ]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "platform"), str(ROOT)])}
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    words = [] if done.returncode == 0 else [(done.stdout + done.stderr)[-4000:]]
    return Outcome(Verdict(words=words, lost=len(words)), LOGS_AT_ONCE)


def _life(setting: Setting, names: tuple[str, ...], arguments: tuple[str, ...] = ()) -> Life:
    return Life(setting.place(names, arguments), setting.seed, setting.say)


def _outcome(life: Life, verdict: Verdict) -> Outcome:
    return Outcome(verdict, life.times, life.recoveries)


ON_DISK = (FILE,)
FAULTS = {
    "SIGKILL": Fault("nothing lost, nothing doubled; the next process goes on", 300, kills),
    "crash in the kernel": Fault("the same tables in any cuts", 10_000, kernel_crashes, ON_DISK),
    "SIGSTOP past the lease": Fault(
        "a process that was overtaken adds no row", 200, _again(stopped, 6, arguments=LEASED)
    ),
    "two at once": Fault("each log and node has one writer", 20, _again(together, 4)),
    "backfill and maintenance beside": Fault(
        "neither changes a row; neither stops the stream", 30, _again(beside, 6)
    ),
    "rebuild, killed": Fault(
        "the old tables, or the new ones whole", 30, _again(rebuilt, 6, ("limited", "early", "latest"))
    ),
    "broker killed, 60 s away": Fault("the stream waits, and goes on by itself", 10, broker_away),
    "PostgreSQL killed, 60 s away": Fault(
        "the node waits, its log goes on; each row there once", 10, postgres_away
    ),
    "partition added": Fault("read from its first record", 12, _again(widened, 3)),
    "transaction aborted": Fault("none of its records is read", 100, _again(aborted, 20)),
    "topic created anew": Fault(
        "refused, with what to do; none of its records is taken", 6, topic_created_anew
    ),
    "retention overtakes the reader": Fault(
        "refused, until the gap is accepted; it is recorded", 6, retention_overtakes
    ),
    "S3 answers 503": Fault(
        "tried again; nothing lost, nothing doubled", 500, _weather(_unavailable, 100), (S3,)
    ),
    "S3 is slow": Fault("the stream is slow", 500, _weather(_slow, 100), (S3,)),
    "S3's answer to a put is lost": Fault("the put counts once", 200, _weather(_lost, 40), (S3,)),
    "disk full": Fault("the stream waits, and goes on when there is room", 20, disk_full, ON_DISK),
    "clock a day ahead, and back": Fault(
        "commit times only grow; nothing waits for the clock", 30, _again(clock_moved, 6)
    ),
    "malformed record": Fault(
        "in the log once, as a dead letter or as it reads", 100_000, malformed, ON_DISK
    ),
}
