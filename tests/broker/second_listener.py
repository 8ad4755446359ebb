"""A broker with a second listener, whose clients prove who they are; tests prepare topics by the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.local.servers.broker import Broker
from headrace.local.servers.broker_config import HOST, free_port

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.local.servers.broker_config import Quorum


class SecondListener(Broker):
    """The listener has a port of its own."""

    def __init__(self, data_dir: Path, listener: str, protocol: str, properties: str) -> None:
        """In: properties  lines for the broker's file, beside those that name the listener and its protocol."""
        super().__init__(data_dir)
        self._listener, self._protocol, self._own_properties = listener, protocol, properties
        self.second_servers = f"{HOST}:{free_port()}"

    def _write_properties(self, quorum: Quorum) -> Path:
        path = super()._write_properties(quorum)
        text = path.read_text()
        for name in ("listeners", "advertised.listeners"):
            text = text.replace(f"\n{name}=", f"\n{name}={self._listener}://{self.second_servers},")
        text = text.replace("protocol.map=", f"protocol.map={self._listener}:{self._protocol},")
        path.write_text(text + self._own_properties)
        return path
