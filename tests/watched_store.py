"""The local S3 server with what only tests and benchmarks ask of it: its requests, and tables in its own catalog."""

from __future__ import annotations

import subprocess
import urllib.request
from collections import Counter
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from headrace.local.object_store import BUCKET, ObjectStore, program
from headrace.local.servers.broker_config import HOST, free_port

REQUESTS = "SeaweedFS_s3_request"  # its counter, by bucket, kind and answer


class WatchedStore(ObjectStore):
    """An S3 server that counts requests, and serves Iceberg's REST catalog at a port. In: iceberg_port  None: a free one"""

    def __init__(
        self,
        data_dir: Path,
        port: int | None = None,
        credentials: tuple[str, str] | None = None,
        iceberg_port: int | None = None,
    ) -> None:
        iceberg, metrics = iceberg_port or free_port(), free_port()
        flags = (f"-s3.port.iceberg={iceberg}", f"-metricsPort={metrics}")
        super().__init__(data_dir, port, credentials, flags)
        self.catalog = f"http://{HOST}:{iceberg}"  # key and secret are its `credential`
        self._metrics = f"http://{HOST}:{metrics}/metrics"

    def requests(self) -> Counter[str]:
        """The requests to its bucket since it began, by kind (`PUT`, `LIST`, …); HEAD counts as GET."""
        found: Counter[str] = Counter()
        with urllib.request.urlopen(self._metrics) as answer:
            for family in text_string_to_metric_families(answer.read().decode()):
                for sample in family.samples if family.name == REQUESTS else ():
                    if sample.labels["bucket"] == BUCKET:
                        found[sample.labels["type"]] += int(sample.value)
        return found

    def create_warehouse(self, name: str) -> None:
        """Make a bucket for tables of the catalog."""
        master, grpc = (self._ports[f"master.port{kind}"] for kind in ("", ".grpc"))
        command = [program(), "shell", f"-master={HOST}:{master}.{grpc}"]
        words = f"s3tables.bucket -create -name {name} -account headrace\n"
        done = subprocess.run(command, input=words, capture_output=True, text=True, timeout=60, check=False)
        assert "ARN" in done.stdout, done.stdout + done.stderr
