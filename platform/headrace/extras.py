"""Extras: the packages that a part of Headrace needs and its core does not.

The core describes, tests and reads. `pip install 'headrace[dagster]'` brings what runs and shows pipelines, and so on; `all`
brings everything. An import that is missing names its extra.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.errors import TerminalError

if TYPE_CHECKING:
    from collections.abc import Iterator

# The extra of each package that the core does without, by the name that Python imports.
EXTRA_OF = {
    "dagster": "dagster",
    "dagster_graphql": "dagster",
    "dagster_pyspark": "dagster",
    "dagster_postgres": "postgres",
    "dagster_slack": "slack",
    "slack_sdk": "slack",
    "great_expectations": "quality",
    "psycopg": "postgres",
    "pyiceberg": "iceberg",
    "duckdb": "sql",
    "duckdb_extension_aws": "sql",
    "duckdb_extension_delta": "sql",
    "duckdb_extension_httpfs": "sql",
}


class MissingExtraError(TerminalError, ImportError):
    """A package is not installed, and an extra of Headrace brings it."""


def missing_extra(error: BaseException) -> MissingExtraError | None:
    """The error that names the extra; None if the import that failed is of no extra."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    package = error.name.partition(".")[0]
    extra = EXTRA_OF.get(package)
    if extra is None:
        return None
    return MissingExtraError(
        f"The package '{package}' is not installed.",
        hint=f"Install it with Headrace: pip install 'headrace[{extra}]'; 'headrace[all]' brings all parts.",
    )


@contextmanager
def named_extra() -> Iterator[None]:
    """Raise MissingExtraError where a package of an extra cannot be imported."""
    try:
        yield
    except ModuleNotFoundError as error:
        named = missing_extra(error)
        if named is None:
            raise
        raise named from error
