"""Logs for the laws of relations: the topics of a random world, as rows for each leaf and as changes for the oracle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from hypothesis import strategies as st

from headrace.fold.contract import FATE, ROW_COLUMNS, TOPIC, Times
from headrace.fold.relations import Relations
from headrace.fold.tables.decide_records import PASSES
from tests.laws.kernel.logs import World, worlds
from tests.oracle.tables_oracle import Change

KEYS = ("a", "b", "c", "a", "b", "ü", None)
VALUE = pa.struct([("ref", pa.string()), ("also", pa.string()), ("amount", pa.int32())])
VALUES = st.fixed_dictionaries(
    {
        "ref": st.sampled_from(["a", "b", "ü", "a", "nobody", None]),
        "also": st.sampled_from(["a", "c", "x", None]),
        "amount": st.sampled_from([None, -1, 0, 1, 2, 2_000_000_000]),
    }
)


def relation_worlds(*topics: str) -> st.SearchStrategy[World]:
    """Worlds of topics with a key and three values."""
    return worlds(VALUES, VALUE, topics, KEYS)


def flat(rows: pa.Table, names: tuple[str, ...]) -> pa.Table:
    """The key, and the fields of the value, under other names."""
    value = rows["value"].combine_chunks()
    columns = [rows["key"], *(pa.array([v and v[f.name] for v in value.to_pylist()], f.type) for f in VALUE)]
    found = dict(zip(names, columns, strict=True))
    return pa.table(found | {name: rows[name] for name in ROW_COLUMNS.names})


def schema_of(names: tuple[str, ...]) -> pa.Schema:
    """Of `flat`."""
    return pa.schema([*zip(names, [pa.string(), *(f.type for f in VALUE)], strict=True), *ROW_COLUMNS])


@dataclass
class RelationWorld:
    """A world whose rows are those that the first step of a relation takes.

    reads       for each leaf the topics that it reads, and the names of its columns
    conditions  whether rows are in their tables only if their last column is above 0
    """

    world: World
    operator: Relations
    reads: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
    conditions: bool = False

    @property
    def topics(self) -> list[str]:
        return self.world.topics

    def commits(self, topic: str | None = None) -> list[int]:
        return self.world.commits(topic)

    def increment(self, after: dict[str, int], upto: dict[str, int]) -> tuple[pa.Table, Times]:
        rows, times = self.world.increment(after, upto)
        found = {}
        for part, (topics, names) in self.reads.items():
            mine = rows.filter(pa.array([topic in topics for topic in rows[TOPIC].to_pylist()], pa.bool_()))
            found[part] = flat(mine, names)
            if self.conditions:
                amounts = found[part][names[-1]].to_pylist()
                passes = pa.array([None if amount is None else amount > 0 for amount in amounts], pa.bool_())
                found[part] = found[part].append_column(PASSES, passes)
        return self.operator.packed(found), times


def as_log(world: World, names: Mapping[str, tuple[str, ...]]) -> dict[str, list[Change]]:
    """The records of each topic for the oracle, with the names of their values."""
    found: dict[str, list[Change]] = {topic: [] for topic in names}
    everything = dict.fromkeys(world.topics, 1 << 62)
    for row in world.increment({}, everything)[0].to_pylist():
        if row[FATE] not in (None, "tombstone") or row["__offset"] is None:
            continue
        topic = row[TOPIC]
        value = row["value"] if row[FATE] is None else None
        named = None if value is None else dict(zip(names[topic][1:], value.values(), strict=True))
        at = (row["__ingested_ms"], topic, row["__partition"], row["__offset"])
        found[topic].append(Change(at, row["__event_ms"], row["key"], named))
    return found
