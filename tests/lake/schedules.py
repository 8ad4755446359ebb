"""Schedules of writers on a simulated store, and the laws that hold at the end of each (L29)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

from headrace.errors import TransientError
from headrace.lake.commits import history
from headrace.lake.commits.commit_file import Change
from headrace.lake.commits.fence import APPENDER, MAINTAINER, ConflictError, FencedError, ForeignCommitError
from headrace.lake.commits.writer import TableWriter
from headrace.lake.files.data_file import NewFile
from headrace.lake.table import LakeTable
from tests.lake.simulation import SimulatedTable, Store, StoreError, World, actions

POSITIONS = 12
LOST_IN_A_ROW_MAX = 12  # versions that one append may lose to others
RETENTION, LONG = 0.12, 0.02  # seconds; the real ones are thirty thousand times as long
COMPACTIONS_MAX = 12
LAST = ("appender", "compaction")


@dataclass
class Schedule:
    """A table, those who write to it, and what they were told."""

    world: World
    store: Store = field(init=False)
    rows: dict[str, tuple[int, ...]] = field(default_factory=dict)  # the positions in each file
    told: dict[int, str] = field(
        default_factory=dict
    )  # by version: the file whose append was told to have succeeded
    refused: set[str] = field(default_factory=set)  # files of which a writer was told that they never arrive
    foreign: list[tuple[int, int | None]] = field(
        default_factory=list
    )  # data commits of others, and what undid them
    done: bool = False
    appenders: int = 0  # that have not ended
    is_refused: bool = False  # a commit stands that nobody undoes
    is_wrongly_refused: bool = False  # an appender was told of foreign rows, and there were none
    names: int = 0

    def __post_init__(self) -> None:
        self.store = Store(self.world)

    def file(self, positions: tuple[int, ...]) -> NewFile:
        self.names += 1
        name = f"{self.names}"
        self.rows[name] = positions
        return NewFile(name, len(positions), "{}")

    # The writers.

    def append_all(self) -> None:
        """An appender: takes the table over, reads how far it is, goes on from there."""
        try:
            self._append_all()
        finally:
            self.appenders -= 1

    def _append_all(self) -> None:
        random, table = self.world.random, SimulatedTable(self.store)
        while True:
            try:
                taken, first = self.take_over(cast(LakeTable, table))
                self.world.note(f"has epoch {taken.epoch}, goes on at {first}")
                while first < POSITIONS:
                    self.world.wait(0.01 * random.random())
                    first = self._append(taken, table, first)
                self.done = True
                return
            except (FencedError, ForeignCommitError) as error:
                self.world.note(type(error).__name__)
                self.is_wrongly_refused |= (
                    isinstance(error, ForeignCommitError) and not self._others_changed_rows
                )
                return
            except (StoreError, TransientError):
                self.world.note("opens the table again")
                self.world.wait(0.01)

    def take_over(self, table: LakeTable) -> tuple[TableWriter, int]:
        taken = TableWriter(table, APPENDER, carries=LAST)
        return taken, progress(table)

    def _append(self, taken: TableWriter, table: SimulatedTable, first: int) -> int:
        after = min(POSITIONS, first + self.world.random.randint(1, 3))
        file = self.file(tuple(range(first, after)))
        table.puts, standing, faults = 0, len(self.store.commits), self.world.faults_met
        record = {"writer": "appender", "first": first, "next": after}
        for tries in range(3):  # the same rows again through the same writer, or by a new one
            try:
                version = taken.append([file], record)
                break
            except (FencedError, ForeignCommitError):
                if tries == 0:
                    self.refused.add(file.path)
                raise
            except (StoreError, TransientError):
                if self.world.random.random() < 0.5 or tries == 2:
                    raise
        self.told[version] = file.path
        self.world.note(f"was told that version {version} holds {file.path}")
        if self.world.faults_met == faults:
            lost = min(table.puts, len(self.store.commits) - standing)
            assert lost <= LOST_IN_A_ROW_MAX, f"an append lost {lost} versions in a row"
        return after

    def maintain(self) -> None:
        """A maintainer: puts two files into one, or cleans the history, again and again."""
        table = SimulatedTable(self.store)
        while self.appenders:
            try:
                taken = TableWriter(cast(LakeTable, table), MAINTAINER, carries=LAST)
                for _ in range(COMPACTIONS_MAX):
                    self.world.wait(0.01 * self.world.random.random())
                    self._compact(taken, table)
                return
            except (FencedError, ForeignCommitError) as error:
                self.world.note(type(error).__name__)
                return
            except (StoreError, TransientError):
                self.world.note("opens the table again")
                self.world.wait(0.01)

    def _compact(self, taken: TableWriter, table: SimulatedTable) -> None:
        random, snapshot = self.world.random, table.snapshot()
        names = sorted(snapshot.files)
        record = {"writer": "compaction"}
        if random.random() < 0.15 or len(names) < 2:
            taken.append([], record | history.carried(cast(LakeTable, table), LAST))
            self.store.clean(RETENTION, snapshot.version)  # looked at before the records were
            return
        removed = {name: snapshot.files[name] for name in random.sample(names, 2)}
        added = [self.file(tuple(sorted(position for name in removed for position in self.rows[name])))]
        try:
            if random.random() < 0.7:
                taken.replace(removed, added, record, changes_data=False)
            else:
                taken.commit_by(self._compaction_of(table, removed, added), record)
        except ConflictError:
            self.world.note("finds a file gone")

    def _compaction_of(
        self, table: SimulatedTable, removed: Mapping[str, Any], added: list[NewFile]
    ) -> Callable[[Mapping[str, Any], Any], None]:
        def work(record: Mapping[str, Any], handle: Any) -> None:
            if removed.keys() <= table.snapshot().files.keys():
                handle(record, Change(added, removed, changes_data=False))

        return work

    # Other hands. Each of these happens in one moment.

    def foreign_compaction(self) -> None:
        names = sorted(self.store.files)
        if len(names) >= 2:
            removed = dict.fromkeys(names[:2])
            file = self.file(tuple(sorted(position for name in removed for position in self.rows[name])))
            self._foreign(Change([file], cast(Any, removed), changes_data=False))

    def foreign_append(self) -> None:
        file = self.file((-1,))
        is_ours = self._has_fence
        version = self._foreign(Change([file]))
        if not is_ours:
            return  # who opens a table takes it as it stands
        self.foreign.append((version, None))
        self.world.at(0.1 * self.world.random.random(), lambda: self._undo(file))

    def _undo(self, file: NewFile) -> None:
        if file.path in self.store.files:
            version = self._foreign(Change([], cast(Any, {file.path: None})))
            self.foreign[-1] = (self.foreign[-1][0], version)
        else:  # somebody else compacted it
            self.is_refused = True

    @property
    def _others_changed_rows(self) -> bool:
        return any(commit.fence is None and commit.changes_data for commit in self.store.commits)

    @property
    def _has_fence(self) -> bool:
        return any(commit.fence is not None for commit in self.store.commits)

    def _foreign(self, change: Change, record: Mapping[str, Any] | None = None) -> int:
        version = len(self.store.commits)
        assert self.store.land(version, actions(record, change))
        return version

    # What is true at the end.

    def check(self) -> None:
        assert not self.is_wrongly_refused
        epochs_of: Counter[str] = Counter()
        for commit in self.store.commits:
            if commit.fence is not None:
                role, epoch = commit.fence["role"], commit.fence["epoch"]
                assert epoch >= epochs_of[role], f"version {commit.version}: {role} {epoch} was overtaken"
                epochs_of[role] = epoch
                known = commit.fence["epochs"]
                assert all(known[role] >= epoch for role, epoch in epochs_of.items()), commit.version
                assert not any(
                    since < commit.version and (undone is None or commit.version < undone)
                    for since, undone in self.foreign
                ), f"version {commit.version} stands on rows of others"
        names = [added["path"] for commit in self.store.commits for added in commit.added]
        assert not self.refused & set(names), "a commit arrived after its writer was told that it never will"
        for version, name in self.told.items():
            assert name in [added["path"] for added in self.store.commits[version].added], version
        if self.is_refused:
            return
        records = [commit.record or {} for commit in self.store.commits]
        spans = [
            (record["first"], record["next"]) for record in records if record.get("writer") == "appender"
        ]
        assert all(one[1] == two[0] for one, two in pairwise(spans)), spans
        assert spans[0][0] == 0
        assert spans[-1][1] == POSITIONS
        rows = sorted(position for name in self.store.files for position in self.rows[name])
        assert [row for row in rows if row >= 0] == list(range(POSITIONS))


def progress(table: LakeTable) -> int:
    """The first position that no commit holds."""
    last = history.last_commit(table, "appender")
    return 0 if last is None else int(last.record["next"])


def live(world: World, writers: int | None = None) -> None:
    """Live through one schedule. In: writers  how many there are, one in five of them a maintainer; None: one to five."""
    schedule, random = Schedule(world), world.random
    schedule.store.land(0, actions(None, Change()))
    maintainers = random.randint(0, 2) if writers is None else writers // 5
    schedule.appenders = random.randint(1, 3) if writers is None else writers - maintainers
    for number in range(schedule.appenders):
        process = world.start(f"appender {number}", schedule.append_all, 0.1 * random.random())
        if random.random() < 0.3:
            world.at(0.2 * random.random(), lambda process=process: setattr(process, "killed", True))  # type: ignore[misc]
    for number in range(maintainers):
        world.start(f"maintainer {number}", schedule.maintain, 0.1 * random.random())
    for _ in range(random.choice((0, 1, 2))):
        world.at(0.2 * random.random(), schedule.foreign_compaction)
    if random.random() < 0.1:
        world.at(0.2 * random.random(), schedule.foreign_append)
    world.run()
    for _ in range(3):  # a supervisor starts one more, and the store is well again
        if schedule.done or schedule.is_refused:
            break
        world.faults, schedule.appenders = False, 1
        world.start("last appender", schedule.append_all)
        world.run()
    schedule.check()


def broken(seeds: range, writers: int | None = None) -> int | None:
    """The first seed whose schedule breaks a law, which is printed; None: none does. In: writers  see `live`."""
    for seed in seeds:
        world = World(seed)
        try:
            live(world, writers)
        except Exception as error:
            print(f"seed {seed}: {error!r}")
            print(*(f"{at:9.4f}  {name:14}  {text}" for at, name, text in world.trace[:400]), sep="\n")
            return seed
    return None
