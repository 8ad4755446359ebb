"""A small server of OpenID Connect for tests: client credentials in, signed tokens out, and the keys that verify them.

with OidcServer({"headrace": "secret"}) as server:
    server.token_url, server.keys_url
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from headrace.local.servers.broker_config import HOST

ISSUER, AUDIENCE = "https://issuer.test", "kafka"


class OidcServer:
    """Serves while it is entered.

    In: clients         by id, the secret of each
        lives_seconds   of a token
    """

    def __init__(self, clients: Mapping[str, str], lives_seconds: int = 300) -> None:
        self.clients, self.lives_seconds = clients, lives_seconds
        self.given: list[str] = []  # to whom a token was given, in order
        self._key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
        self._server = ThreadingHTTPServer((HOST, 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def token_url(self) -> str:
        """Where tokens are given."""
        return f"http://{HOST}:{self._server.server_port}/token"

    @property
    def keys_url(self) -> str:
        """Where the keys are that verify them (JWKS)."""
        return f"http://{HOST}:{self._server.server_port}/keys"

    def token(self, client: str, scope: str | None) -> str:
        """A token for a client, signed with RS256."""
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": client, "iat": now, "exp": now + self.lives_seconds}
        parts = ({"alg": "RS256", "typ": "JWT", "kid": "k1"}, claims | {"scope": scope or "kafka"})
        signed = b".".join(_base64(json.dumps(part).encode()) for part in parts)
        signature = self._key.sign(signed, padding.PKCS1v15(), hashes.SHA256())
        return (signed + b"." + _base64(signature)).decode()

    def keys(self) -> Mapping[str, Any]:
        """The public key, as JWKS."""
        public = self._key.public_key().public_numbers()
        numbers = {name: _base64(_bytes(getattr(public, name))).decode() for name in ("n", "e")}
        return {"keys": [{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "k1", **numbers}]}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(200, outer.keys())

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                client, secret = self._credentials()
                if form.get("grant_type") != ["client_credentials"] or outer.clients.get(client) != secret:
                    self._answer(
                        401, {"error": "invalid_client", "error_description": "unknown client or secret"}
                    )
                    return
                outer.given.append(client)
                token = outer.token(client, form.get("scope", [None])[0])
                life = {"token_type": "Bearer", "expires_in": outer.lives_seconds}
                self._answer(200, {"access_token": token, **life})

            def _credentials(self) -> tuple[str, str]:
                kind, _, told = self.headers.get("Authorization", "").partition(" ")
                client, _, secret = (
                    base64.b64decode(told).decode().partition(":") if kind == "Basic" else ("", "", "")
                )
                return unquote(client), unquote(secret)

            def _answer(self, status: int, content: Mapping[str, Any]) -> None:
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def _base64(content: bytes) -> bytes:
    return base64.urlsafe_b64encode(content).rstrip(b"=")


def _bytes(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")
