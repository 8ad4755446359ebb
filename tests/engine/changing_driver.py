"""One node through changes of its description, in a real lake and without Spark: a stream, acts, and crashes of both.

Chance decides who works next. What is shared with a real act: how far a rebuild reads (`meeting_point`), the swap of tables
behind the fence (`replace_table`), and what tells a swap that was broken off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headrace import lake
from headrace.engine.fold_increment import Distribution
from headrace.engine.node_state import NodeState, NodeTables
from headrace.engine.output_tables import output_tables
from headrace.engine.progress import is_within
from headrace.lake import small_files
from headrace.lake.swap import replace_table
from headrace.lifecycle.former import copy_table
from headrace.lifecycle.meeting_point import is_behind, is_beyond, meeting_point
from tests.engine.node_driver import Crash, current_rows, everything
from tests.laws.kernel.harness import Outcome
from tests.laws.kernel.reading import Reading

Upto = Mapping[str, int]


class Life:
    """The node's tables stand in `tables`, what is rebuilt beside them in `rebuilt-<number of the description>`.

    given     for each topic that all descriptions read the stretches of its log that sinks were given: after and through
              which commit time
    """

    def __init__(self, folder: Path, readings: Sequence[Reading], seed: int, how: Distribution) -> None:
        self.folder, self.readings, self.how = folder, readings, how
        self.writer = f"fold/{readings[0].node.required_name}"
        self.random = np.random.default_rng(seed)
        self.crashes = self.swaps = 0
        shared = set[str].intersection(*({*reading.topics} for reading in readings))
        self.given: dict[str, dict[int, int]] = {topic: {} for topic in shared}
        self.visible = {topic: 0 for reading in readings for topic in reading.topics}
        self.code, self.wanted = 0, 0  # the description of the stream's code, and the one to be applied
        self._note(0, swapping=False)
        self.stream: NodeState | None = None

    def run(self, changes: Sequence[int]) -> tuple[Reading, Outcome]:
        """Live through some changes, then fold the rest of the log; the last description, and what its tables hold."""
        for self.wanted in changes:
            while self._described != (self.wanted, False):
                self._try((self._grow, self._fold, self._fold, self._act)[self.random.integers(4)])
        self.visible = dict.fromkeys(self.visible, 1 << 62)
        while self._fold_or_crash():
            pass
        last, _ = self._described
        return self.readings[last], self._outcome(last)

    def _try(self, work: Any) -> None:
        try:
            work()
        except Crash:
            self.crashes += 1
            self.stream = None
            lake.forget(str(self.folder))
            if self.random.random() < 0.3:  # what was broken off gives way to something else
                others = [number for number in range(len(self.readings)) if number != self._described[0]]
                self.wanted = int(self.random.choice(others))

    def _fold_or_crash(self) -> bool:
        before = self.crashes
        done: list[bool] = []
        self._try(lambda: done.append(self._fold()))
        return self.crashes > before or done[0]

    def _grow(self) -> None:
        """One more commit of some log."""
        topic = str(self.random.choice([*self.visible]))
        at = [ms for reading in self.readings for ms in reading.commits(topic) if ms > self.visible[topic]]
        self.visible[topic] = min(at, default=self.visible[topic])

    def _fold(self) -> bool:
        """A micro-batch of the stream, if its code describes the tables; else it is restarted with the new code."""
        described, swapping = self._described
        if swapping:
            return False
        if self.stream is None or self.code != described:
            self.code = described
            self.stream = self._opened("tables", described)
        reading, state = self.readings[self.code], self.stream
        done = dict(state.progress.clock.upto_ms)
        upto = state.pending or self._frontiers(reading, done, self.visible)
        if all(done.get(topic, 0) >= ms for topic, ms in upto.items()):
            return False
        self._increment(state, reading, done, upto, gives=True)
        return True

    def _act(self) -> None:
        """Some increments of the rebuild, or the swap."""
        described, swapping = self._described
        if described == self.wanted and not swapping:
            return
        reading, folder = self.readings[self.wanted], f"rebuilt-{self.wanted}"
        before = self._standing(described, swapping=swapping)
        if before is None:
            return  # a node that has not run is no changed node
        point = meeting_point(before, reading.topics, ordered=False)
        state = self._opened(folder, self.wanted)
        if is_beyond(point, state.progress.clock.upto_ms):
            self._remove(folder)
            state = self._opened(folder, self.wanted)
        ends = {topic: min(point[topic], self.visible[topic]) for topic in reading.topics}
        while True:
            done = dict(state.progress.clock.upto_ms)
            upto = state.pending or self._frontiers(reading, done, ends)
            if all(done.get(topic, 0) >= ms for topic, ms in upto.items()):
                break
            self._increment(state, reading, done, upto)
            if self.random.random() < 0.3:
                return
        if not is_behind(before, done, reading.topics):  # else a log has not come so far yet
            self._swap(folder, before)

    def _swap(self, folder: str, before: Upto) -> None:
        """The stream has handed the node over: it is between two micro-batches, or has died."""
        self.stream = None
        self._note(self.wanted, swapping=True, standing=before)
        self._may_crash()
        for name in output_tables(self.readings[self.wanted].operator):
            self._replace(folder, name)
            self._may_crash()
        self._replace(folder, "state")
        self.swaps += 1
        self._note(self.wanted, swapping=False)
        self._may_crash()
        self._remove(folder)

    def _replace(self, folder: str, name: str) -> None:
        source, target = (lake.open_table(f"{self.folder}/{each}/{name}") for each in (folder, "tables"))
        state = lake.last_commit(lake.open_table(f"{self.folder}/{folder}/state"), self.writer)
        assert state is not None
        found = lake.last_commit(source, self.writer)
        record = {"writer": self.writer, **{key: state.record[key] for key in ("batch", "upto")}}
        record = record if found is None else {**found.record, "writer": self.writer}
        if not target.exists:
            copy_table(source, target.uri, {}, record)
            return
        writers = [
            lake.TableWriter(target, role, carries=[self.writer], mends=True)
            for role in (lake.MAINTAINER, lake.APPENDER)
        ]
        replace_table(writers[-1], source, record)

    def _increment(
        self, state: NodeState, reading: Reading, done: dict[str, int], upto: Upto, *, gives: bool = False
    ) -> None:
        """A micro-batch. In: gives  whether sinks get it: with its rows, or if it has none, once it counts"""
        rows, times = reading.increment(done, dict(upto))
        found = state.fold(rows, times, self.how)
        assert found is not None
        self._may_crash()
        state.commit_outputs(found, times)
        if gives and any(found.written.values()):
            self._give(done, times.after.upto_ms)
        self._may_crash()
        state.commit_state(found, times)
        if gives:
            self._give(done, times.after.upto_ms)
        self._may_crash()

    def _frontiers(self, reading: Reading, done: Upto, ends: Upto) -> dict[str, int]:
        """Through a commit of each log that lies beyond what is done, and not beyond an end; chance decides how far."""
        upto = dict(done)
        for topic in reading.topics:
            new = [ms for ms in reading.commits(topic) if done.get(topic, 0) < ms <= ends[topic]]
            if new:
                upto[topic] = int(self.random.choice(new))
        return upto

    def _give(self, done: Upto, upto: Upto) -> None:
        """Sinks get a micro-batch; a repeated one changes nothing there."""
        for topic, stretches in self.given.items():
            after, ms = done.get(topic, 0), upto.get(topic, 0)
            if ms > after:
                assert stretches.setdefault(after, ms) == ms, "repeated otherwise"

    def _standing(self, described: int, *, swapping: bool) -> Upto | None:
        """How far the tables have read: through outputs that were written, too, for sinks have their rows."""
        if swapping:
            return dict(self._noted["standing"])
        state = lake.open_table(f"{self.folder}/tables/state")
        last = lake.last_commit(state, self.writer) if state.exists else None
        if last is None:
            return None
        reached: dict[str, int] = last.record["upto"]
        for name in output_tables(self.readings[described].operator):
            table = lake.open_table(f"{self.folder}/tables/{name}")
            written = lake.last_commit(table, self.writer) if table.exists else None
            if written is not None and not is_within(written.record["upto"], reached):
                return dict(written.record["upto"])
        return reached

    def _opened(self, folder: str, number: int) -> NodeState:
        operator = self.readings[number].operator
        uris = {name: f"{self.folder}/{folder}/{name}" for name in output_tables(operator)}
        lake.forget(f"{self.folder}/{folder}")
        return NodeState(NodeTables.create(operator, f"{self.folder}/{folder}/state", uris))

    def _remove(self, folder: str) -> None:
        small_files.delete(f"{self.folder}/{folder}")
        lake.forget(f"{self.folder}/{folder}")

    @property
    def _described(self) -> tuple[int, bool]:
        return self._noted["description"], self._noted["swapping"]

    @property
    def _noted(self) -> dict[str, Any]:
        found: dict[str, Any] | None = small_files.read_json(f"{self.folder}/described.json")
        assert found is not None
        return found

    def _note(self, number: int, *, swapping: bool, standing: Upto | None = None) -> None:
        """What is noted beside the tables (see `meeting_point.keep_standing`)."""
        noted = {"description": number, "swapping": swapping, "standing": dict(standing or {})}
        small_files.write_json(f"{self.folder}/described.json", noted)

    def _may_crash(self) -> None:
        if self.crashes < 6 and self.random.random() < 0.12:
            raise Crash

    def _outcome(self, described: int) -> Outcome:
        state = self._opened("tables", described)
        tables, progress = state.tables, state.progress
        found = Outcome(clock=progress.clock, fates=Counter(progress.fates))
        for name, table in tables.outputs.items():
            found.outputs[name] = [everything(table)]
        operator = self.readings[described].operator
        for name in operator.kept:
            found.outputs[name] = [current_rows(tables)]
        found.state = [{name: tables.read_state(name) for name in step.state} for step in operator.steps]
        return found
