"""The tables of a lake that this process has opened, one object for each; and how a table is made."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.errors import TerminalError
from headrace.lake.commits.commit_file import no_hooks, properties
from headrace.lake.commits.features import require_writable
from headrace.lake.commits.writer import TableWriter
from headrace.lake.kinds import PINNED
from headrace.lake.storage import delta_uri, storage_options
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
        table.begin(_make(uri, schema, {**PINNED, **(settings or {})}))
    found = table.with_handle(partial(_writable_fields, uri))
    if grows is not None and _lacks(found, wanted, grows):
        _add_fields(table, schema, grows)
        found = _fields(table)
    for name in adds:
        if name in schema.names and name not in _by_name(found):
            _add_fields(table, schema, name)
            found = _fields(table)
    kept = [field for field in found if field["name"] not in adds or field["name"] in schema.names]
    _require_same(uri, kept, wanted)
    return table


def column_types(
    table: LakeTable, schema: pa.Schema, among: Collection[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The types of some columns, as a table has them and as a schema does: Delta's names; of structs one for each field."""
    from deltalake import Schema

    wanted = json.loads(Schema.from_arrow(schema).to_json())["fields"]
    has, needs = (_by_name(side) for side in (_fields(table), wanted))
    return tuple({name: of for name, of in side.items() if name in among} for side in (has, needs))  # type: ignore[return-value]


def _make(uri: str, schema: pa.Schema, configuration: Mapping[str, str]) -> DeltaTable:
    """Make the table, unless another thread or process makes it at the same moment. Out: the handle of what stands there."""
    from deltalake import CommitProperties, DeltaTable
    from deltalake.exceptions import CommitFailedError

    try:
        return DeltaTable.create(
            delta_uri(uri),
            schema=schema,
            mode="ignore",
            configuration=configuration,
            raise_if_key_not_exists=False,  # one of them is ours
            storage_options=storage_options(uri),
            commit_properties=CommitProperties(max_commit_retries=0),  # a retry would be a second creation
            post_commithook_properties=no_hooks(),
        )
    except CommitFailedError:
        if not DeltaTable.is_deltatable(delta_uri(uri), storage_options(uri)):
            raise
        return DeltaTable(delta_uri(uri), storage_options=storage_options(uri))


def _fields(table: LakeTable) -> list[dict[str, Any]]:
    return table.with_handle(_fields_of)


def _fields_of(handle: DeltaTable) -> list[dict[str, Any]]:
    return list(json.loads(handle.schema().to_json())["fields"])


def _writable_fields(uri: str, handle: DeltaTable) -> list[dict[str, Any]]:
    """The fields of a table that can be written. Raises: TerminalError when it cannot."""
    require_writable(uri, handle)
    return _fields_of(handle)


def _by_name(fields: list[dict[str, Any]]) -> dict[str, Any]:
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


def _lacks(stored: list[dict[str, Any]], wanted: list[dict[str, Any]], column: str) -> bool:
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


def _require_same(uri: str, stored: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
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
