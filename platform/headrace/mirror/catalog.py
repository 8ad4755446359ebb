"""The Iceberg catalog that the settings name."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headrace.errors import TransientError
from headrace.extras import named_extra
from headrace.lake.storage import REGION, S3, delta_uri, endpoint_named, is_local, region_named, scheme

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.settings.iceberg import IcebergSettings

CLIENTS = frozenset({"pyiceberg", "sqlalchemy", "requests"})
SECRETS = frozenset({"uri", "credential", "token"})  # of a catalog's properties
FOLDER = "iceberg"  # below the lake's root, for Iceberg's own files, unless the settings name another place


def open_catalog(settings: IcebergSettings, root: str) -> Any:
    """Connect to the catalog, and make the namespace if there is none.

    In:     root  URI of the lake
    Raises: TransientError when the catalog does not answer, or refuses; it names no secret
    """
    with named_extra():
        from pyiceberg.catalog import load_catalog
    properties = _properties(settings, root)
    try:
        catalog = load_catalog("headrace", **properties)
        catalog.create_namespace_if_not_exists(settings.namespace)
    except Exception as error:
        raise _away(error, properties) from None
    return catalog


@contextmanager
def asked(catalog: Any) -> Iterator[None]:
    """The catalog is asked something.

    Raises: TransientError in place of an error of it or of its clients; it names no secret
    """
    try:
        yield
    except Exception as error:
        if CLIENTS.isdisjoint(of.__module__.partition(".")[0] for of in type(error).__mro__):
            raise
        raise _away(error, catalog.properties) from None


def file_uri(uri: str) -> str:
    """A place of the lake, as the mirror names its files."""
    return f"file://{delta_uri(uri)}" if is_local(uri) else delta_uri(uri)


def _properties(settings: IcebergSettings, root: str) -> dict[str, str]:
    assert settings.uri is not None
    known = {"type": "rest" if settings.is_rest else "sql", "uri": settings.uri.get_secret_value()}
    warehouse = settings.warehouse or (None if settings.is_rest else f"{file_uri(root)}/{FOLDER}")
    secrets = {"credential": settings.credential, "token": settings.token}
    optional = {"warehouse": warehouse, "oauth2-server-uri": settings.oauth2_uri}
    optional |= {name: value.get_secret_value() for name, value in secrets.items() if value is not None}
    return known | {name: value for name, value in optional.items() if value is not None} | _storage(root)


def _storage(root: str) -> dict[str, str]:
    """How pyiceberg reaches the bucket; keys it reads in the environment, as all clients of the lake do."""
    if scheme(root) not in S3:
        return {}
    endpoint = endpoint_named()
    found = {"s3.region": region_named() or REGION}
    if endpoint is not None:
        found |= {"s3.endpoint": endpoint.url, "s3.force-virtual-addressing": str(endpoint.is_hosted).lower()}
    return found


def _away(error: Exception, properties: Mapping[str, str]) -> TransientError:
    told = f"{type(error).__name__}: {error}"
    for secret in SECRETS & properties.keys():
        told = told.replace(properties[secret], "…")
    return TransientError(
        "The Iceberg catalog does not answer as it should.",
        detail=told,
        hint="A stream tries it again. HEADRACE_ICEBERG_URI and the variables with it say where it is; the folder of a "
        "database in a file has to be there.",
    )
