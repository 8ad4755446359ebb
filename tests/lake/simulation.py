"""A simulated store of commits, and processes that use it, in an order that a seed decides.

Each process runs in a thread, but only one at a time: it hands over at every call of the store. So the code that is tested
is the real one, and a seed repeats a schedule exactly.
"""

from __future__ import annotations

import heapq
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from random import Random
from typing import Any

from headrace.lake.commits.commit_file import Change, CommitFile
from headrace.lake.commits.snapshot import Snapshot, data_file
from headrace.lake.table import VersionTakenError

EVENTS_MAX = 40_000


class StoreError(Exception):
    """The store gave no answer."""


class TakenError(StoreError):
    """The version is taken."""


class Crash(BaseException):
    """The process was killed."""


class Endless(Exception):
    """The schedule does not end."""


@dataclass(eq=False)
class Process:
    name: str
    turn: threading.Lock = field(default_factory=lambda: locked())
    killed: bool = False


def locked() -> threading.Lock:
    """A lock that is free when somebody hands over."""
    lock = threading.Lock()
    lock.acquire()
    return lock


class World:
    """Processes and events in simulated time (in seconds)."""

    newest: World

    def __init__(self, seed: int) -> None:
        World.newest = self
        self.random = Random(seed)
        self.now = 0.0
        self.trace: list[tuple[float, str, str]] = []
        self.faults, self.faults_met = True, 0
        self.checkpoint = -1  # of the table
        self.error: BaseException | None = None
        self._queue: list[tuple[float, int, Process | Callable[[], None]]] = []
        self._number = 0
        self._running: Process | None = None
        self._ended = locked()

    def note(self, text: str) -> None:
        self.trace.append((self.now, self._running.name if self._running else "-", text))

    def start(self, name: str, work: Callable[[], None], after: float = 0.0) -> Process:
        process = Process(name)

        def run() -> None:
            process.turn.acquire()
            try:
                if self.error is None:
                    work()
                    self.note("ends")
            except Crash:
                self.note("was killed")
            except BaseException as error:
                self.error = self.error or error
            self._next(None)

        threading.Thread(target=run, daemon=True).start()
        self._push(after, process)
        return process

    def at(self, after: float, action: Callable[[], None]) -> None:
        """Do something later, whoever runs then."""
        self._push(after, action)

    def wait(self, seconds: float) -> None:
        """Let time pass for the process that runs."""
        me = self._running
        assert me is not None
        self._push(seconds, me)
        self._next(me)
        if me.killed or self.error is not None:
            raise Crash

    def run(self) -> None:
        """Go on until nothing is left to do."""
        self._next(None)
        self._ended.acquire()
        if self.error is not None:
            raise self.error

    def _push(self, after: float, what: Process | Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._queue, (self.now + after, self._number, what))

    def _next(self, me: Process | None) -> None:
        while self._queue:
            at, _, what = heapq.heappop(self._queue)
            self.now = max(self.now, at)
            if self._number > EVENTS_MAX and self.error is None:
                self.error = Endless()
            if not isinstance(what, Process):
                self._running = None
                try:
                    what()
                except Exception as error:
                    self.error = self.error or error
                continue
            self._running = what
            if what is not me:
                what.turn.release()
                if me is not None:
                    me.turn.acquire()
            return
        self._running = None
        self._ended.release()


class Store:
    """The commits of one table. A put may be lost, arrive late, or lose its answer."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.commits: list[CommitFile] = []
        self.landed_at: list[float] = []
        self.files: dict[str, int] = {}  # of the newest version, and their sizes
        self.cleaned = 0  # commits below this version have no file any more

    def land(self, version: int, actions: list[dict[str, Any]]) -> bool:
        """A commit arrives; False if its version is taken."""
        if version < self.cleaned:
            self.world.note(f"version {version} arrives where history was cleaned")
            return True
        if version < len(self.commits):
            return False
        assert version == len(self.commits), "a writer named a version beyond the next one"
        self.commits.append(CommitFile("table", version, actions))
        self.landed_at.append(self.world.now)
        for removed in self.commits[-1].removed:
            del self.files[removed["path"]]
        for added in self.commits[-1].added:
            assert added["path"] not in self.files, "the same rows stand twice"
            self.files[added["path"]] = added["size"]
        self.world.note(f"VERSION {version}: {actions[0]['commitInfo'].get('userMetadata')}")
        return True

    def put(self, version: int, actions: list[dict[str, Any]]) -> None:
        world, random = self.world, self.world.random
        world.wait(self.delay())
        fate = random.random() if world.faults else 1.0
        world.faults_met += fate < 0.13
        if fate < 0.03:
            world.note(f"put {version} is lost")
            raise StoreError
        if fate < 0.08:
            later = random.choice((0.01, 0.05, 0.3)) * random.random()
            world.note(f"put {version} is on its way for {later:.3f} s")
            world.at(later, lambda: self._arrive(version, actions))
            world.wait(self.delay())
            raise StoreError
        landed = self.land(version, actions)
        if fate < 0.11:
            world.note(f"the answer to put {version} is lost, landed: {landed}")
            world.wait(self.delay())
            raise StoreError
        if fate < 0.13:
            world.note(f"put {version} is sent twice, landed: {landed}")
            landed = False
        world.wait(self.delay())
        if not landed:
            raise TakenError(version)

    def get(self, version: int) -> CommitFile | None:
        self.world.wait(self.delay())
        if self.world.faults and self.world.random.random() < 0.005:
            self.world.note(f"get {version} has no answer")
            raise StoreError
        found = self.commits[version] if self.cleaned <= version < len(self.commits) else None
        self.world.wait(self.delay())
        return found

    def clean(self, retention: float, below: int) -> None:
        """Write a checkpoint, and remove commits that are older than the retention, below a version."""
        self.world.checkpoint = len(self.commits) - 1
        while self.cleaned < below and self.landed_at[self.cleaned] < self.world.now - retention:
            self.cleaned += 1
        self.world.note(f"history is cleaned below {self.cleaned}")

    def delay(self) -> float:
        """Mostly some milliseconds; now and then a process stops for long."""
        random = self.world.random
        if self.world.faults and random.random() < 0.004:
            self.world.faults_met += 1
            pause = random.choice((0.02, 0.1, 0.5)) * random.random()
            self.world.note(f"stops for {pause:.3f} s")
            return pause
        return 0.0005 + 0.003 * random.random()

    def _arrive(self, version: int, actions: list[dict[str, Any]]) -> None:
        self.world.note(f"late put {version}, landed: {self.land(version, actions)}")


class SimulatedTable:
    """A table as one process sees it: what `TableWriter` and `history` ask of a `LakeTable`."""

    uri, exists = "table", True

    def __init__(self, store: Store) -> None:
        self.store = store
        self.known_version = -1
        self.puts = 0

    @property
    def version(self) -> int:
        self.store.world.wait(self.store.delay())
        self.known_version = len(self.store.commits) - 1
        return self.known_version

    def snapshot(self) -> Snapshot:
        version = self.version
        return Snapshot(version, {name: data_file(size, None) for name, size in self.store.files.items()})

    def commit_at(self, version: int) -> CommitFile | None:
        return self.store.get(version)

    def commit_to_judge(self, version: int) -> CommitFile | None:
        return self.commit_at(version)

    def commits_back(self, through: int) -> Iterator[CommitFile | None]:
        for version in range(through, -1, -1):
            found = self.commit_at(version)
            yield found
            if found is None:
                return

    def put(self, version: int, record: Mapping[str, Any], change: Change) -> None:
        self.puts += 1
        if self.store.world.random.random() < 0.5 and version <= self.version:
            raise VersionTakenError(version)  # the handle had moved on
        self.store.put(version, actions(record, change))

    def with_handle_at(self, version: int, work: Callable[[Any], None]) -> None:
        """Here `work` is given a function that commits."""
        work(lambda record, change: self.put(version + 1, record, change))

    def alone(self) -> AbstractContextManager[object]:
        return nullcontext()

    def schema_changed(self) -> None: ...

    def forget(self) -> None: ...


def actions(record: Mapping[str, Any] | None, change: Change) -> list[dict[str, Any]]:
    """A commit's actions."""
    info = {} if record is None else {"userMetadata": json.dumps(record)}
    return [
        {"commitInfo": info},
        *(
            {"add": {"path": file.path, "size": file.size, "dataChange": change.changes_data}}
            for file in change.added
        ),
        *({"remove": {"path": name, "dataChange": change.changes_data}} for name in (change.removed or {})),
    ]
