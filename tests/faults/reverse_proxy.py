"""A proxy in front of a real server, in a thread of this process: it hands requests on, or answers them itself.

The host that a client has named is handed on as it is, so that signatures stay valid; the proxy knows no credentials.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from aiohttp import ClientSession, TCPConnector, web
from multidict import CIMultiDict
from yarl import URL

from headrace.local.servers.broker_config import HOST
from tests.waiting import PATIENCE_S

# Of one connection, not of the request; and the length, which is told anew.
HOPS = {"connection", "keep-alive", "transfer-encoding", "expect", "content-length"}
CLIENTS_OWN = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")  # none is added to what was signed
BODY_BYTES_MAX = 1 << 30


class ReverseProxy(ABC):
    """The base of such proxies."""

    def __init__(self, endpoint: str, tls: ssl.SSLContext | None = None) -> None:
        """In: endpoint  the server's own, as `http://host:port`; `tls` with which clients are spoken to."""
        self._behind, self._port, self._tls = endpoint.rstrip("/"), 0, tls
        self._loop, self._over = asyncio.new_event_loop(), asyncio.Event()
        self._open = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="reverse-proxy")

    @abstractmethod
    async def answer(self, request: web.Request, body: bytes) -> web.Response:
        """The answer to a request."""

    @property
    def endpoint(self) -> str:
        """The URL at which clients reach it."""
        return f"{'http' if self._tls is None else 'https'}://{HOST}:{self._port}"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._open.wait(PATIENCE_S), "the proxy does not open"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(PATIENCE_S)

    async def handed_on(self, request: web.Request, body: bytes) -> web.Response:
        """The server's own answer."""
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
            await web.TCPSite(runner, HOST, 0, ssl_context=self._tls).start()
            self._port = runner.addresses[0][1]
            self._open.set()
            await self._over.wait()
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        return await self.answer(request, await request.read())


def _own(headers: Mapping[str, str]) -> CIMultiDict[str]:
    """The headers that go on with a message."""
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in HOPS)
