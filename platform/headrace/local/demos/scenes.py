"""The traffic of the demos: who writes to which topic, how much and how fast."""

from __future__ import annotations

import json
import random
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.errors import TransientError
from headrace.local.demos import republisher
from headrace.local.demos.republisher import Republisher
from headrace.local.market import Listings, Traders
from headrace.local.readings import Sensors
from headrace.local.servers import lifeline
from headrace.local.servers.topics import records_in
from headrace.local.traffic import SEED, Message, produce_history, produce_live
from headrace.local.visits import Visitors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headrace.local.traffic import Source

PARTITIONS = 3
CRASH_AFTER = 1_240  # no multiple of its commits: after each crash forty records come again
CRASHES = 3
CUSTOMERS, SCREWS = ("Ada", "Grace", "Hedy", "Katherine"), 40


class Stations:
    """Stations that tighten screws, `screw-01`, `screw-02`, …, each belonging to one customer."""

    def __init__(self, seed: int = SEED) -> None:
        self._random = random.Random(seed)

    def read(self, now_ms: int) -> Message:
        """One report of one to four tightenings at the nominal time `now_ms`."""
        number = self._random.randrange(SCREWS)
        screw = f"screw-{number + 1:02d}"
        value = {
            "customer": CUSTOMERS[number % len(CUSTOMERS)],
            "screw": screw,
            "count": self._random.randint(1, 4),
            "torque": round(self._random.gauss(25.0, 0.5), 2),
        }
        return Message(screw, json.dumps(value).encode(), now_ms)


@dataclass(frozen=True)
class Scene:
    """A topic that the demo itself writes to.

    share  of the live records per second
    days   over which its history is spread; 0: written as of now
    """

    topic: str
    source: Callable[[], Source]
    share: float
    history: int
    days: int


SCENES = (
    Scene("readings", Sensors, share=0.6, history=40_000, days=3),
    Scene(republisher.SOURCE, Stations, share=0.2, history=8_000, days=0),
    Scene("visits", Visitors, share=0.1, history=2_000, days=0),
    Scene("positions", Traders, share=0.08, history=4_000, days=0),
    Scene("tickers", Listings, share=0.02, history=400, days=0),
)
TOPICS = (*(scene.topic for scene in SCENES), republisher.TARGET)


def fill(bootstrap: str, *, readings: int = SCENES[0].history) -> dict[str, int]:
    """Write the history of every topic that is still empty; the records written by topic.

    In: readings  how many of these; the other topics get records in proportion
    """
    written = {}
    for scene in SCENES:
        if not records_in(bootstrap, scene.topic):
            records = scene.history * readings // SCENES[0].history
            written[scene.topic] = produce_history(
                bootstrap, scene.topic, scene.source(), days=scene.days, records=records
            )
    return written


def tightenings(reports: int) -> int:
    """How many tightenings the first reports of the stations add up to."""
    stations = Stations()
    return sum(json.loads(stations.read(0).value or b"")["count"] for _ in range(reports))


def republish_once(bootstrap: str, registry: str, log: Path) -> int:
    """Run the republisher to the end of its source, killed on the way; how often it was."""
    for crashes in range(CRASHES + 1):
        fate = ["--crash-after", str(CRASH_AFTER)] if crashes < CRASHES else []
        command = [*republisher.command(bootstrap, registry), "--until-end", *fate]
        if lifeline.spawn(command, log=log).wait() == 0:
            return crashes
    raise TransientError("The republisher did not come to the end of its source.", hint=f"Read {log}.")


@contextmanager
def live(bootstrap: str, registry: str, rate: float, log: Path) -> Iterator[None]:
    """Traffic on every topic, and the republisher with its crashes, until the block ends."""
    stop = threading.Event()
    threads = [
        threading.Thread(
            target=produce_live,
            args=(bootstrap, scene.topic, scene.source()),
            kwargs={"rate": rate * scene.share, "stop": stop},
            daemon=True,
        )
        for scene in SCENES
    ]
    with ExitStack() as stack:
        stack.enter_context(Republisher(bootstrap, registry, log, crash_after=CRASH_AFTER))
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join(10)
