"""Storage settings: the one place that turns them into those of obstore, delta-rs and Hadoop.

A lake's root is a URI: `file:/folder` on this machine, or `s3://bucket/prefix`. delta-rs and obstore take `abfss://` and
`gs://` too; Spark needs jars of its own for them.

Credentials and the endpoint come from the environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`,
`AWS_REGION`, `AWS_ENDPOINT_URL`, …) or from the machine's role. delta-rs, obstore and Amazon's SDK in the JVM each read
them there, so no option, closure or plan holds a secret.

Note: the runtime of obstore and of delta-rs does not survive a fork. Both are imported where they are used, never here.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import TerminalError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

LOCAL, S3, OTHERS = ("", "file"), ("s3", "s3a"), ("abfss", "gs")
REGION = "us-east-1"  # where none is named
# Where Hadoop looks for keys: the environment, a Kubernetes service account, the role of a container or machine.
ENVIRONMENT = "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider"
SERVICE_ACCOUNT = "software.amazon.awssdk.auth.credentials.WebIdentityTokenFileCredentialsProvider"
ROLE = "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider"
HADOOP_CLASSES = {
    "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.s3.impl": "org.apache.hadoop.fs.s3a.S3A",
}
# The variables that executors need; of a web identity's token file each executor has to have its own.
VARIABLES = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST"),
    *("AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    *("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_KEY"),
    *("AZURE_STORAGE_CLIENT_ID", "AZURE_STORAGE_CLIENT_SECRET", "AZURE_STORAGE_TENANT_ID"),
    *("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_APPLICATION_CREDENTIALS"),
)
# Spark's own pattern, and the names above that it lets pass.
REDACTED = r"(?i)secret|password|token|access[._]?key|account[._]?key|sas[._]?key"


@lru_cache(maxsize=4096)
def scheme(uri: str) -> str:
    """The scheme of a URI; empty for a path.

    Raises: TerminalError when the lake cannot lie there.
    """
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", uri)
    name = found[1].lower() if found else ""
    if name not in (*LOCAL, *S3, *OTHERS):
        raise TerminalError(
            f"Storage '{uri}': scheme '{name}' is unknown.",
            hint="Use file:/folder, s3://bucket/prefix, abfss://container@account/prefix or gs://bucket/prefix.",
        )
    return name


def is_local(uri: str) -> bool:
    """True if a URI is a path of this machine."""
    return scheme(uri) in LOCAL


@lru_cache(maxsize=4096)
def local_path(uri: str) -> Path:
    """The path of a `file:` URI."""
    return Path(re.sub("^file:(//[^/]*)?", "", uri))


def store_of(uri: str) -> tuple[ObjectStore, str]:
    """The object store of a URI, and the path in it. A store is opened once in a process.

    Raises: TerminalError when the URI is a path of this machine: Python opens those itself, without a runtime that a fork
            would break.
    """
    if is_local(uri):
        raise TerminalError(f"'{uri}' lies on this machine's disk, not in an object store.")
    root, path = _split(uri)
    return _store(root), path


def delta_uri(uri: str) -> str:
    """The same place, as delta-rs names it."""
    if is_local(uri):
        return str(local_path(uri))
    root, path = _split(uri)
    return f"{root}/{path}"


def is_within(uri: str, root: str) -> bool:
    """True if a place lies in another one, or is that one, however both are written."""
    place, of = (
        str(local_path(each).resolve()) if is_local(each) else delta_uri(each) for each in (uri, root)
    )
    return f"{place}/".startswith(f"{of.rstrip('/')}/")


def storage_options(uri: str) -> dict[str, str]:
    """The options with which delta-rs opens a table there; none of them is a secret."""
    return _options() if scheme(uri) in S3 else {}


def spark_uri(uri: str) -> str:
    """The same place, as Spark names it."""
    return re.sub("^s3:", "s3a:", uri)


def hadoop_settings(uri: str) -> dict[str, str]:
    """Spark settings with which Spark reads there; none of them is a secret.

    They are for the bucket alone: what a site has set for other buckets stays. Spark takes `s3://` for `s3a://`.
    """
    if scheme(uri) not in S3:
        return {}
    region, endpoint = region_named(), endpoint_named()
    settings = {"aws.credentials.provider": ",".join(_providers())}
    if endpoint is not None:
        settings |= {
            "endpoint": endpoint.url,
            "path.style.access": str(not endpoint.is_hosted).lower(),
            "connection.ssl.enabled": str(not endpoint.is_plain).lower(),
        }
        region = region or REGION
    if region:
        settings["endpoint.region"] = region
    bucket = _split(uri)[0].removeprefix("s3://")
    return HADOOP_CLASSES | {f"spark.hadoop.fs.s3a.bucket.{bucket}.{key}": settings[key] for key in settings}


@dataclass(frozen=True)
class Endpoint:
    """A server other than Amazon's own.

    is_hosted  whether a bucket is named by the host and not by the path
    is_plain   whether it speaks HTTP without TLS
    """

    url: str
    is_hosted: bool
    is_plain: bool


def endpoint_named() -> Endpoint | None:
    """The server of S3 that the environment names; None: Amazon's own."""
    url = os.environ.get("AWS_ENDPOINT_URL", "")
    is_hosted = os.environ.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "").lower() == "true"
    return Endpoint(url, is_hosted, url.startswith("http://")) if url else None


def region_named() -> str | None:
    """The region that the environment names."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")


def executor_environment() -> dict[str, str]:
    """Spark settings that hand the storage variables of this process to executors on other machines.

    Spark redacts their values in its UI, its event log and its own log. Machines with a role of their own need none.
    """
    found = {f"spark.executorEnv.{name}": os.environ[name] for name in VARIABLES if os.environ.get(name)}
    return found | {"spark.redaction.regex": REDACTED} if found else {}


def _providers() -> list[str]:
    """Those that Hadoop asks for keys, in this order.

    Where the variable of a service account is not set, its provider raises instead of saying that it has none, and Hadoop
    asks no other one after it.
    """
    has_account = bool(os.environ.get("AWS_WEB_IDENTITY_TOKEN_FILE"))
    return [ENVIRONMENT, *([SERVICE_ACCOUNT] if has_account else []), ROLE]


def _split(uri: str) -> tuple[str, str]:
    """The bucket's URI, and the path in it."""
    kind, _, rest = uri.partition("://")
    bucket, _, path = rest.partition("/")
    if not bucket:
        raise TerminalError(f"Storage '{uri}' names no bucket.", hint=f"Write {kind}://bucket/prefix.")
    return f"{'s3' if kind in S3 else kind}://{bucket}", path.strip("/")


def _options() -> dict[str, str]:
    """The options of an S3 store; delta-rs and obstore read the rest in the environment."""
    endpoint = endpoint_named()
    is_plain = endpoint is not None and endpoint.is_plain
    return {"aws_conditional_put": "etag"} | ({"aws_allow_http": "true"} if is_plain else {})


@lru_cache(maxsize=64)
def _store(root: str) -> ObjectStore:
    from obstore.store import from_url

    if scheme(root) not in S3:
        return from_url(root)
    plain = "aws_allow_http" in _options()
    return from_url(root, conditional_put="etag", client_options={"allow_http": plain})
