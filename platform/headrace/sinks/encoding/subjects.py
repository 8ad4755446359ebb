"""Schemas of sinks in a registry: registered or looked up, once for each process."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from headrace.description.formats.evolution.protobuf_changes import is_descriptor
from headrace.description.formats.registry import Registry, RegistryAwayError, SchemaRefusedError
from headrace.errors import TerminalError

QUOTED = 40  # letters of a schema by which an error is known to speak of it


@dataclass(frozen=True)
class SubjectSchema:
    """A schema as its subject has it. In: is_former  in the other form, not as the text."""

    id: int
    is_former: bool = False


@dataclass(frozen=True)
class SchemaText:
    """A schema as it is registered.

    references  the names of the files that it imports; a subject has each, and its newest schema is meant
    former      the same in another form, which may be there in place of the text
    """

    kind: str
    text: str
    references: tuple[str, ...] = ()
    former: str | None = None


@lru_cache(maxsize=256)
def subject_schema(url: str, subject: str, schema: SchemaText, *, register: bool) -> SubjectSchema:
    """A schema in a subject, with its id.

    In:     register  False: it must be there already
    Raises: TerminalError when it is not there, or the registry refuses it: the error says which field is incompatible;
            RegistryAwayError
    """
    registry, kind, text, former = Registry(url), schema.kind, schema.text, schema.former
    used = [(name, name, registry.newest_version(name)) for name in schema.references]
    if register:
        try:
            return SubjectSchema(registry.register(subject, kind, text, used))
        except RegistryAwayError as error:
            # Or it cannot compare the text with the other form, which is there. The first error says more.
            with suppress(RegistryAwayError):
                known = registry.find(subject, kind, former, used) if former is not None else None
                if known is not None:
                    return SubjectSchema(known, is_former=True)
            _refuse_incomparable(registry, subject, kind, text, error)
            raise
    for form, is_former in ((text, False), (former, True)):
        if form is not None and (found := registry.find(subject, kind, form, used)) is not None:
            return SubjectSchema(found, is_former)
    raise TerminalError(
        f"Schema registry {url}: subject '{subject}' does not have the schema with which rows are written.",
        hint="Register it, or give the sink register=True.",
    )


def _refuse_incomparable(
    registry: Registry, subject: str, kind: str, text: str, error: RegistryAwayError
) -> None:
    """Raise SchemaRefusedError if the registry could not read a descriptor as text: then no retry can help.

    Such registries (Apicurio 2.6) keep a descriptor that is the first version, and answer all later versions with an error
    that quotes the descriptor.
    """
    newest = None
    if kind == "PROTOBUF":
        with suppress(RegistryAwayError):  # the first error says more
            newest = registry.of_subject(subject)
    if newest is None:
        return
    said = error.detail or ""
    if is_descriptor(text) and text[:QUOTED] in said:
        why = "it has editions, groups, extensions or options of its own, so it is no .proto text but a descriptor"
    elif is_descriptor(newest.text) and newest.text[:QUOTED] in said:
        why = "the newest version of the subject is no .proto text but a descriptor"
    else:
        return
    raise SchemaRefusedError(
        f"Schema registry {registry.url}: subject '{subject}' refuses the schema: "
        f"{why}, which this registry cannot compare.",
        detail=said,
        hint="Set the subject's compatibility to NONE, register the schema once, and set it back; or give another subject=.",
    ) from error
