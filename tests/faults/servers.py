"""The real servers that the lives of one run share: Kafka, PostgreSQL and S3, each started when it is first asked for."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from functools import cached_property
from itertools import count
from pathlib import Path

from headrace.local.object_store import ObjectStore
from headrace.local.postgres import Postgres
from headrace.local.servers.broker import Broker
from tests.faults.lives import Place

FILE, S3 = "file", "s3"


def mirrored_in(dsn: str, prefix: str) -> dict[str, str]:
    """Settings of a mirror whose catalog is in PostgreSQL: it is away when that is, and killed with the stream."""
    return {
        "HEADRACE_ICEBERG_URI": dsn.replace("postgresql://", "postgresql+psycopg://", 1),
        "HEADRACE_ICEBERG_NAMESPACE": prefix.replace("-", "_"),
        "HEADRACE_ICEBERG_EVERY_SECONDS": "1",
    }


class Servers:
    """Servers over a folder of their own, which is removed at the end."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="headrace-faults-"))
        self.folder.chmod(0o755)  # PostgreSQL runs as nobody
        self._open, self._numbers = ExitStack(), count()

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @cached_property
    def broker(self) -> Broker:
        """The broker."""
        return self._open.enter_context(Broker(self.folder / "kafka")).wait_ready()

    @cached_property
    def postgres(self) -> Postgres:
        """The PostgreSQL server."""
        return self._open.enter_context(Postgres(self.folder / "postgres")).wait_ready()

    @cached_property
    def object_store(self) -> ObjectStore:
        """The S3 server."""
        return self._open.enter_context(ObjectStore(self.folder / "s3")).wait_ready()

    def number(self) -> int:
        """The number of a place, which no other has."""
        return next(self._numbers)

    def place(
        self, prefix: str, names: tuple[str, ...], storage: str = FILE, arguments: tuple[str, ...] = ()
    ) -> Place:
        """A place for one life."""
        folder = self.folder / prefix
        folder.mkdir()
        env = {"HEADRACE_POSTGRES_DSN": self.postgres.dsn, **mirrored_in(self.postgres.dsn, prefix)}
        root = f"file:{folder}/lake"
        if storage == S3:
            root, env = f"{self.object_store.root}/{prefix}", env | dict(self.object_store.environment)
        return Place(self.broker.bootstrap_servers, root, prefix, folder, names, env, arguments)
