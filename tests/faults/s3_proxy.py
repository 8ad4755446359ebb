"""An S3 server's bad days: a proxy in front of it that answers 503, is slow, or loses the answer to a put that went through.

The host that a client has signed is handed on as it is, so that signatures stay valid; the proxy knows no credentials.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from types import TracebackType

from aiohttp import ClientSession, TCPConnector, web
from multidict import CIMultiDict
from yarl import URL

from headrace.local.broker_config import HOST

# Of one connection, not of the request; and the length, which is told anew.
HOPS = {"connection", "keep-alive", "transfer-encoding", "expect", "content-length"}
CLIENTS_OWN = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")  # none is added to what was signed
UNAVAILABLE = b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>'
BODY_BYTES_MAX = 1 << 30
PATIENCE_S = 30.0


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

    def strikes(self, share: float) -> bool:
        """Decide about one request, and count it. Called by the proxy's thread alone."""
        struck = self.random.random() < share
        self.disturbed += struck
        return struck

    def clear(self) -> None:
        """From now on every request passes."""
        self.unavailable = self.slow_s = self.lost = 0.0


class S3Proxy:
    """A proxy in front of an S3 server, in a thread of this process."""

    def __init__(self, endpoint: str, seed: int) -> None:
        """In: endpoint  the server's own, as `http://host:port`."""
        self.weather = Weather(Random(seed))
        self._behind, self._port = endpoint.rstrip("/"), 0
        self._loop, self._over = asyncio.new_event_loop(), asyncio.Event()
        self._open = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="s3-proxy")

    @property
    def endpoint(self) -> str:
        """The URL at which clients reach it."""
        return f"http://{HOST}:{self._port}"

    def __enter__(self) -> S3Proxy:
        self._thread.start()
        assert self._open.wait(PATIENCE_S), "the proxy does not open"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        app = web.Application(client_max_size=BODY_BYTES_MAX)
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, auto_decompress=False, shutdown_timeout=1.0)
        connector = TCPConnector(force_close=True, limit=0)
        async with ClientSession(connector=connector, auto_decompress=False) as self._session:
            await runner.setup()
            await web.TCPSite(runner, HOST, 0).start()
            self._port = runner.addresses[0][1]
            self._open.set()
            await self._over.wait()
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        body, weather = await request.read(), self.weather
        if weather.slow_s and weather.strikes(1.0):
            await asyncio.sleep(weather.slow_s)
        if weather.unavailable and weather.strikes(weather.unavailable):
            headers = {"Content-Type": "application/xml", "Retry-After": "1"}
            return web.Response(status=503, headers=headers, body=UNAVAILABLE)
        answer = await self._handed_on(request, body)
        put = request.method == "PUT" and answer.status == 200
        if put and weather.lost and weather.strikes(weather.lost) and request.transport is not None:
            request.transport.close()  # it went through, and nobody says so
        return answer

    async def _handed_on(self, request: web.Request, body: bytes) -> web.Response:
        headers = _own(request.headers)
        if body or request.method in ("PUT", "POST"):
            headers["Content-Length"] = str(len(body))
        async with self._session.request(
            request.method,
            URL(self._behind + request.raw_path, encoded=True),
            headers=headers,
            data=body or None,
            skip_auto_headers=CLIENTS_OWN,
            allow_redirects=False,
        ) as answer:
            found, read = _own(answer.headers), await answer.read()
            if request.method == "HEAD" and "Content-Length" in answer.headers:
                found["Content-Length"] = answer.headers[
                    "Content-Length"
                ]  # of the body that it does not have
            return web.Response(status=answer.status, headers=found, body=read or None)


def _own(headers: Mapping[str, str]) -> CIMultiDict[str]:
    """The headers that go on with a message."""
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in HOPS)
