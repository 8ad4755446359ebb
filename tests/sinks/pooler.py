"""A connection pooler in front of PostgreSQL, with one session of the server, as PgBouncer in transaction mode has.

The first client's handshake goes to the server, later ones are answered here. After each transaction the session is free for
the next client that sends something.
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from typing import Self

STARTUP = 196_608  # version 3.0 of the protocol
READY, NUMBER = b"Z", b"K"
IDLE = b"I"


class Pooler:
    """In: port  of the server, on this machine."""

    def __init__(self, port: int | None) -> None:
        assert port, "the server has none yet"
        self._server = socket.create_connection(("127.0.0.1", port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._free, self._greeting = threading.Lock(), b""
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError, EOFError), client:
            start = _startup(client)
            if struct.unpack("!i", start[4:8]) != (STARTUP,):  # it asks for TLS
                client.sendall(b"N")
                start = _startup(client)
            if self._greeting:
                client.sendall(self._greeting)
            else:
                self._introduce(client, start)
            while True:
                self._transaction(client)

    def _introduce(self, client: socket.socket, start: bytes) -> None:
        """Let the first client log in, and keep what the server says then. Poolers have numbers of processes of their own."""
        self._server.sendall(start)
        is_in = False
        while True:
            kind, message = _message(self._server)
            is_in = is_in or message == b"R" + struct.pack("!ii", 8, 0)
            if kind == NUMBER:
                message = NUMBER + struct.pack("!iii", 12, 1, 2)
            client.sendall(message)
            if is_in:
                self._greeting += message
            elif kind == b"R" and message[5:9] != struct.pack("!i", 12):  # it asks for an answer
                self._server.sendall(_message(client)[1])
            if kind == READY:
                return

    def _transaction(self, client: socket.socket) -> None:
        kind, message = _message(client)
        if kind == b"X":
            raise EOFError
        with self._free:
            state = b""
            while state != IDLE:
                self._server.sendall(message)
                while kind not in (b"Q", b"S"):  # up to the end of what belongs together
                    kind, message = _message(client)
                    self._server.sendall(message)
                answer = b""
                while answer != READY:
                    answer, message = _message(self._server)
                    client.sendall(message)
                state = message[5:]
                if state != IDLE:
                    kind, message = _message(client)


def _startup(client: socket.socket) -> bytes:
    size = _exactly(client, 4)
    return size + _exactly(client, struct.unpack("!i", size)[0] - 4)


def _message(of: socket.socket) -> tuple[bytes, bytes]:
    head = _exactly(of, 5)
    return head[:1], head + _exactly(of, struct.unpack("!i", head[1:])[0] - 4)


def _exactly(of: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = of.recv(size - len(found))
        if not part:
            raise EOFError
        found += part
    return found
