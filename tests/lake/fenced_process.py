"""A process that writes to a table, for tests that stop it or let two of them race. Each line it prints is one event.

`append TABLE POSITIONS`: takes the table over, reads how far it is, appends the next positions, one for each commit.
`race TABLE TRIES`: at each line that it reads, commits at the version that the line names, and tells whether it succeeded.
"""

from __future__ import annotations

import sys
from uuid import uuid4

import pyarrow as pa

from headrace.lake import APPENDER, DataFileWriter, Encoding, LakeTable, NewFile, TableWriter, open_table
from headrace.lake.history import last_commit
from headrace.lake.table import Change

SCHEMA = pa.schema([("position", pa.int64())])


def written(table: LakeTable, position: int) -> NewFile:
    """A file with one row."""
    writer = DataFileWriter(table.uri, SCHEMA, Encoding())
    columns = {"position": pa.array([position])}
    writer.write(columns, 1)
    writer.bound_numbers(columns)
    found = writer.close()
    assert found is not None
    return NewFile(found["path"], found["size"], found["stats"])


def append(table: LakeTable, positions: int) -> None:
    taken = TableWriter(table, APPENDER, carries=("appender",))
    last = last_commit(table, "appender")
    first = 0 if last is None else last.record["next"]
    print(f"epoch {taken.epoch}", flush=True)
    for position in range(first, positions):
        taken.append([written(table, position)], {"writer": "appender", "next": position + 1})
        print(f"appended {position}", flush=True)


def race(table: LakeTable) -> None:
    for line in sys.stdin:
        version, token = int(line), uuid4().hex
        try:
            table.put(version, {"writer": "race", "token": token}, Change())
        except Exception as error:
            print(f"lost {type(error).__name__}", flush=True)
        else:
            print(f"won {token}", flush=True)


if __name__ == "__main__":
    command, uri, *rest = sys.argv[1:]
    if command == "append":
        append(open_table(uri), int(rest[0]))
    else:
        race(open_table(uri))
