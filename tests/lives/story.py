"""A life as a value: a pipeline, and what happens to it. Its text is Python, so a life that fails can be kept as a test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

TOPICS = ("t", "u")
SINKS = ("", "rows", "keyed")


@dataclass(frozen=True)
class Made:
    """An operator. In: kind  of `pipelines.KINDS`; number: its choices; sink: of `SINKS`

    twin_of  the number of a node that is the same but for its name and its sink; None: it has a description of its own
    follows  it reads the node before it, if that gives a stream; else any stream
    """

    kind: str
    number: int = 0
    sink: str = ""
    twin_of: int | None = None
    follows: bool = False


@dataclass(frozen=True)
class Sent:
    """A record that a producer sends.

    at     its timestamp in ms, from the beginning of all lives on
    value  of the column `value`
    kind   "record", "tombstone", "malformed", "rolled back" (it takes an offset and never arrives), or "again": the
           producer sends the last record of the partition once more
    """

    topic: str
    partition: int
    key: str | None
    at: int
    value: int | None = None
    kind: str = "record"


class Step:
    """Something that happens."""


@dataclass(frozen=True)
class Send(Step):
    """Producers send records."""

    records: tuple[Sent, ...]


@dataclass(frozen=True)
class Cut(Step):
    """Logs are written and nodes run.

    topics   whose records are sequenced; the others' wait
    commits  into so many log commits
    nodes    by their number, that run; None: all
    settles  the logs promise that nothing comes before this moment
    looks    the logs look at the clock, and write what is due
    """

    topics: tuple[str, ...] = TOPICS
    commits: int = 1
    nodes: tuple[int, ...] | None = None
    settles: bool = True
    looks: bool = True


@dataclass(frozen=True)
class Wait(Step):
    """Time passes."""

    ms: int


@dataclass(frozen=True)
class Crash(Step):
    """The next process that comes to a numbered step dies there. In: skips  so many that come there before it

    stays  the process of a node stays away until its next run; else another one starts at once
    """

    at: str
    skips: int = 0
    stays: bool = False


@dataclass(frozen=True)
class Overtaken(Step):
    """The next process that comes to a numbered step is paused there; another one takes over, and then the first goes on.

    In: meanwhile  records that are sent and sequenced during the pause; ms: its length
    """

    at: str
    skips: int = 0
    meanwhile: tuple[Sent, ...] = ()
    ms: int = 0


@dataclass(frozen=True)
class StoreFault(Step):
    """The store of the lake fails. In: kind  "refused" or "lost": the write stands, and nobody learns it

    skips  so many writes that succeed before; times: so many fail
    """

    kind: str
    skips: int = 0
    times: int = 1


@dataclass(frozen=True)
class SinkFault(Step):
    """The next delivery of a sink fails. In: when  "before", "in" or "after" it"""

    when: str


@dataclass(frozen=True)
class Grow(Step):
    """The pipeline starts again with one more node, if it is not whole yet."""


@dataclass(frozen=True)
class Rest(Step):
    """A node is paused, or goes on if it was. In: node  its number"""

    node: int


@dataclass(frozen=True)
class Limit(Step):
    """A person sets the limits of the nodes with a time limit. In: node  the number of the one that is meant; None: all"""

    ms: int
    records: int | None = None
    node: int | None = None


@dataclass(frozen=True)
class Drain(Step):
    """A person stops the stream and has open batches closed; it goes on."""


@dataclass(frozen=True)
class Maintain(Step):
    """The tables of a node are maintained. In: node  its number"""

    node: int


@dataclass(frozen=True)
class Restart(Step):
    """All processes start again."""


@dataclass(frozen=True)
class Lose(Step):
    """A broker deletes records that the log has not read, and a person accepts the gap. In: records  so many of a partition"""

    topic: str
    partition: int
    records: int = 1


@dataclass(frozen=True)
class Upkeep(Step):
    """A person has the whole lake maintained."""


# The second tier: these need Spark.


@dataclass(frozen=True)
class Retain(Step):
    """A person has the older commits of a log cut off. In: ms  of the life's clock before now that stay; `dies` as `Rename`"""

    topic: str
    ms: int = 0
    dies: int | None = None


@dataclass(frozen=True)
class Erase(Step):
    """A person has a key erased. In: `dies` as `Rename`"""

    topic: str
    key: str
    dies: int | None = None


@dataclass(frozen=True)
class Rename(Step):
    """A node gets another name. In: node  its number; dies  at which step the command dies, once; None: it does not"""

    node: int
    dies: int | None = None


@dataclass(frozen=True)
class Change(Step):
    """A node gets other choices, and `headrace apply` rebuilds it and its readers.

    In: node  its number; `dies` as `Rename`; leaves: when it dies, the person goes back to the description from before
    """

    node: int
    number: int
    dies: int | None = None
    leaves: bool = False


@dataclass(frozen=True)
class GoBack(Step):
    """A person has the last change rolled back."""


@dataclass(frozen=True)
class Recompute(Step):
    """A backfill of a node: it computes each row that is there. In: node  its number"""

    node: int


@dataclass(frozen=True)
class Redeliver(Step):
    """A node's sink gets all rows again. In: node  its number"""

    node: int


@dataclass(frozen=True)
class Redrive(Step):
    """Dead letters are sent again, as they are or corrected."""

    topic: str
    value: int | None = None


@dataclass(frozen=True)
class Mend(Step):
    """Another program overwrites a commit of a log, and a person has that repaired.

    In: back  how many commits before the last; unseen: nodes read on before anybody sees it; dies: as `Rename`
        later  the repair comes behind other acts, as soon as something else is to happen
    """

    topic: str
    back: int = 1
    unseen: bool = False
    dies: int | None = None
    later: bool = False


@dataclass(frozen=True)
class Pack(Step):
    """Another program, a Spark without our settings, packs the files of a log."""

    topic: str


@dataclass(frozen=True)
class Life:
    """A life. In: begins  with so many nodes; the others come as it grows.

    dated  the records of "t" have their event time in their value, so its tombstones have none; partition 2 has these alone
    """

    nodes: tuple[Made, ...]
    begins: int
    steps: tuple[Step, ...]
    dated: bool = False

    def text(self) -> str:
        """The life as Python, a step a line."""
        nodes = "".join(f"        {short(each)},\n" for each in self.nodes)
        steps = "".join(f"        {short(each)},\n" for each in self.steps)
        dated = "    dated=True,\n" if self.dated else ""
        return f"Life(\n    nodes=(\n{nodes}    ),\n    begins={self.begins},\n    steps=(\n{steps}    ),\n{dated})"


def short(value: object) -> str:
    """The value as Python, without fields that are as they are unless said otherwise."""
    if isinstance(value, tuple):
        return f"({', '.join(map(short, value))}{',' if len(value) == 1 else ''})"
    if not isinstance(value, Life | Made | Sent | Step):
        return repr(value)
    named: Sequence[str] = [
        f"{each.name}={short(getattr(value, each.name))}"
        for each in fields(value)  # type: ignore[arg-type]
        if getattr(value, each.name) != each.default
    ]
    return f"{type(value).__name__}({', '.join(named)})"
