"""The tables of a lake that this process has opened, one object for each; and how a table is made."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from headrace.errors import TerminalError
from headrace.lake.commits.commit_file import CommitFile, no_hooks, properties, put_commit
from headrace.lake.commits.features import require_writable
from headrace.lake.commits.metadata import creation_actions
from headrace.lake.commits.writer import TableWriter
from headrace.lake.kinds import PINNED
from headrace.lake.table import LakeTable

if TYPE_CHECKING:
    from deltalake import DeltaTable

_OPEN: dict[str, LakeTable] = {}
_LOCK = threading.Lock()


def open_table(uri: str) -> LakeTable:
    """The table at a URI, whether it is there yet or not; the same object each time in this process."""
    with _LOCK:
        if uri not in _OPEN:
            _OPEN[uri] = LakeTable(uri)
        return _OPEN[uri]


def exists(uri: str) -> bool:
    """True if a Delta table stands at this URI."""
    return open_table(uri).exists


def forget(below: str = "") -> None:
    """Forget what was read of the tables below a URI; they are read anew when asked for."""
    with _LOCK:
        for uri in [uri for uri in _OPEN if uri.startswith(below)]:
            del _OPEN[uri]


def _delta_field(uri: str, field: pa.Field) -> str:
    """A column as Delta's JSON. Raises: TerminalError for a type that Delta lacks, such as an INTERVAL."""
    from deltalake import Field

    try:
        return str(Field.from_arrow(field).to_json())
    except Exception as error:  # deltalake raises a bare Exception
        raise TerminalError(
            f"Table '{uri}': column '{field.name}' is {field.type}, and a Delta table has no such type.",
            detail=str(error).partition("\n")[0],
            hint="Of the time between two moments make a number: timestampdiff(SECOND, earlier, later).",
        ) from None


def create(
    uri: str,
    schema: pa.Schema,
    settings: Mapping[str, str] | None = None,
    *,
    grows: str | None = None,
    adds: Collection[str] = (),
) -> LakeTable:
    """Open a table, and make it if there is none; an existing table must have these columns and types.

    In:     settings  Delta's properties of a new table, see `headrace.lake.kinds`
            grows     a struct column to which the description may have added fields; older rows have nulls there
            adds      columns that the description may have added, in the same way, or have no more
    Raises: TerminalError when columns, types or pinned properties differ
    """
    table = open_table(uri)
    wanted = [json.loads(_delta_field(uri, field)) for field in schema]
    if not table.exists:
        _make(uri, wanted, {**PINNED, **(settings or {})})
    metadata = table.metadata
    require_writable(uri, metadata)
    found = metadata.columns
    if grows is not None and _lacks(found, wanted, grows):
        _add_fields(table, schema, grows)
        found = table.metadata.columns
    for name in adds:
        if name in schema.names and name not in _by_name(found):
            _add_fields(table, schema, name)
            found = table.metadata.columns
    kept = [field for field in found if field["name"] not in adds or field["name"] in schema.names]
    _require_same(uri, kept, wanted)
    return table


def column_types(
    table: LakeTable, schema: pa.Schema, among: Collection[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The types of some columns, as a table has them and as a schema does: Delta's names; of structs one for each field."""
    from deltalake import Schema

    wanted = json.loads(Schema.from_arrow(schema).to_json())["fields"]
    has, needs = (_by_name(side) for side in (table.metadata.columns, wanted))
    return tuple({name: of for name, of in side.items() if name in among} for side in (has, needs))  # type: ignore[return-value]


def _make(uri: str, columns: Sequence[Mapping[str, Any]], configuration: Mapping[str, str]) -> None:
    """Make the table, unless another thread or process makes it at the same moment. In: columns  in Delta's JSON."""
    actions = creation_actions(str(uuid4()), columns, configuration, time.time_ns() // 1_000_000)
    put_commit(CommitFile(uri, 0, actions))


def _by_name(fields: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The types of fields by name; order, nullability and remarks left out."""
    return {field["name"]: _plain(field["type"]) for field in fields}


def _plain(data_type: Any) -> Any:
    if isinstance(data_type, str):
        return data_type
    match data_type["type"]:
        case "struct":
            return _by_name(data_type["fields"])
        case "array":
            return [_plain(data_type["elementType"])]
        case _:
            return {"key": _plain(data_type["keyType"]), "value": _plain(data_type["valueType"])}


def _lacks(stored: Iterable[Mapping[str, Any]], wanted: list[dict[str, Any]], column: str) -> bool:
    has, needs = _by_name(stored).get(column), _by_name(wanted)[column]
    return (
        isinstance(has, dict)
        and bool(needs.keys() - has.keys())
        and all(needs.get(n) == t for n, t in has.items())
    )


def _add_fields(table: LakeTable, schema: pa.Schema, column: str) -> None:
    from deltalake import Schema

    fields = Schema.from_arrow(pa.schema([schema.field(column)])).fields

    def grow(record: Mapping[str, Any], handle: DeltaTable) -> None:
        handle.alter.add_columns(
            fields, commit_properties=properties(record), post_commithook_properties=no_hooks()
        )

    # A role of its own: the writers of the table go on.
    TableWriter(table, "describer").commit_by(grow, {"writer": "describer"})


def _require_same(uri: str, stored: Iterable[Mapping[str, Any]], wanted: Iterable[Mapping[str, Any]]) -> None:
    changed = _changed(_by_name(stored), _by_name(wanted))
    if not changed:
        return
    raise TerminalError(
        f"The table at {uri} has other columns than the description.",
        detail=f"stored -> described: {'; '.join(changed)}",
        hint="Run `headrace apply`, which builds tables of the changed description, or restore the old one.",
    )


def _changed(has: Mapping[str, Any], needs: Mapping[str, Any]) -> list[str]:
    """The columns that differ, each as `name: stored -> described`."""
    names = sorted(name for name in has.keys() | needs.keys() if has.get(name) != needs.get(name))
    return [f"{name}: {_shown(has.get(name))} -> {_shown(needs.get(name))}" for name in names]


def _shown(data_type: Any) -> str:
    return "absent" if data_type is None else json.dumps(data_type).replace('"', "")
