"""A server behind a slow line: what clients send arrives later by some milliseconds.

`python -m benchmarks.delayed PORT TO_PORT MILLISECONDS` listens on the loopback interface until it is ended. A client waits
that long more for each request; the line is not narrower.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from headrace.local.servers.broker_config import HOST, free_port

CHUNK_BYTES = 1 << 16


async def _pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter, seconds: float) -> None:
    """Pass bytes on, each chunk so long after it came."""
    loop, waiting = asyncio.get_running_loop(), asyncio.Queue[tuple[float, bytes]]()

    async def send() -> None:
        with suppress(ConnectionError):
            while (held := await waiting.get())[1]:
                await asyncio.sleep(held[0] - loop.time())
                sink.write(held[1])
                await sink.drain()
        sink.close()

    sending = asyncio.create_task(send())
    with suppress(ConnectionError):
        while chunk := await source.read(CHUNK_BYTES):
            waiting.put_nowait((loop.time() + seconds, chunk))
    waiting.put_nowait((loop.time(), b""))
    await sending


async def _serve(port: int, to_port: int, seconds: float) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(HOST, to_port)
        await asyncio.gather(_pass_on(reader, back, seconds), _pass_on(there, writer, 0.0))

    server = await asyncio.start_server(connected, HOST, port)
    await server.serve_forever()


@contextmanager
def delayed(endpoint: str, milliseconds: float) -> Iterator[str]:
    """An endpoint that leads to another one, slower. In, Out: URLs of HTTP."""
    if not milliseconds:
        yield endpoint
        return
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.delayed", str(port), str(urlsplit(endpoint).port)]
    process = subprocess.Popen([*command, str(milliseconds)])
    try:
        yield f"http://{HOST}:{port}"
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) / 1000))
