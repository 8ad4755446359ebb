"""The quality report, served on this machine while the demo runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PLACEHOLDER = (
    "<!doctype html><meta charset=utf-8><meta name=viewport content='width=device-width'><title>Data quality</title>"
    "<p>Nothing has been checked yet. Run the job <b>quality</b> in the Dagster UI, then reload this page.</p>"
)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the demo's terminal shows progress."""

    def end_headers(self) -> None:
        """Pages are written anew by each check."""
        self.send_header("Cache-Control", "no-store")
        super().end_headers()


@contextmanager
def served_report(folder: Path, port: int = 0) -> Iterator[str]:
    """Serve a folder of quality pages on loopback while entered; gives its address.

    In: port  another free one is taken when this is taken
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "index.html").exists():
        (folder / "index.html").write_text(PLACEHOLDER, encoding="utf-8")
    handler = partial(_Quiet, directory=str(folder))
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError:
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="quality report", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
