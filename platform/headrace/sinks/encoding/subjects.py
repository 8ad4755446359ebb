"""Schemas of sinks in a registry: registered or looked up, once for each process."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from headrace.description.formats.registry import Registry, RegistryAwayError
from headrace.errors import TerminalError


@dataclass(frozen=True)
class Reference:
    """A schema that another one uses. In: version  None: the newest of its subject."""

    name: str
    subject: str
    version: int | None = None


@lru_cache(maxsize=256)
def schema_id(
    url: str,
    subject: str,
    kind: str,
    text: str,
    references: tuple[Reference, ...],
    *,
    former: str | None = None,
    register: bool,
) -> int:
    """The id of a schema in a subject.

    In:     former    the same schema in another form, which may be there in place of the text
            register  False: it must be there already
    Raises: TerminalError when it is not there, or the registry refuses it: the error says which field is incompatible;
            RegistryAwayError
    """
    registry = Registry(url)
    used = [
        (
            each.name,
            each.subject,
            registry.newest_version(each.subject) if each.version is None else each.version,
        )
        for each in references
    ]
    if register:
        try:
            return registry.register(subject, kind, text, used)
        except RegistryAwayError:  # or it cannot compare the text with the other form, which is there
            known = None
            if former is not None:
                with suppress(RegistryAwayError):  # the first error says more
                    known = registry.find(subject, kind, former, used)
            if known is None:
                raise
            return known
    found = registry.find(subject, kind, text, used)
    if found is None and former is not None:
        found = registry.find(subject, kind, former, used)
    if found is None:
        raise TerminalError(
            f"Schema registry {url}: subject '{subject}' does not have the schema with which rows are written.",
            hint="Register it, or give the sink register=True.",
        )
    return found
