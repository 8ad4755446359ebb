"""A schema registry with Confluent's interface: what it says, and what it means that it says nothing.

Law: an id means one schema for ever. Only the registry's own answer that it does not have an id counts as such; a registry
that is away, slow, refuses the credentials or answers with something else raises RegistryAwayError, which may pass.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from headrace.description.formats.avro_types import parse_schema
from headrace.description.formats.evolution.avro_resolution import unresolvable
from headrace.description.formats.evolution.json_schema_changes import changed_property
from headrace.description.formats.evolution.protobuf_changes import changed_field
from headrace.errors import DescriptionError, TerminalError, TransientError

if TYPE_CHECKING:
    from headrace.description.formats.registry_settings import RegistrySettings

NOT_FOUND = (40401, 40402, 40403)  # subject, version, schema
REFERENCES_MAX = 100


class RegistryAwayError(TransientError):
    """The registry did not answer as a registry does; it may later."""


class SchemaRefusedError(TerminalError):
    """The registry refuses a schema: it is incompatible with its subject's others, or no schema."""


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema as a registry has it: its kind, its text, and the texts of those that it uses, in the order of use."""

    kind: str
    text: str
    references: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Write it as a JSON document."""
        return {"kind": self.kind, "text": self.text, "references": [*self.references]}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RegisteredSchema:
        """Read the document that `to_json` wrote."""
        return cls(document["kind"], document["text"], tuple(document["references"]))


class Registry:
    """One registry; asked when a schema is needed, and nothing is kept here."""

    def __init__(self, url: str, settings: RegistrySettings | None = None) -> None:
        """In: settings  None: those of the environment, read when the registry is asked first."""
        self.url, self._settings = url, settings

    def schema(self, schema_id: int) -> RegisteredSchema | None:
        """Ask for the schema of an id; None: the registry does not have it.

        Raises: RegistryAwayError
        """
        return self._asked(f"schema {schema_id}", lambda client: client.get_schema(schema_id))

    def of_subject(self, subject: str, version: int | None = None) -> RegisteredSchema | None:
        """Ask for the newest schema of a subject, or a version of it; None: the registry does not have it.

        Raises: RegistryAwayError
        """
        what = f"the schema of subject '{subject}'"
        if version is None:
            return self._asked(what, lambda client: client.get_latest_version(subject).schema)
        return self._asked(what, lambda client: client.get_version(subject, version).schema)

    def register(self, subject: str, kind: str, text: str, used: Sequence[tuple[str, str, int]] = ()) -> int:
        """Register a schema unless the subject has it. Out: its id.

        In:     used  schemas that it uses: name, subject and version
        Raises: SchemaRefusedError naming the incompatible field, where that is known; RegistryAwayError
        """
        from confluent_kafka.schema_registry import SchemaRegistryError

        schema = _schema(kind, text, used)
        try:
            return int(self._client.register_schema(subject, schema))
        except SchemaRegistryError as error:
            if error.http_status_code not in (409, 422):
                what = f"the registration of a schema in subject '{subject}'"
                raise self._away(what, str(error), error.http_status_code) from error
            raise SchemaRefusedError(
                f"Schema registry {self.url}: subject '{subject}' refuses the schema: "
                f"{self._why_refused(subject, kind, text) or 'see its own words'}.",
                detail=str(error)[:500],
                hint="Give the schema a form that is compatible, another subject=, or the subject another compatibility.",
            ) from error
        except Exception as error:  # as in `_answer`
            raise self._away(
                f"the registration of a schema in subject '{subject}'", repr(error), None
            ) from error

    def find(
        self, subject: str, kind: str, text: str, used: Sequence[tuple[str, str, int]] = ()
    ) -> int | None:
        """The id of a schema in a subject; None: it is not there. Raises: RegistryAwayError."""
        schema = _schema(kind, text, used)
        found = self._answer(
            f"a schema of subject '{subject}'", lambda: self._client.lookup_schema(subject, schema)
        )
        return None if found is None else int(found.schema_id)

    def subjects(self) -> int:
        """How many subjects it shows to this client. Raises: RegistryAwayError."""
        return len(self._answer("the list of subjects", lambda: self._client.get_subjects()) or ())

    def newest_version(self, subject: str) -> int:
        """The number of the newest version of a subject. Raises: RegistryAwayError."""
        what = f"the newest version of subject '{subject}'"
        found = self._answer(what, lambda: self._client.get_latest_version(subject))
        if found is None:
            raise self._away(what, "The registry says that it does not have it.", None)
        return int(found.version)

    def _why_refused(self, subject: str, kind: str, text: str) -> str | None:
        """Which field is incompatible with the newest schema; None: that is not known."""
        newest = self.of_subject(subject)
        if newest is None:
            return None
        if newest.kind != kind:
            return f"its schemas are {newest.kind}, and this one is {kind}"
        try:
            return _incompatible(newest, text)
        except ValueError:  # such as one that holds itself
            return None

    def _asked(self, what: str, ask: Any) -> RegisteredSchema | None:
        found = self._answer(what, lambda: ask(self._client))
        if found is None:
            return None
        try:
            references = self._references(found.references or ())
            return _checked(found.schema_type or "AVRO", found.schema_str, tuple(references))
        except (TypeError, ValueError) as error:
            raise self._away(what, f"{type(error).__name__}: {error}", None) from error

    def _answer(self, what: str, ask: Callable[[], Any]) -> Any:
        """The registry's answer; None: it does not have it."""
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            return ask()
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
            used = self._used(reference.subject, reference.version)
            texts += [*self._references(used.references or (), depth + 1), used.schema_str]
        return list(dict.fromkeys(texts))

    def _used(self, subject: str, version: int) -> Any:
        """A schema that another one uses. The registry has that one, so it has this one, too: if not now, then later."""
        what = f"schema '{subject}' in version {version}, which another schema uses,"
        found = self._answer(what, lambda: self._client.get_version(subject, version))
        if found is None:
            raise self._away(what, "The registry says that it does not have it.", None)
        return found.schema

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
            f"Schema registry {self.url}: {what} could not be read.", detail=detail[:500], hint=hint
        )


def _schema(kind: str, text: str, used: Sequence[tuple[str, str, int]]) -> Any:
    from confluent_kafka.schema_registry import Schema, SchemaReference

    return Schema(text, kind, [SchemaReference(*each) for each in used])


def _incompatible(newest: RegisteredSchema, text: str) -> str | None:
    """Raises: ValueError for a schema that cannot be compared."""
    match newest.kind:
        case "AVRO":
            old, new = parse_schema(newest.text, newest.references), parse_schema(text)
            return unresolvable(old, new) or unresolvable(new, old)
        case "PROTOBUF":
            return changed_field(newest.text, text)
        case "JSON":
            return changed_property(newest.text, text)
    return None


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
