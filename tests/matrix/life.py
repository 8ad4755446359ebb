"""A short life of a lake with a node of each kind: records come, an operation meets all of them, more records come."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from shutil import copytree
from typing import TYPE_CHECKING, Any

from headrace.description import is_of_kafka
from headrace.fold.fates import NOT_RECORDS
from headrace.lake.paths import Lake
from headrace.log.clock import ManualClock
from headrace.nodes.descriptions.references import among_themselves
from headrace.nodes.descriptions.topics import is_read, topics_of, upstream_first
from headrace.nodes.node_tables import read_progress
from headrace.observe.local_views import LocalViews
from headrace.observe.sql import LakeSql
from headrace.testing.piped import PipedTopic
from headrace.writing.node_runner import NodeRunner
from tests.laws.driving import SideBySide, in_parallel
from tests.matrix.kinds import EVENTS, PLACES
from tests.matrix.stores import KeyedStore, Store, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node

Tables = dict[str, list[str]]
STEP_MS = 120_000
BEGIN_MS = 1_699_998_960_000  # a whole minute, four before midnight in Athens
UNREADABLE = json.dumps({"value": "much", "place": "south"})
STORES: tuple[type[Store] | None, ...] = (None, Store, KeyedStore)


class Life(SideBySide):
    """A test driver whose clock begins at one time, and whose nodes may become others.

    stores    the sink of each kind that has one
    partition of the events, by the number of the step
    silent    the topics that get no record
    made      all nodes, by their kind; `kinds`: those that are there now
    """

    __test__ = False

    def __init__(
        self,
        spark: SparkSession | None,
        made: Mapping[str, Node],
        rotation: int = 0,
        first: Collection[str] | None = None,
    ) -> None:
        """In: made  nodes by their kind; rotation: which kind gets which sort of sink; first: the kinds that begin; None: all."""
        self.stores: dict[str, Store] = {}
        self.partition: Callable[[int], int] = lambda step: 0
        self.silent: frozenset[str] = frozenset()
        for place, (kind, node) in enumerate(sorted(made.items())):
            sort = STORES[(place + rotation) % len(STORES)]
            if sort is not None:
                self.stores[kind] = sort(node)
        self.made = dict(made)
        self.kinds = {kind: node for kind, node in made.items() if first is None or kind in first}
        super().__init__(self.described(self.kinds), spark)

    def _begin(self, place: str) -> None:
        self._clock = ManualClock(BEGIN_MS)
        super()._begin(place)

    def described(self, made: Mapping[str, Node]) -> list[Node]:
        """Nodes as a pipeline describes them, each with the sink of its kind."""
        return [node.to(self.stores[kind]) if kind in self.stores else node for kind, node in made.items()]

    def become(self, made: Mapping[str, Node] | None = None) -> None:
        """Start the pipeline again, with other nodes or the same."""
        self.kinds = dict(made or self.kinds)
        nodes = among_themselves(self.described(self.kinds))
        self._nodes = {node.required_name: node for node in upstream_first(nodes)}
        self._topics = topics_of(nodes)
        self._sequencers = {name: self._open_sequencer(topic) for name, topic in self._topics.items()}
        self._reopen_runners()
        self._piped = {
            name: PipedTopic(topic, self._sequencers[name].state.next_offsets)
            for name, topic in self._topics.items()
        }

    def steps(self, *numbers: int, nodes: Sequence[str] | None = None) -> None:
        """Log commits, each with two minutes' records, and folded. In: nodes  that run; None: all."""
        for number in numbers:
            for topic, key, value, at_ms in records(number):
                if topic in self._topics and topic not in self.silent:
                    partition = self.partition(number) if topic == EVENTS.name else 0
                    self.pipe(topic, key=key, value=value, timestamp_ms=at_ms, partition=partition)
            self._clock.set(BEGIN_MS + number * STEP_MS)
            self.cut(nodes)

    def _run(self, names: Collection[str]) -> None:
        """Nodes that read others come after these."""
        above = [name for name in names if all(map(is_of_kafka, self._nodes[name].topics))]
        super()._run(above)
        super()._run([name for name in names if name not in above])

    def tables(self) -> Tables:
        """The rows of each kind of node, as people read them."""
        return _tables(self._lake, {kind: self._node(self.kinds[kind].required_name) for kind in self.kinds})

    def tables_of_a_new_lake(self) -> Tables:
        """The rows that the nodes give in a lake that has the logs of the topics alone, in one go."""
        lake = Lake(f"{self._lake.root}-new")
        for topic in self._topics.values():
            if is_of_kafka(topic):
                copytree(_path(self._lake.log(topic.name)), _path(lake.log(topic.name)))
        alone = {kind: replace(node, sinks=()) for kind, node in self.kinds.items()}
        described = upstream_first(among_themselves([*alone.values()]))
        for node in described:
            runner = NodeRunner(self._session, node, lake, is_read=is_read(node, described))
            while runner.advance():
                pass
        views = LocalViews(self._session, lake)
        return {
            kind: sorted(map(shown, views.read(node).select([*node.columns]).to_pylist()))
            for kind, node in alone.items()
        }

    def unaccounted(self) -> dict[str, str]:
        """The kinds whose ledger does not know each record of its topics once."""
        faults = {}
        for kind, node in self.kinds.items():
            counted = read_progress(self._lake, self._node(node.required_name)).records
            for topic in node.topics:
                if not is_of_kafka(topic):
                    continue
                known = {
                    int(p): sum(n for fate, n in fates.items() if fate not in NOT_RECORDS)
                    for p, fates in counted.get(topic.name, {}).items()
                }
                there = {p: n for p, n in self._sequencers[topic.name].state.next_offsets.items() if n}
                if known != there:
                    faults[kind] = f"books of {topic.name}: {known} of {there}"
        return faults

    def refuted(self) -> dict[str, Any]:
        """The kinds whose tables are not those that the oracle makes of each record by itself."""

        def verdict(kind: str) -> Any:
            return self.verify(self.kinds[kind].required_name, 50)

        verdicts = zip(self.kinds, in_parallel(verdict, self.kinds), strict=True)
        return {kind: f"oracle: {each.first_differences}" for kind, each in verdicts if not each.equal}

    def wrong_stores(self, tables: Tables, *, corrected: bool = False) -> dict[str, Any]:
        """The kinds whose sink does not hold the rows of their table, or was given a row twice.

        In: corrected  whether rows from before have changed: a sink that takes no corrections may hold these, too
        """
        wrong: dict[str, Any] = {}
        for kind, store in self.stores.items():
            held, wanted = store.table(), tables[kind]
            excused = corrected and not isinstance(store, KeyedStore)
            if excused and self._nodes[self.kinds[kind].required_name].day_column is None:
                continue  # nor does it get the rows that have changed
            missing = [row for row in wanted if row not in held]
            more = [] if excused else [row for row in held if row not in wanted]
            again = 0 if corrected else store.again
            if missing or more or again:
                wrong[f"{kind} × {type(store).__name__}"] = (
                    f"missing {missing[:2]}, more {more[:2]}, {again} again"
                )
        return wrong


def _tables(lake: Lake, made: Mapping[str, Node]) -> Tables:
    tables = {}
    with LakeSql(lake, [*made.values()]) as sql:
        for kind, node in made.items():
            columns = ", ".join(f'"{name}"' for name in node.columns)
            rows = sql.query(f'SELECT {columns} FROM "{node.required_name}"').to_pylist()
            tables[kind] = sorted(map(shown, rows))
    return tables


def _path(uri: str) -> str:
    return uri.removeprefix("file:")


def records(step: int) -> Iterator[tuple[str, str | None, Any, int]]:
    """Two minutes' records: topic, key, value and timestamp. Some are late, one is a tombstone, one cannot be read."""
    at_ms = BEGIN_MS + step * STEP_MS
    for number, key in enumerate(("a", "b", "a", None, "c" if step % 2 else "b", "a", "b")):
        value = {
            "value": (step * 7 + number * 3) % 11,
            "place": ("north", "south", None)[(2 * step + number) % 3],
        }
        yield EVENTS.name, key, value, at_ms + number * 15_000
    yield EVENTS.name, "a", {"value": 5, "place": "south"}, at_ms - 3 * STEP_MS
    if step == 2:
        yield EVENTS.name, "c", None, at_ms + 110_000
        yield EVENTS.name, "b", UNREADABLE, at_ms + 111_000
    place = ("north", "south")[step % 2]
    yield PLACES.name, place, {"city": f"{place}{step}"}, at_ms + 1_000
