"""Records with what they found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.fold.contract import CAUSE, CLOCK, EVENT, INGESTED, OFFSET, PARTITION, STREAM, TOPIC
from headrace.fold.lookups.sides import ABSENT
from headrace.fold.values.columns import int64, moments

TIMESTAMP, SEQUENCE, INGESTED_AT = "__timestamp", "__sequence", "__ingested_at"
NOTHING = -1


@dataclass(frozen=True)
class Answers:
    """How results are made: the columns of a record, the key that it refers to, the columns of what it finds."""

    record: tuple[str, ...]
    keys: tuple[str, ...]
    values: tuple[str, ...]
    inner: bool

    def of(self, records: pa.Table, versions: pa.Table, version: np.ndarray, final: str) -> pa.Table:
        """The result rows.

        In:  version  for each record the number of a version, or NOTHING
             final  the column of records with the commit time at which a row is final
        Out: the node's columns, TOPIC, PARTITION, OFFSET, `__ingested_at`, TIMESTAMP (event time), CLOCK (of the record),
             SEQUENCE (`final`), and CAUSE if records have it; where `inner`, only of records that find a row
        """
        there = version != NOTHING
        there[there] = ~versions[ABSENT].to_numpy()[version[there]]
        for name in self.keys:
            there &= records[name].is_valid().to_numpy()
        if self.inner:
            records, version, there = records.filter(pa.array(there)), version[there], there[there]
        which = pa.array(version, mask=~there)
        values = versions.select(list(self.values)).take(which)
        columns = {name: records[name] for name in self.record}
        columns |= {name: values[name] for name in self.values}
        own = [name for name in (TOPIC, PARTITION, OFFSET, CAUSE) if name in records.column_names]
        columns |= {name: records[name] for name in own}
        columns[INGESTED_AT] = moments(int64(records[INGESTED]))
        columns |= {TIMESTAMP: records[EVENT], CLOCK: records[STREAM], SEQUENCE: records[final]}
        return pa.table(columns)
