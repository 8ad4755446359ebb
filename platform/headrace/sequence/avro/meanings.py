"""Logical types of a writer and a reader that do not mean the same.

Avro resolves what is encoded, and leaves logical types to the reader: milliseconds would be read as microseconds, and
decimals with another scale, without an error. A logical type that only one of the two has is no clash.
"""

from __future__ import annotations

from headrace.description.formats.avro_types import AvroType


def other_meaning(wrote: AvroType, reader: AvroType, path: str = "") -> str | None:
    """Where a value would be read as what it does not mean, in words; None: nowhere."""
    if wrote is reader:
        return None
    if "union" in (wrote.kind, reader.kind):
        pairs = [(w, r, path) for w in wrote.branches for r in reader.branches if _alike(w, r)]
    elif wrote.kind == reader.kind == "record":
        fields = {field.name: field.type for field in wrote.fields}
        pairs = [
            (fields[name], field.type, f"{path}.{field.name}")
            for field in reader.fields
            for name in (field.name, *field.aliases)
            if name in fields
        ]
    elif wrote.kind == reader.kind and wrote.kind in ("array", "map"):
        pairs = [(wrote.inner[0], reader.inner[0], f"{path}[]")]
    else:
        return _clash(wrote, reader, path)
    return next((clash for pair in pairs if (clash := other_meaning(*pair))), None)


def _alike(one: AvroType, other: AvroType) -> bool:
    return one.kind == other.kind and one.name.rpartition(".")[2] == other.name.rpartition(".")[2]


def _clash(wrote: AvroType, reader: AvroType, path: str) -> str | None:
    if not wrote.logical or not reader.logical:
        return None
    if (wrote.logical, wrote.scale) == (reader.logical, reader.scale):
        return None
    return f"{path.lstrip('.') or 'it'} is {_named(wrote)}, and {_named(reader)} by the reader's schema"


def _named(of: AvroType) -> str:
    return str(of.logical) if of.precision is None else f"decimal({of.precision},{of.scale})"
