"""A schema registry that answers as a test says: with schemas, slowly, with garbage, or with an error."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self


class RegistryServer:
    """Speaks the part of Confluent's interface that Headrace uses.

    schemas   by id: Avro schemas, or documents as the registry gives them
    subjects  by name the schemas of its versions
    asked     paths, in the order in which they were asked for
    fails     what it answers to everything: a status, "garbage", or "nothing"; None: it works
    user      name and password that it wants
    """

    def __init__(self, certificate: Path | None = None) -> None:
        self.schemas: dict[int, Any] = {}
        self.subjects: dict[str, list[Any]] = {}
        self.asked: list[str] = []
        self.fails: int | str | None = None
        self.user: tuple[str, str] | None = None
        self._ends = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                """Print nothing."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
            scheme = "https"
        self.url = f"{scheme}://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.set()
        self._http.shutdown()
        self._http.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path = request.path.partition("?")[0]
        self.asked.append(path)
        if self.fails == "nothing":
            self._ends.wait()
        if self.fails == "garbage":
            return _send(request, 200, b"<html>sign in, please</html>")
        if isinstance(self.fails, int):
            return _send(request, self.fails, b'{"error_code": 50001, "message": "not today"}')
        if self.user is not None:
            wanted = "Basic " + base64.b64encode(":".join(self.user).encode()).decode()
            if request.headers.get("Authorization") != wanted:
                return _send(request, 401, b'{"error_code": 401, "message": "who are you?"}')
        match path.strip("/").split("/"):
            case ["schemas", "ids", number] if int(number) in self.schemas:
                found = self.schemas[int(number)]
            case ["subjects", subject, "versions", version] if subject in self.subjects:
                versions = self.subjects[subject]
                found = versions[-1 if version == "latest" else int(version) - 1]
            case _:
                return _send(request, 404, b'{"error_code": 40403, "message": "Schema not found"}')
        document = found if isinstance(found, dict) and "schema" in found else {"schema": json.dumps(found)}
        return _send(request, 200, json.dumps({"id": 1, "version": 1, "subject": "s"} | document).encode())


def _send(request: BaseHTTPRequestHandler, status: int, content: bytes) -> None:
    try:
        request.send_response(status)
        request.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)
    except OSError:  # the client has waited long enough
        request.close_connection = True
