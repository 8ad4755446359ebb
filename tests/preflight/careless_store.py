"""An S3 server with one bucket that replaces whatever it is told to create: one without conditional puts."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BUCKET = "lake"


class Careless(BaseHTTPRequestHandler):
    """Knows objects by their paths, and no header of a request."""

    kept: dict[str, bytes]
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.path.startswith(f"/{BUCKET}/"):
            self._answer(404, b"<Error><Code>NoSuchBucket</Code></Error>")
            return
        self.kept[self.path] = content
        self._answer(200)

    def do_GET(self) -> None:
        if "list-type=2" in self.path:
            self._answer(200, b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
            return
        found = self.kept.get(self.path)
        self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>") if found is None else self._answer(
            200, found
        )

    def do_DELETE(self) -> None:
        self.kept.pop(self.path, None)
        self._answer(204)

    def do_POST(self) -> None:
        keys = re.findall(rb"<Key>(.*?)</Key>", self.rfile.read(int(self.headers["Content-Length"])))
        for key in keys:
            self.kept.pop(f"/{BUCKET}/{key.decode()}", None)
        deleted = b"".join(b"<Deleted><Key>" + key + b"</Key></Deleted>" for key in keys)
        self._answer(200, b"<DeleteResult>" + deleted + b"</DeleteResult>")

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("ETag", f'"{md5(body).hexdigest()}"')
        self.send_header("Last-Modified", "Fri, 01 May 2026 12:00:00 GMT")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def careless_store() -> Iterator[str]:
    """Its address."""
    handler = type("OwnCareless", (Careless,), {"kept": {}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
