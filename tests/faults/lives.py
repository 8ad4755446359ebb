"""One life of a lake: processes of the pipeline that are started, disturbed and started again until the traffic is drained.

A second process is always warm, so that the next one starts in seconds: what a life costs is what recovery costs.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random

from headrace.local.servers import lifeline
from headrace.local.servers.topics import create_topics
from tests.faults.pipeline import PARTITIONS, pipeline, results_topic
from tests.faults.stream import AFTER_DELIVERY, BEFORE_DELIVERY, Order
from tests.faults.traffic import Sent, portion, produce
from tests.faults.verdict import Verdict

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 300.0
CAUGHT_UP, REST = "caught up", "rest"
DRAIN = Order(drain=True)
LOG_STEPS = ("before log commit", "after log commit")
NODE_STEPS = ("before outputs", "after outputs", "after state")


@dataclass(frozen=True)
class Place:
    """Where a life is lived.

    lake    the root of its lake, this life's alone
    prefix  of its topics and tables
    folder  for what its processes print
    env     more variables of its processes: credentials of servers
    """

    bootstrap: str
    lake: str
    prefix: str
    folder: Path
    names: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()

    def made(self) -> Place:
        """Make its topics."""
        wanted = {f"{self.prefix}-{topic}": partitions for topic, partitions in PARTITIONS.items()}
        create_topics(self.bootstrap, wanted, any_timestamp=True)
        create_topics(self.bootstrap, {results_topic(self.prefix): 2})
        return self


class Process:
    """A stream process, warm or under its order."""

    def __init__(self, place: Place, number: int) -> None:
        self.order, self.log = place.folder / f"{number}.json", place.folder / f"{number}.log"
        command = [
            sys.executable,
            str(ROOT / "tests/faults/stream.py"),
            place.bootstrap,
            place.lake,
            place.prefix,
        ]
        command += ["--nodes", ",".join(place.names), "--order", str(self.order), *place.arguments]
        path = os.pathsep.join([str(ROOT / "platform"), str(ROOT)])
        env = {**os.environ, **place.env, "PYTHONPATH": path}
        self.process: subprocess.Popen[bytes] = lifeline.spawn(
            command, log=self.log, cwd=place.folder, env=env
        )
        self.began = self.ended = 0.0

    def go(self, order: Order) -> None:
        """Give it its order."""
        self.began = time.monotonic()
        draft = self.order.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(order)))
        draft.rename(self.order)

    def said(self) -> str:
        """All that it has printed."""
        return self.log.read_text(errors="replace")

    def reaches(self, words: str, patience_s: float = PATIENCE_S) -> bool:
        """Wait until it has printed these words; False if it has ended without."""
        deadline = time.monotonic() + patience_s
        while words not in self.said():
            if self.process.poll() is not None:
                return words in self.said()
            assert time.monotonic() < deadline, f"no {words!r}: {self.said()[-4000:]}"
            time.sleep(0.02)
        return True

    def catches_up(self) -> bool:
        """Wait until it has caught up with all that Kafka holds now; False if it has ended."""
        # The look that the next line tells of may have begun before.
        known = self.said().count(CAUGHT_UP)
        deadline = time.monotonic() + PATIENCE_S
        while self.said().count(CAUGHT_UP) < known + 2:
            if self.process.poll() is not None:
                return False
            assert time.monotonic() < deadline, f"not caught up: {self.said()[-4000:]}"
            time.sleep(0.05)
        return True

    def send(self, signum: int) -> None:
        """Send a signal to it and to its JVM, which share a process group."""
        os.killpg(self.process.pid, signum)

    def end(self) -> int:
        """Kill what is left of it; its exit status."""
        if self.process.poll() is None:
            self.process.kill()
        return self.process.wait(PATIENCE_S)


class Life:
    """The processes of a place, one after the other.

    times  how often the fault came
    rests  of the processes that were to be killed, those that were at rest first: these count for nothing
    """

    def __init__(self, place: Place, seed: int, say: Callable[[str], None] = lambda words: None) -> None:
        self.place, self.seed, self.say = place.made(), seed, say
        self.portions, self.recoveries, self.times, self.rests = 0, list[float](), 0, 0
        self.partitions = PARTITIONS["readings"]
        self._number, self._warm = 0, list[Process]()

    def __enter__(self) -> Life:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._warm:
            process.end()

    def traffic(self, readings: int = 40) -> None:
        """Produce the next portion."""
        produce(self.place.bootstrap, self.place.prefix, self.portion(readings))

    def portion(self, readings: int = 40) -> list[Sent]:
        """The records of the next portion."""
        self.portions += 1
        return portion(self.seed, self.portions - 1, readings, self.partitions)

    def next(self, ahead: int = 1) -> Process:
        """A warm process. In: ahead  of others that are started, so that they are warm next time"""
        while len(self._warm) < 1 + ahead:
            self._warm.append(Process(self.place, self._number))
            self._number += 1
        process = self._warm.pop(0)
        assert process.reaches("warm"), process.said()
        return process

    def killed(self, order: Order) -> str:
        """Run a process that its order, or at the latest its being at rest, has killed; where it died."""
        process = self.next()
        process.go(order)
        rests = False
        while process.process.poll() is None and not rests:
            assert time.monotonic() - process.began < PATIENCE_S, process.said()[-4000:]
            rests = CAUGHT_UP in process.said()
            time.sleep(0.02)
            if "committed" in process.said() and not process.ended:
                process.ended = time.monotonic()
                self.recoveries.append(process.ended - process.began)
        status, said = process.end(), process.said()
        assert status == -signal.SIGKILL, said[-4000:]
        where = said.rpartition("dies at ")[2].splitlines()[0] if "dies at " in said else REST
        self.times += where != REST
        self.rests += where == REST
        self.say(f"{self.times:4} killed at {where} after {time.monotonic() - process.began:.1f} s")
        return where

    def running(self) -> Process:
        """A process that nothing ends."""
        process = self.next()
        process.go(Order())
        assert process.reaches(CAUGHT_UP), process.said()[-6000:]
        return process

    def drained(self, order: Order = DRAIN) -> Verdict:
        """Run a last process until nothing is left, and have it judge what there is."""
        process = self.next(ahead=0)
        process.go(order)
        assert process.reaches("judged"), process.said()[-6000:]
        return Verdict(**json.loads(process.said().rpartition("judged ")[2].splitlines()[0]))


def targets(place: Place) -> list[tuple[str, str]]:
    """Every commit step of every log, node and sink: the asset, and the step."""
    nodes = pipeline(place.prefix, place.bootstrap)
    logs = sorted({f"log/{topic.name}" for name in place.names for topic in nodes[name].topics})
    found = [(log, step) for log in logs for step in LOG_STEPS]
    found += [(f"stream/{name}_stream", step) for name in place.names for step in NODE_STEPS]
    sinks = [sink.name for name in place.names for sink in nodes[name].sinks]
    return found + [(sink, step) for sink in sinks for step in (BEFORE_DELIVERY, AFTER_DELIVERY)]


def orders(place: Place, random: Random) -> list[Order]:
    """One round of kills: each step once in random order; after each third one in the recovery from it, or at a random moment."""
    found = list[Order]()
    for number, (asset, step) in enumerate(random.sample(targets(place), len(targets(place)))):
        found.append(Order(asset, step, random.choice([1, 1, 2])))
        if number % 6 == 2:
            found.append(Order(step=random.choice(["before log commit", "after outputs", "after state"])))
        elif number % 6 == 5:
            found.append(Order(after_s=random.uniform(0.2, 6)))
    return found


def live(life: Life, orders: Sequence[Order], readings: int = 40) -> Verdict:
    """Kill at each order, with new traffic before it, then drain and judge.

    A step that did not come a second time before the process was at rest is waited for once more, its first time.
    """
    for order in orders:
        life.traffic(readings)
        if life.killed(order) == REST and order.step is not None:
            life.traffic(readings)
            life.killed(replace(order, time=1))
    life.say(f"{life.times} kills; {life.rests} processes were at rest before")
    life.traffic(readings)
    return life.drained()
