"""The table that remembers which records a node cannot use, so that nobody has to look for them again.

Law: the table repeats what any fold of the log finds (see `engine.steps.unusable`). A missing row costs another search; one
beyond the node's progress changes nothing; a backfill evaluates each again before it believes it. Readers that do not fold
(`late`, `dead_letters`, checks) rely on it: a record is added before the commit that counts it.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F

from headrace import lake as lakes
from headrace.description.epoch_time import milliseconds, moment
from headrace.engine.folding.bucket_tasks import write_output
from headrace.engine.steps.unusable import Unusable
from headrace.fold.values.columns import MOMENT
from headrace.lake import kinds, small_files
from headrace.lake.files.sorted_rows import all_rows
from headrace.nodes.descriptions.evolution import fingerprint_of_updated
from headrace.nodes.fold_usable import KnownUnusable
from headrace.spark.lake_rows import rewrite

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake

COLUMNS = pa.schema(
    [
        ("feed", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("ingested_at", MOMENT),
        ("fate", pa.string()),
        ("reason", pa.string()),
    ]
)
SKIPPING = ("ingested_at", "partition", "offset")


def place_of(each: Unusable) -> tuple[Any, ...]:
    """Where a record is in the order of the log, and to which feed."""
    return *each.place.values(), each.feed


def _text_of_place() -> Column:
    parts = (
        F.unix_millis("ingested_at"),
        *(F.col(name) for name in ("topic", "partition", "offset", "feed")),
    )
    return F.to_json(F.array(*(part.cast("string") for part in parts)))


def unusable_uri(lake: Lake, node: Node) -> str:
    """Where the table of a node lies, if it has one. Another suppression is no other description: see `evolution`."""
    return lake.unusable(node.required_name, fingerprint_of_updated(node))


class UnusableTable:
    """The table of one node as it is described now. It is made when the first record is added.

    A node that is rebuilt has a table of its own, for who wrote the node may go on meanwhile; it reads both. One that is
    folded aside believes its own alone, for the log may be another one since.
    """

    def __init__(self, spark: SparkSession, lake: Lake, node: Node) -> None:
        """Nothing is read yet."""
        self._spark, self._lake, self._node = spark, lake, node
        self._name = node.required_name
        known = lake if self._name in lake.aside else replace(lake, nodes=None)
        fingerprint = fingerprint_of_updated(node)
        uris = [each.unusable(self._name, fingerprint) for each in (lake, known)]
        self.uri, self._uris = uris[0], list(dict.fromkeys(uris))
        self._writer: lakes.TableWriter | None = None

    @property
    def known(self) -> KnownUnusable:
        """The records that a fold need not look for. One aside evaluates again each that the node's tables remember."""
        if self._name not in self._lake.aside:
            return KnownUnusable(self.read, trusted=True)
        tables = replace(self._lake, nodes=None, aside=frozenset())
        return KnownUnusable(UnusableTable(self._spark, tables, self._node).read, trusted=False)

    def read(
        self, after_ms: Mapping[str, int] | None = None, upto_ms: Mapping[str, int] | None = None
    ) -> list[Unusable]:
        """The records that were found in some commits of the logs, each once, in the order of the log.

        In: after_ms, upto_ms  for each topic commit times, the first left out, the last included; None: no bound
        """
        found: dict[tuple[object, ...], Unusable] = {}
        for uri in self._uris:
            for each in self._read(uri, after_ms or {}, upto_ms):
                found.setdefault(place_of(each), each)
        return [found[place] for place in sorted(found)]

    def _read(
        self, uri: str, after_ms: Mapping[str, int], upto_ms: Mapping[str, int] | None
    ) -> list[Unusable]:
        if not lakes.exists(uri):
            return []
        files = [f"{uri}/{name}" for name in lakes.open_table(uri).snapshot().files]
        rows = (row for some in all_rows(files, COLUMNS) for row in some.to_pylist())
        found = [_unusable(**row) for row in rows]
        if upto_ms is not None:
            found = [
                each
                for each in found
                if after_ms.get(each.topic, 0) < each.ingested_ms <= upto_ms.get(each.topic, 0)
            ]
        return sorted(found, key=lambda each: each.reason or "")

    def hold(self, right: Sequence[Unusable]) -> int:
        """Make these the records that are remembered; how many others went. Nothing may write meanwhile."""
        known = {place_of(each) for each in self.read()}
        places = {place_of(each): each for each in right}
        self.add([each for place, each in places.items() if place not in known])
        wrong = [
            json.dumps([str(part) for part in place], ensure_ascii=False, separators=(",", ":"))
            for place in known - {*places}
        ]
        return self.forget(_text_of_place().isin(wrong) if wrong else None)

    def gain(self, others: UnusableTable) -> None:
        """Remember what another table has and this one has not."""
        known = {place_of(each) for each in self.read()}
        self.add([each for each in others.read() if place_of(each) not in known])

    def add(self, unusable: Sequence[Unusable]) -> None:
        """Remember records; does nothing for none."""
        if not unusable:
            return
        if self._writer is None:
            table = lakes.create(self.uri, COLUMNS, kinds.state(SKIPPING))
            self._writer = lakes.TableWriter(table, lakes.APPENDER)
        rows = [{**asdict(each), "ingested_at": moment(each.ingested_ms)} for each in unusable]
        file = write_output(self.uri, pa.Table.from_pylist(rows, COLUMNS))
        self._writer.append([file], {"writer": f"unusable/{self._name}"})

    def forget(self, which: Column | None) -> int:
        """Forget records, and all that was remembered under other descriptions; how many went. Nothing may write meanwhile.

        In: which  a condition on COLUMNS; None: no row meets it
        """
        folder, _, own = self.uri.rpartition("/")
        for other in set(small_files.names(folder)) - {own}:
            small_files.delete(f"{folder}/{other}")
            lakes.forget(f"{folder}/{other}")
        if which is None or not lakes.exists(self.uri):
            return 0
        maintainer = lakes.TableWriter(lakes.open_table(self.uri), lakes.MAINTAINER)
        return rewrite(self._spark, maintainer, which, {"writer": f"unusable/{self._name}"})


def _unusable(ingested_at: dt.datetime, **row: Any) -> Unusable:
    return Unusable(**row, ingested_ms=milliseconds(ingested_at))
