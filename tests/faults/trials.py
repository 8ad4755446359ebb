"""The faults of the matrix: what each promises, how often it is wanted, and the life that it is tried in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from tests.faults.lives import Life, Place, live, orders
from tests.faults.pipeline import NAMES
from tests.faults.servers import FILE, S3, Servers
from tests.faults.verdict import Verdict

NODES_AT_ONCE = 4


@dataclass(frozen=True)
class Setting:
    """What a trial is given."""

    servers: Servers
    storage: str
    seed: int
    say: Callable[[str], None]

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
    """One round: at every commit step of four nodes, of their logs and sinks, at random moments, and again in recovery."""
    place = setting.place(some_nodes(setting.seed))
    with Life(place, setting.seed, setting.say) as life:
        verdict = live(life, orders(place, setting.random))
        return Outcome(verdict, life.times, life.recoveries)


FAULTS = {
    "SIGKILL": Fault("no record lost or doubled; the next process goes on", 300, kills),
}
