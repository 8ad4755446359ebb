"""An S3 server's bad days: a proxy in front of it that answers 503, is slow, or loses the answer to a put that went through."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random

from aiohttp import web

from tests.faults.reverse_proxy import ReverseProxy

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

    def strikes(self, share: float) -> bool:
        """Decide about one request, and count it. Called by the proxy's thread alone."""
        struck = self.random.random() < share
        self.disturbed += struck
        return struck

    def clear(self) -> None:
        """From now on every request passes."""
        self.unavailable = self.slow_s = self.lost = 0.0


class S3Proxy(ReverseProxy):
    """A proxy in front of an S3 server."""

    def __init__(self, endpoint: str, seed: int) -> None:
        super().__init__(endpoint)
        self.weather = Weather(Random(seed))

    async def answer(self, request: web.Request, body: bytes) -> web.Response:
        """See `ReverseProxy`."""
        weather = self.weather
        if weather.slow_s and weather.strikes(1.0):
            await asyncio.sleep(weather.slow_s)
        if weather.unavailable and weather.strikes(weather.unavailable):
            headers = {"Content-Type": "application/xml", "Retry-After": "1"}
            return web.Response(status=503, headers=headers, body=UNAVAILABLE)
        answer = await self.handed_on(request, body)
        put = request.method == "PUT" and answer.status == 200
        if put and weather.lost and weather.strikes(weather.lost) and request.transport is not None:
            request.transport.close()  # it went through, and nobody says so
        return answer
