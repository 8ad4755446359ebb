"""The schemas of a log's records: asked of registries on the driver, and kept below the log.

Law: an id means one schema for ever. A schema is durable before the first commit whose records it decoded, and is never
replaced, so a record that is decoded again is decoded with the same schema. A stored schema needs no registry.

An id that the registry does not have is asked for three times within `PATIENCE_SECONDS`, for registries have replicas;
then its records are dead letters, and for `FORGET_SECONDS` those of later commits are, too, without another question. A
registry that is away raises, so the commit is tried again: nothing becomes a dead letter because of a failure.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection
from typing import TYPE_CHECKING

import structlog

from headrace.description.formats import Avro, Debezium
from headrace.description.formats.registry import RegisteredSchema, Registry
from headrace.lake import small_files
from headrace.sequence.encodings import KnownSchemas

if TYPE_CHECKING:
    from headrace.description import Topic

logger = structlog.get_logger(__name__)
FOLDER = "_schemas"  # below the log's table; Delta leaves alone what begins with an underscore
TRIES, PATIENCE_SECONDS = 3, 2.0
FORGET_SECONDS = 60.0
PATIENT_WITH = 20  # with more unknown ids at once none is waited for: what names them is garbage
UNKNOWN_MAX = 100_000  # that are remembered


class SchemaStore:
    """The schemas of one topic's log."""

    def __init__(self, log_path: str, topic: Topic) -> None:
        """Read what is kept; no registry is asked."""
        self._folder, self._topic = f"{log_path}/{FOLDER}", topic.name
        given = (of.format if isinstance(of, Debezium) else of for of in (topic.key_format, topic.format))
        formats = [of for of in given if isinstance(of, Avro)]
        self._registries = {of.url: Registry(of.url) for of in formats if of.url is not None}
        self._schemas = {
            (url, int(name.removesuffix(".json"))): _kept(f"{self._below(url)}/{name}")
            for url in self._registries
            for name in small_files.names(self._below(url))
        }
        self._unknown: dict[tuple[str, int], float] = {}  # and until when they count as such

    @property
    def asks(self) -> bool:
        """Whether there is a registry."""
        return bool(self._registries)

    @property
    def known(self) -> KnownSchemas:
        """The schemas that are stored, and the ids that no registry needs to be asked for now."""
        now = time.monotonic()
        unknown = frozenset(key for key, until in self._unknown.items() if until > now)
        return KnownSchemas(dict(self._schemas), unknown)

    def learn(self, asked: Collection[tuple[str, int]]) -> None:
        """Ask for schemas, by address and id.

        Raises: RegistryAwayError; what was learnt until then is kept
        """
        left = sorted(asked)
        for number in range(TRIES):
            left = [key for key in left if not self._learnt(*key)]
            if not left or len(left) > PATIENT_WITH:
                break
            if number + 1 < TRIES:
                time.sleep(PATIENCE_SECONDS / (TRIES - 1))
        if left:
            ids = [number for _, number in left[:10]]
            logger.warning(
                "schemas that the registry does not have", topic=self._topic, ids=ids, number=len(left)
            )
        if len(self._unknown) > UNKNOWN_MAX:
            self._unknown.clear()
        self._unknown |= dict.fromkeys(left, time.monotonic() + FORGET_SECONDS)

    def _learnt(self, url: str, schema_id: int) -> bool:
        found = self._registries[url].schema(schema_id)
        if found is None:
            return False
        file = f"{self._below(url)}/{schema_id}.json"
        if not small_files.write_json(file, found.to_json(), overwrite=False):
            found = _kept(file)
        self._schemas[url, schema_id] = found
        return True

    def _below(self, url: str) -> str:
        return _of_registry(self._folder, url)


def keep_schema(log_path: str, url: str, schema_id: int, schema: RegisteredSchema) -> None:
    """Keep a schema below a log before the log is opened, as if a registry had been asked for it."""
    folder = _of_registry(f"{log_path}/{FOLDER}", url)
    small_files.write_json(f"{folder}/{schema_id}.json", schema.to_json(), overwrite=False)


def _of_registry(folder: str, url: str) -> str:
    """The folder of one registry: another one gives the same ids to other schemas."""
    return f"{folder}/{hashlib.sha256(url.rstrip('/').encode()).hexdigest()[:16]}"


def _kept(file: str) -> RegisteredSchema:
    document = small_files.read_json(file)
    assert document is not None
    return RegisteredSchema.from_json(document)
