"""A machine with a role needs no keys: each client of the lake asks the machine's own service for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytestmark = [pytest.mark.s3, pytest.mark.spark]

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "/latest/meta-data/iam/security-credentials"
KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


class Machine(BaseHTTPRequestHandler):
    """What a machine at Amazon tells its own processes: the name of its role, and keys for it (IMDSv2)."""

    protocol_version = "HTTP/1.1"
    asked: list[str]

    def do_PUT(self) -> None:
        self._answer("a session of this service")

    def do_GET(self) -> None:
        if self.path.rstrip("/") == FOLDER:
            self._answer("headrace")
        elif self.path == f"{FOLDER}/headrace":
            self.asked.append(str(self.headers["User-Agent"]))
            self._answer(json.dumps(self._keys()))
        else:
            self._answer("", 404)

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""

    @staticmethod
    def _keys() -> dict[str, str]:
        return {
            "Code": "Success",
            "Type": "AWS-HMAC",
            "LastUpdated": "2026-11-28T00:00:00Z",
            "AccessKeyId": os.environ[KEYS[0]],
            "SecretAccessKey": os.environ[KEYS[1]],
            "Token": "",
            "Expiration": "2036-01-01T00:00:00Z",
        }

    def _answer(self, text: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("X-aws-ec2-metadata-token-ttl-seconds", "21600")
        self.end_headers()
        self.wfile.write(text.encode())


@pytest.fixture
def machine() -> Iterator[ThreadingHTTPServer]:
    handler = type("OwnMachine", (Machine,), {"asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_all_clients_of_a_lake_take_the_role_of_the_machine(
    machine: ThreadingHTTPServer, s3_root: str, tmp_path: Path
) -> None:
    address = f"http://127.0.0.1:{machine.server_port}"
    kept = {name: value for name, value in os.environ.items() if name not in KEYS}
    path = os.pathsep.join([str(ROOT / "platform"), str(ROOT)])
    service = {"AWS_METADATA_ENDPOINT": address, "AWS_EC2_METADATA_SERVICE_ENDPOINT": address}
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/lake/by_role.py"), s3_root],
        env=kept | service | {"PYTHONPATH": path, "HEADRACE_JARS": str(ROOT / ".headrace/jars")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["obstore", "delta-rs", "duckdb", "spark"], done.stderr[-3000:]
    asked = machine.RequestHandlerClass.asked  # type: ignore[attr-defined]
    assert {client.partition("/")[0] for client in asked} == {"object_store", "aws-sdk-cpp", "aws-sdk-java"}
