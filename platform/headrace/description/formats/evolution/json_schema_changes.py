"""Which property differs between two JSON Schemas.

Source: JSON Schema, draft 7; Confluent, "JSON Schema compatibility rules".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]
_BESIDE_TYPES = {"$ref", "allOf", "anyOf", "const", "enum", "not", "oneOf"}  # what says values, too


def changed_property(before: str, now: str) -> str | None:
    """The change of a property that most likely makes two schemas incompatible; None: there is none.

    References are not followed.
    Raises: ValueError for a text that is no JSON
    """
    old, new = json.loads(before), json.loads(now)
    return next(_narrower(old, new, ""), None) or next(_others(old, new, ""), None)


def _narrower(old: Any, new: Any, path: str) -> Iterator[str]:
    """Changes by which the new schema refuses values that the former one takes."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return
    where = f"property '{path}'" if path else "the schema"
    was, is_now = _types(old), _types(new)
    if is_now and not was:
        if not _BESIDE_TYPES & old.keys():
            yield f"{where} is {' or '.join(is_now)}, and was anything"
    elif is_now and not {*was} <= {*is_now, *(["integer"] if "number" in is_now else [])}:
        yield f"{where} is {' or '.join(is_now)}, and was {' or '.join(was)}"
    could_be, can_be = _listed(old, "enum"), _listed(new, "enum")
    gone = [each for each in could_be if can_be and each not in can_be]
    if gone:
        yield f"{where} cannot be {json.dumps(gone[0])} any more"
    for name in _listed(new, "required"):
        if name not in _listed(old, "required"):
            yield f"property '{_below(path, name)}' is required, and was not"
    if new.get("additionalProperties") is False and old.get("additionalProperties") is not False:
        yield f"{where} takes no further properties, and took them"
    yield from _within(_narrower, old, new, path)


def _others(old: Any, new: Any, path: str) -> Iterator[str]:
    """All other changes."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return
    before, now = _properties(old), _properties(new)
    for name in before:
        if name not in now:
            yield f"property '{_below(path, name)}' is not in it"
    for name in now:
        if name not in before:
            yield f"property '{_below(path, name)}' is new"
    yield from _within(_others, old, new, path)


def _within(
    changes: Callable[[Any, Any, str], Iterator[str]], old: Schema, new: Schema, path: str
) -> Iterator[str]:
    """The changes of properties, and of the items of an array, that both have."""
    before, now = _properties(old), _properties(new)
    for name in before:
        if name in now:
            yield from changes(before[name], now[name], _below(path, name))
    yield from changes(old.get("items"), new.get("items"), f"{path}[]")


def _listed(schema: Schema, name: str) -> list[Any]:
    """The values of a keyword that takes a list; none where it has another form, as `required` had in draft 3."""
    found = schema.get(name)
    return found if isinstance(found, list) else []


def _properties(schema: Schema) -> Schema:
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def _types(schema: Schema) -> list[str]:
    kinds = schema.get("type") or []
    return [str(each) for each in (kinds if isinstance(kinds, list) else [kinds])]


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
