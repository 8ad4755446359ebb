"""Which field differs between two Protobuf schemas, as registries keep them: as text, or as a descriptor in base 64.

Source: Protocol Buffers, Language Specification (proto 2 and 3); Confluent, "Protobuf schema compatibility rules".
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any

# A field as its name and its type; of the names of types the last part.
Fields = dict[int, tuple[str, str]]
Messages = dict[str, Fields]
_TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[\w.]+|\S""", re.DOTALL)
_COMMENTS = ("//", "/*")
_BLOCKS = ("enum", "service", "extend")
_STATEMENTS = ("syntax", "edition", "package", "import", "option", "reserved", "extensions")
_LABELS = ("optional", "required")
CHANGED, GONE, RENAMED, NEW = range(4)  # changes, those first that are the likeliest to be refused


def changed_field(before: str, now: str) -> str | None:
    """The change of a field that most likely makes two schemas incompatible; None: there is none.

    Raises: ValueError for a text that is no schema
    """
    old, new = messages_of(before), messages_of(now)
    found = [*_changes(old, new), *_additions(old, new)]
    return min(found, key=itemgetter(0), default=(None, None))[1]


def messages_of(text: str) -> Messages:
    """The fields of each message by their numbers; nested messages are named with those around them.

    Raises: ValueError
    """
    found: Messages = {}
    content = _described_bytes(text)
    if content is None:
        tokens = (token for token in _TOKEN.findall(text) if not token.startswith(_COMMENTS))
        _read_body(tokens, "", found)
        return found
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        _describe(descriptor_pb2.FileDescriptorProto.FromString(content).message_type, "", found)
    except DecodeError as error:
        raise ValueError(str(error)) from None
    return found


def is_descriptor(text: str) -> bool:
    """Whether a schema is a descriptor in base 64, and not the text of a .proto file."""
    return _described_bytes(text) is not None


def _described_bytes(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:  # also for letters that base 64 does not have, as each .proto text holds some
        return None


def _changes(old: Messages, new: Messages) -> Iterator[tuple[int, str]]:
    for message, fields in old.items():
        if message not in new:
            yield GONE, f"message '{message}' is not in it"
            continue
        numbers = {name: number for number, (name, _) in new[message].items()}
        for number, (name, of) in fields.items():
            what = f"field '{message}.{name}'"
            if number not in new[message] and name in numbers:
                yield CHANGED, f"{what} has number {numbers[name]}, and had {number}"
                continue
            if number not in new[message]:
                yield GONE, f"{what} with number {number} is not in it"
                continue
            name_now, of_now = new[message][number]
            if of_now != of:
                yield CHANGED, f"{what} is {of_now}, and was {of}"
            elif name_now != name:
                yield RENAMED, f"{what} is named '{name_now}' now"


def _additions(old: Messages, new: Messages) -> Iterator[tuple[int, str]]:
    for message, fields in new.items():
        for number, (name, _) in fields.items():
            if number not in old.get(message, {}):
                yield NEW, f"field '{message}.{name}' is new"


def _describe(messages: Any, above: str, by_name: Messages) -> None:
    """Take in descriptors of messages."""
    for message in messages:
        name = f"{above}{message.name}"
        entries = {each.name: each.field for each in message.nested_type if each.options.map_entry}
        by_name[name] = {field.number: (field.name, _described(field, entries)) for field in message.field}
        _describe([each for each in message.nested_type if each.name not in entries], f"{name}.", by_name)


def _described(field: Any, entries: Mapping[str, Any]) -> str:
    of = _last(field.type_name) or field.Type.Name(field.type).removeprefix("TYPE_").lower()
    if of in entries:
        return f"map<{','.join(_described(each, {}) for each in entries[of])}>"
    return f"repeated {of}" if field.label == field.LABEL_REPEATED else of


def _read_body(tokens: Iterator[str], above: str, messages: Messages) -> None:
    """Take in the text of a file, or of a message up to its closing brace. In: above  its name and a dot."""
    for token in tokens:
        if token == "}":
            return
        if token == "message":
            name = f"{above}{next(tokens, '')}"
            messages[name] = {}
            _open(tokens)
            _read_body(tokens, f"{name}.", messages)
        elif token == "oneof":
            _open(tokens)
            _read_body(tokens, above, messages)
        elif token in _BLOCKS:
            _open(tokens)
            _skip(tokens, "}")
        elif token in _STATEMENTS:
            _skip(tokens, ";")
        elif token != ";":
            _read_field([token, *_until(tokens, ";")], messages.get(above.rstrip(".")))
    if above:
        raise ValueError(f"the text ends within message '{above.rstrip('.')}'")


def _read_field(tokens: list[str], fields: Fields | None) -> None:
    at = tokens.index("=") if "=" in tokens else 0
    if fields is None or at < 2 or at + 1 >= len(tokens):
        raise ValueError(f"no field: {' '.join(tokens)[:80]}")
    words = [_last(each) for each in tokens[: at - 1] if each not in _LABELS]
    if not words:
        raise ValueError(f"no type: {' '.join(tokens)[:80]}")
    of = "".join(words) if words[0] == "map" else " ".join(words)
    fields[int(tokens[at + 1], 0)] = tokens[at - 1], of


def _open(tokens: Iterator[str]) -> None:
    for _ in _until(tokens, "{"):
        pass


def _skip(tokens: Iterator[str], end: str) -> None:
    """Pass over tokens up to one that stands in no inner braces."""
    depth = 0
    for token in tokens:
        if token == end and depth == 0:
            return
        depth += (token == "{") - (token == "}")


def _until(tokens: Iterator[str], end: str) -> Iterator[str]:
    for token in tokens:
        if token == end:
            return
        yield token
    raise ValueError(f"the text ends where {end!r} is due")


def _last(name: str) -> str:
    return name.rpartition(".")[2]
