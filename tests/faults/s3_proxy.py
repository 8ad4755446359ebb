"""An S3 server's bad days: a proxy in front of it that answers 503, is slow, or loses the answer to a put that went through.

The host that a client has signed is handed on as it is, so that signatures stay valid; the proxy knows no credentials.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from types import TracebackType
from urllib.parse import urlsplit

from headrace.local.broker_config import HOST

HOPS = {"connection", "keep-alive", "transfer-encoding", "expect"}  # of one connection, not of the request
UNAVAILABLE = b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>'


@dataclass
class Weather:
    """How the proxy treats requests.

    unavailable  share of requests that get 503
    slow_s       how long each waits before it goes on
    lost         share of puts that go through, and whose answer is lost: the connection ends
    """

    random: Random
    unavailable: float = 0.0
    slow_s: float = 0.0
    lost: float = 0.0
    disturbed: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def strikes(self, share: float) -> bool:
        """Decide about one request, and count it."""
        with self._lock:
            struck = self.random.random() < share
            self.disturbed += struck
        return struck

    def clear(self) -> None:
        """From now on every request passes."""
        self.unavailable = self.slow_s = self.lost = 0.0


class S3Proxy:
    """A proxy in front of an S3 server, in threads of this process."""

    def __init__(self, endpoint: str, seed: int) -> None:
        """In: endpoint  the server's own, as `http://host:port`."""
        self.weather = Weather(Random(seed))
        behind, weather = urlsplit(endpoint).netloc, self.weather

        class Handler(_Handler):
            pass

        Handler.behind, Handler.weather = behind, weather
        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True, name="s3-proxy")

    @property
    def endpoint(self) -> str:
        """The URL at which clients reach it."""
        return f"http://{HOST}:{self._server.server_address[1]}"

    def __enter__(self) -> S3Proxy:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    behind: str
    weather: Weather

    def do_GET(self) -> None:
        self._pass_on()

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def _pass_on(self) -> None:
        body = self._body()
        if self.weather.slow_s and self.weather.strikes(1.0):
            time.sleep(self.weather.slow_s)
        if self.weather.unavailable and self.weather.strikes(self.weather.unavailable):
            self._answer(503, [("Content-Type", "application/xml"), ("Retry-After", "1")], UNAVAILABLE)
            return
        connection = HTTPConnection(self.behind, timeout=60)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in HOPS | {"content-length"}:
                    connection.putheader(name, value)
            if body or self.command in ("PUT", "POST"):
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body or None)
            answer = connection.getresponse()
            read = answer.read()
        finally:
            connection.close()
        if (
            self.command == "PUT"
            and answer.status == 200
            and self.weather.lost
            and self.weather.strikes(self.weather.lost)
        ):
            self.close_connection = True  # it went through, and nobody says so
            return
        self._answer(answer.status, self._headers(answer), read)

    def _body(self) -> bytes:
        if "chunked" not in (self.headers.get("Transfer-Encoding") or ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _headers(self, answer: HTTPResponse) -> list[tuple[str, str]]:
        """Those of the answer; of a HEAD the length is that of the body that it does not have."""
        own = HOPS | (set() if self.command == "HEAD" else {"content-length"})
        return [(name, value) for name, value in answer.getheaders() if name.lower() not in own]

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if self.command != "HEAD" and status not in (204, 304):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
