"""Upkeep of the tables that a session writes: checkpoints, clean-up of history, larger files of logs and of results.

A commit that also wrote a checkpoint would take several times as long. Here a thread looks every few seconds which tables
have had enough commits since their last checkpoint, and which logs and appended results have many small files.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from headrace import lake as lakes
from headrace.lake import FencedError, LakeTable, TableWriter
from headrace.lake.care.upkeep import UPKEEP, Upkeep, choose, choose_any, compact, small
from headrace.writing.background import BackgroundTask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headrace.writing.scheduling import Turns

logger = structlog.get_logger(__name__)
LOOK_SECONDS = 5.0  # between two looks at the tables
FILES_MAX = 400  # a log, or a table of appended results, with more files is packed
PACKED_AFTER_MS = (
    60_000  # rows committed later than that, before the newest, stay in files that nodes read whole
)
COMMIT_TIME = "ingested_at"


class TableUpkeep:
    """Does what is due, one table at a time."""

    def __init__(
        self,
        paths: Callable[[], Iterable[str]],
        turns: Turns,
        *,
        logs: Callable[[], Iterable[str]] = tuple,
        appended: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """Nothing is looked at yet.

        In: paths  of all tables, `logs`: of those that are logs, and `appended`: of those of appended results
            turns  at upkeep, of all that the session hosts
        """
        self._paths, self._logs, self._appended = paths, logs, appended
        self._upkeeps: dict[str, Upkeep] = {}
        self._look_at, self._ending = 0.0, threading.Event()
        self._task = BackgroundTask("table upkeep", turns, self._ending.is_set)

    def keep(self) -> None:
        """Look, if it is time to, and do what is due in a thread; called with each poll."""
        if time.monotonic() >= self._look_at and not self._task.under_way:
            self._look_at = time.monotonic() + LOOK_SECONDS
            self._ending.clear()
            self._task.begin(self._keep_all)

    def end(self) -> None:
        """Wait for what is being done, and begin nothing more."""
        self._ending.set()
        self._task.end()

    def _keep_all(self) -> None:
        logs, appended = set(self._logs()), set(self._appended())
        for path in self._paths():
            if self._ending.is_set():
                return
            table = lakes.open_table(path)
            try:
                if table.known_version >= 0:  # else this process has not committed to it
                    self._keep_one(table)
                    if len(table.snapshot_for_upkeep().files) > FILES_MAX:
                        _pack(table, is_log=path in logs, is_appended=path in appended)
            except FencedError:
                self._upkeeps.pop(path, None)  # maintenance of another process came between
            except Exception as error:
                logger.warning("no upkeep, will be tried again", path=path, error=str(error))

    def _keep_one(self, table: LakeTable) -> None:
        self._upkeeps.setdefault(table.uri, Upkeep(table, partial(TableWriter, table, UPKEEP))).run()


def _pack(table: LakeTable, *, is_log: bool, is_appended: bool) -> None:
    if is_log:
        lakes.as_maintainer(table, partial(pack_log, table))
    elif is_appended:  # not as the maintainer: that may be a backfill of another process
        pack_results(table, TableWriter(table, UPKEEP))


def pack_results(table: LakeTable, writer: TableWriter) -> int | None:
    """Put the small files of a table of appended results into one.

    Out: the version that holds the commit; None: there was nothing to do, or another packed them first
    """
    files = choose_any(table.snapshot())
    told = {"writer": "upkeep", **lakes.all_carried(table)}
    return compact(table, writer, files, told) if files else None


def pack_log(
    table: LakeTable,
    writer: TableWriter,
    *,
    whole: bool = False,
    record: Callable[[], Mapping[str, Any]] | None = None,
) -> int | None:
    """Put the small files of a log into one, in the order of commit time.

    In:  whole   True for those of the newest commits, too; a node that is a little behind then reads the large file
         record  gives that of the commit; None: that of upkeep
    Out: the version that holds the commit; None: there was nothing to do, or another packed them first
    """
    snapshot = table.snapshot()
    newest_us = max((int(file.highest.get(COMMIT_TIME, 0)) for file in snapshot.files.values()), default=0)
    older = choose(snapshot, COMMIT_TIME, newest_us - PACKED_AFTER_MS * 1_000)
    files = next(small(snapshot), {}) if whole else older
    if not files:
        return None
    told = {"writer": "upkeep", **lakes.all_carried(table)} if record is None else record()
    return compact(table, writer, files, told, column=COMMIT_TIME)
