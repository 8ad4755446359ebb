"""DuckDB's readers of Delta tables and of S3, in a connection. They come as packages: DuckDB may not fetch any.

Law: DuckDB reaches a bucket as all other clients of a lake do: by the keys in the environment, else by a web identity, or by
the role of the container or machine.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.errors import TerminalError
from headrace.lake.storage import REGION, S3, endpoint_named, is_local, region_named, scheme

if TYPE_CHECKING:
    from types import ModuleType

FOLDER = "extensions/*/*.duckdb_extension"
KEY, SECRET, TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"


def load_readers(connection: Any, root: str) -> None:
    """Let a connection of DuckDB read the Delta tables of a lake.

    In:     root  URI of the lake
    Raises: TerminalError when it lies where DuckDB cannot read, or there are no credentials
    """
    import duckdb_extension_delta
    import duckdb_extension_httpfs

    connection.load_extension(_extension(duckdb_extension_delta))
    if is_local(root):
        return
    if scheme(root) not in S3:
        raise TerminalError(
            f"Lake '{root}': SQL reads local folders and S3.", hint="Query it with Spark, by `Views`."
        )
    connection.load_extension(_extension(duckdb_extension_httpfs))
    keys = _credentials()
    told = ", ".join(f"{name} {literal(value)}" for name, value in {**keys, **_address()}.items())
    if keys:
        connection.execute(f"CREATE SECRET (TYPE s3, {told})")
    else:
        _by_role(connection, root, told)


def literal(value: str) -> str:
    """A value as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"


def _by_role(connection: Any, root: str, options: str) -> None:
    """The credentials of a web identity, a container or a machine; DuckDB asks again before they expire."""
    import duckdb
    import duckdb_extension_aws

    connection.load_extension(_extension(duckdb_extension_aws))
    try:
        connection.execute(f"CREATE SECRET (TYPE s3, PROVIDER credential_chain, REFRESH auto, {options})")
    except duckdb.Error as error:
        raise TerminalError(
            f"Lake '{root}': DuckDB finds no credentials.",
            detail=str(error).partition("\n")[0],
            hint=f"Set {KEY} and {SECRET}, or run where a role is given.",
        ) from None


def _credentials() -> dict[str, str]:
    """The keys of the environment; empty: there are none."""
    found = {"KEY_ID": os.environ.get(KEY), "SECRET": os.environ.get(SECRET)}
    if not all(found.values()):
        return {}
    found["SESSION_TOKEN"] = os.environ.get(TOKEN)
    return {name: value for name, value in found.items() if value}


def _address() -> dict[str, str]:
    address, endpoint = {"REGION": region_named() or REGION}, endpoint_named()
    if endpoint is not None:
        address |= {
            "ENDPOINT": endpoint.url.partition("://")[2].rstrip("/"),
            "URL_STYLE": "vhost" if endpoint.is_hosted else "path",
            "USE_SSL": str(not endpoint.is_plain).lower(),
        }
    return address


def _extension(package: ModuleType) -> str:
    assert package.__file__
    (found,) = Path(package.__file__).parent.glob(FOLDER)
    return str(found)
