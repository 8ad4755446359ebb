"""A process that writes to a table, for tests that stop it or let two of them race. Each line it prints is one event.

`append TABLE`: at each line that it reads, takes the table over, reads how far it is, and appends the next positions, one for
each commit, until it is overtaken. `race TABLE`: at each line, commits at the version that the line names, and tells whether
it succeeded.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from itertools import count
from uuid import uuid4

import pyarrow as pa

from headrace.lake import (
    APPENDER,
    DataFileWriter,
    Encoding,
    FencedError,
    LakeTable,
    NewFile,
    TableWriter,
    open_table,
)
from headrace.lake.commits.commit_file import Change
from headrace.lake.commits.history import last_commit

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


def append(table: LakeTable) -> None:
    for _ in sys.stdin:
        with suppress(FencedError):
            taken = TableWriter(table, APPENDER, carries=("appender",))
            last = last_commit(table, "appender")
            print(f"epoch {taken.epoch}", flush=True)
            for position in count(0 if last is None else last.record["next"]):
                taken.append([written(table, position)], {"writer": "appender", "next": position + 1})
                print(f"appended {position}", flush=True)
        print("fenced", flush=True)


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
    command, uri = sys.argv[1:]
    {"append": append, "race": race}[command](open_table(uri))
