"""A proxy in front of a real registry, as people guard one: it asks for a name and a password, and speaks TLS."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping
from pathlib import Path

from aiohttp import hdrs, web

from tests.faults.reverse_proxy import ReverseProxy

READS = ("GET", "HEAD")


class RegistryProxy(ReverseProxy):
    """Lets in those who have a password: `readers` may read, `writers` may do all.

    In: endpoint     of the registry, as `http://host:port`
        certificate  PEM file with the proxy's own certificate and its key
    """

    def __init__(
        self, endpoint: str, certificate: Path, *, readers: Mapping[str, str], writers: Mapping[str, str]
    ) -> None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate)
        super().__init__(endpoint, tls)
        self._readers, self._writers = ([_header(*who) for who in of.items()] for of in (readers, writers))

    async def answer(self, request: web.Request, body: bytes) -> web.Response:
        """401 for those whom it does not know, 403 for what a reader may not do."""
        told = request.headers.get(hdrs.AUTHORIZATION)
        if told in self._writers or (told in self._readers and request.method in READS):
            return await self.handed_on(request, body)
        if told in self._readers:
            return web.Response(status=403, text="<html>403 Forbidden</html>")
        asks = {hdrs.WWW_AUTHENTICATE: 'Basic realm="registry"'}
        return web.Response(status=401, headers=asks, text="<html>401 Authorization Required</html>")


def _header(name: str, password: str) -> str:
    """How a client tells who it is (RFC 7617)."""
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"
