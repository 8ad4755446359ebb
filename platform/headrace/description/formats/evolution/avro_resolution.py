"""Whether records of one Avro schema can be read with another, and if not, which field is to blame.

Source: Apache Avro 1.12, Specification, "Schema Resolution".
"""

from __future__ import annotations

from headrace.description.formats.avro_types import AvroField, AvroType

_PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


def unresolvable(wrote: AvroType, reader: AvroType, path: str = "") -> str | None:
    """Why some records that were written with a schema cannot be read with another; None: all can.

    In: path  of fields that leads to the types
    """
    where = f"field '{path}'" if path else "the schema"
    if wrote.kind == "union":
        problems = (unresolvable(branch, reader, path) for branch in wrote.inner)
        return next((problem for problem in problems if problem is not None), None)
    if reader.kind == "union":
        if any(unresolvable(wrote, branch, path) is None for branch in reader.inner):
            return None
        alike = next((branch for branch in reader.inner if branch.kind == wrote.kind), None)
        if alike is not None and wrote.kind == "record":
            return unresolvable(wrote, alike, path)
        return f"{where} is written as {wrote.kind}, and read as {' or '.join(each.kind for each in reader.inner)}"
    if wrote.kind != reader.kind:
        if reader.kind in _PROMOTIONS.get(wrote.kind, ()):
            return None
        return f"{where} is written as {wrote.kind}, and read as {reader.kind}"
    if wrote.name and _short(wrote.name) not in (_short(reader.name), *map(_short, reader.aliases)):
        return f"{where} is written as {wrote.kind} {wrote.name}, and read as {reader.name}"
    return _within(wrote, reader, path, where)


def _within(wrote: AvroType, reader: AvroType, path: str, where: str) -> str | None:
    """The same of two types of one kind, by what they are made of."""
    match reader.kind:
        case "record":
            fields = {field.name: field for field in wrote.fields}
            problems = (
                _of_field(fields, field, f"{path}.{field.name}".lstrip(".")) for field in reader.fields
            )
            return next((problem for problem in problems if problem is not None), None)
        case "array" | "map":
            return unresolvable(wrote.inner[0], reader.inner[0], path)
        case "enum":
            unknown = [symbol for symbol in wrote.symbols if symbol not in reader.symbols]
            if unknown and reader.default is None:
                return f"{where} may be written as {unknown[0]}, which its reader's enum does not have"
        case "fixed" if wrote.size != reader.size:
            return f"{where} is written with {wrote.size} bytes, and read with {reader.size}"
    return None


def _of_field(wrote: dict[str, AvroField], field: AvroField, path: str) -> str | None:
    found = next((wrote[name] for name in (field.name, *field.aliases) if name in wrote), None)
    if found is not None:
        return unresolvable(found.type, field.type, path)
    return None if field.default is not None else f"field '{path}' is not written, and has no default"


def _short(name: str) -> str:
    return name.rpartition(".")[2]
