"""Random records of Kafka for the sequencer: several partitions, source chains, dead letters, gaps between offsets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa

import headrace as hr

NOW_MS = 1_714_564_800_000
PARTITIONS, GAPS_MAX = 3, 4
PAIRS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
GUARDS = {
    "none": None,
    "monotone": hr.ReplayGuard(),
    "ordered": hr.ReplayGuard(ordinals="order"),
    "exact": hr.ReplayGuard(mode="exact", max_gaps=GAPS_MAX),
}


@dataclass(frozen=True)
class Record:
    partition: int
    offset: int
    value: bytes | None
    ts: int
    chain: list[Any] | None
    dead: bool

    @property
    def headers(self) -> list[tuple[str, bytes]] | None:
        if self.chain is None:
            return None if self.offset % 2 else [("trace", b"\xff")]
        text = json.dumps(self.chain, separators=(",", ":") if self.offset % 3 else (", ", ": "))
        return [("source-chain", b"nonsense"), ("x", b""), ("source-chain", text.encode())][
            self.offset % 2 * 2 :
        ]


def some_records(random: Random) -> list[Record]:
    """Records of several partitions, in the order in which they are delivered."""
    offsets, records = {p: random.choice([0, 7]) for p in range(PARTITIONS)}, []
    for _ in range(random.randrange(4, 60)):
        partition = random.randrange(PARTITIONS)
        chain = [
            [random.choice("ab"), random.randrange(2), random.randrange(6), random.randrange(3)][
                : random.choice([3, 4])
            ]
            for _ in range(random.randrange(1, 4))
        ]
        value: bytes | None = random.choice([b'{"n": 1}', b'{"n": 1}', b'{"n":1}'])
        ts, dead = NOW_MS + random.randrange(60), False
        if random.random() < 0.15:
            value, ts, dead = random.choice(
                [
                    (b"{", ts, True),
                    (b'{"n": NaN}', ts, True),
                    (b"\xff", ts, True),
                    (value, -1, True),
                    (value, 2**63 - 1, True),
                ]
            )
        elif random.random() < 0.1:
            value = None
        records.append(
            Record(partition, offsets[partition], value, ts, random.choice([None, chain, chain]), dead)
        )
        offsets[partition] += random.choice([1, 1, 1, 2])
    return records


def cut(random: Random, records: Sequence[Record]) -> list[Sequence[Record]]:
    places = sorted(random.choices(range(len(records) + 1), k=random.randrange(4)))
    return [records[begin:end] for begin, end in zip([0, *places], [*places, len(records)], strict=True)]


def table_of(records: Sequence[Record], *, apart: bool = False) -> pa.Table:
    headers = pa.array([record.headers for record in records], PAIRS)
    columns = {
        "partition": pa.array([record.partition for record in records], pa.int32()),
        "offset": pa.array([record.offset for record in records], pa.int64()),
        "key": pa.array([b"k" for _ in records], pa.binary()),
        "value": pa.array([record.value for record in records], pa.binary()),
        "timestamp": pa.array([record.ts for record in records], pa.int64()),
    }
    if not apart:
        return pa.table(columns | {"headers": headers})
    both = [[list(part) for part in zip(*(record.headers or [("", b"")]), strict=True)] for record in records]
    both = [[[], []] if record.headers is None else pair for pair, record in zip(both, records, strict=True)]
    names, values = ([pair[part] for pair in both] for part in (0, 1))
    apart_ = {
        "header_names": pa.array(names, pa.list_(pa.string())),
        "header_values": pa.array(values, pa.list_(pa.binary())),
    }
    return pa.table(columns | apart_)
