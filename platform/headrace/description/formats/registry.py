"""A schema registry with Confluent's interface: what it says, and what it means that it says nothing.

Law: an id means one schema for ever. Only the registry's own answer that it does not have an id counts as such; a registry
that is away, slow, refuses the credentials or answers with something else raises RegistryAwayError, which may pass.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from headrace.errors import DescriptionError, TransientError

if TYPE_CHECKING:
    from headrace.description.formats.registry_settings import RegistrySettings

NOT_FOUND = (40401, 40402, 40403)  # subject, version, schema
REFERENCES_MAX = 100


class RegistryAwayError(TransientError):
    """The registry did not answer as a registry does; it may later."""


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema as a registry has it: its kind, its text, and the texts of those that it uses, in the order of use."""

    kind: str
    text: str
    references: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As a JSON document."""
        return {"kind": self.kind, "text": self.text, "references": [*self.references]}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RegisteredSchema:
        """The schema from what `to_json` gave."""
        return cls(document["kind"], document["text"], tuple(document["references"]))


class Registry:
    """One registry; asked when a schema is needed, and nothing is kept here."""

    def __init__(self, url: str, settings: RegistrySettings | None = None) -> None:
        """In: settings  None: those of the environment, read when the registry is asked first."""
        self.url, self._settings = url, settings

    def schema(self, schema_id: int) -> RegisteredSchema | None:
        """The schema of an id; None: the registry does not have it.

        Raises: RegistryAwayError
        """
        return self._asked(f"schema {schema_id}", lambda client: client.get_schema(schema_id))

    def of_subject(self, subject: str, version: int | None = None) -> RegisteredSchema | None:
        """The newest schema of a subject, or a version of it; None: the registry does not have it.

        Raises: RegistryAwayError
        """
        what = f"the schema of subject '{subject}'"
        if version is None:
            return self._asked(what, lambda client: client.get_latest_version(subject).schema)
        return self._asked(what, lambda client: client.get_version(subject, version).schema)

    def _asked(self, what: str, ask: Any) -> RegisteredSchema | None:
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            found = ask(self._client)
            references = self._references(found.references or ())
            return _checked(found.schema_type or "AVRO", found.schema_str, tuple(references))
        except SchemaRegistryError as error:
            if error.error_code in NOT_FOUND:
                return None
            raise self._away(what, str(error), error.http_status_code) from error
        except Exception as error:  # of HTTP, TLS, JSON: whatever answers there is no registry now
            raise self._away(what, f"{type(error).__name__}: {error}", None) from error

    def _references(self, references: Iterable[Any], depth: int = 0) -> list[str]:
        """The texts of schemas that a schema uses, each after those that it uses itself."""
        texts: list[str] = []
        for reference in references:
            if depth > REFERENCES_MAX:
                raise ValueError(f"references lead over more than {REFERENCES_MAX} schemas")
            used = self._client.get_version(reference.subject, reference.version).schema
            texts += [*self._references(used.references or (), depth + 1), used.schema_str]
        return list(dict.fromkeys(texts))

    @cached_property
    def _client(self) -> Any:
        from confluent_kafka.schema_registry import SchemaRegistryClient

        from headrace.description.formats.registry_settings import RegistrySettings

        return SchemaRegistryClient((self._settings or RegistrySettings()).client_options(self.url))

    def _away(self, what: str, detail: str, status: int | None) -> RegistryAwayError:
        hint = "It is asked again by itself; records whose schemas are known already are read meanwhile."
        if status in (401, 403):
            hint = "Correct HEADRACE_REGISTRY_USERNAME and HEADRACE_REGISTRY_PASSWORD."
        return RegistryAwayError(
            f"Schema registry {self.url}: {what} was not to be had.", detail=detail[:500], hint=hint
        )


def _checked(kind: str, text: object, references: tuple[str, ...]) -> RegisteredSchema:
    """Only what is a schema at first sight: it is kept for ever."""
    if not isinstance(text, str) or not text.strip():
        raise ValueError("the answer holds no schema")
    if kind in ("AVRO", "JSON"):
        json.loads(text)
    return RegisteredSchema(kind, text, references)


def checked_url(url: object, what: str) -> None:
    """Raise DescriptionError for what is no address of a registry, and for one that holds a password."""
    if hasattr(url, "get_value"):
        return
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise DescriptionError(
            f"{what}: registry is not the address of a schema registry.",
            hint="Write for example registry='https://registry:8081', or give dagster.EnvVar.",
        )
    if "@" in url:
        raise DescriptionError(
            f"{what}: registry holds a user or a password.",
            hint="Put them into HEADRACE_REGISTRY_USERNAME and HEADRACE_REGISTRY_PASSWORD.",
        )


def address_of(registry: Any, what: str) -> str:
    """The address of a registry, which may stand in the environment.

    Raises: DescriptionError as `checked_url`
    """
    if not hasattr(registry, "get_value"):
        return str(registry)
    url = registry.get_value()
    checked_url(url, what)
    return str(url)


@lru_cache(maxsize=256)
def described_schema(url: str, subject: str, version: int | None) -> RegisteredSchema:
    """The schema of a subject for a description that names none itself: asked for once per process.

    Raises: DescriptionError, RegistryAwayError
    """
    found = Registry(url).of_subject(subject, version)
    if found is None:
        which = "" if version is None else f" in version {version}"
        raise DescriptionError(
            f"Schema registry {url}: it has no subject '{subject}'{which}.",
            hint="Name it with subject=…, or give the schema itself with schema=….",
        )
    return found
