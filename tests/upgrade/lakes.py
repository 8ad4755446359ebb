"""Lakes that versions of Headrace have written: an archive each, which later versions go on with or refuse.

`python -m tests.upgrade.lakes` writes the lake of this version; do it before a tag.
"""

from __future__ import annotations

import io
import json
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import headrace as hr
from headrace.lake.format import require_format
from headrace.testing import TestDriver

ROOT = Path(__file__).resolve().parents[2]
LAKES = ROOT / "tests" / "fixtures" / "lakes"
ROWS = "rows.json"  # beside the lake: the rows of each node as the version that wrote it had them
MINUTE_MS = 60_000
BEGAN_MS = 1_700_000_040_000

ORDERS = hr.Topic(
    "orders", key="id STRING", value="id STRING, buyer STRING, amount BIGINT", idle_timeout=None
)
BUYERS = hr.Topic("buyers", key="buyer STRING", value="buyer STRING, city STRING", idle_timeout=None)
NODES = [
    ORDERS.group_by("buyer")
    .window(hr.tumbling("1 minute"), grace="1 minute")
    .aggregate(n=hr.count(), total=hr.sum("amount"))
    .suppress(hr.until_window_closes())
    .named("per_minute"),
    ORDERS.group_by("buyer").aggregate(n=hr.count(), total=hr.sum("amount")).named("totals"),
    ORDERS.table().join(BUYERS.table(), on="buyer", how="left").named("orders_with_city"),
    ORDERS.lookup(BUYERS.table(), on="buyer", as_of="event", history="10 minutes").named("dated_orders"),
]


class LakeDriver(TestDriver):
    """A test driver on a lake of an archive; without one on a new lake."""

    __test__ = False

    def __init__(self, archive: Path | None = None) -> None:
        self._archive = archive
        super().__init__(NODES)

    def _root(self, place: str) -> str:
        root = super()._root(place)
        if self._archive is not None:
            with tarfile.open(self._archive) as archive:
                archive.extractall(root.removeprefix("file:"), filter="data")
            self._archive = None
        return root

    def send(self, first: int, last: int) -> None:
        """Send so many orders, two a minute, in two micro-batches; a buyer moves now and then."""
        for number in range(first, last):
            at_ms, buyer = BEGAN_MS + number * MINUTE_MS // 2, f"b{number % 3}"
            value: dict[str, Any] = {"id": f"o{number % 7}", "buyer": buyer, "amount": number}
            self.pipe("orders", key=value["id"], value=value, timestamp_ms=at_ms)
            if number % 5 == 0:
                city = {"buyer": buyer, "city": f"city {number}"}
                self.pipe("buyers", key=buyer, value=city, timestamp_ms=at_ms)
            if number == (first + last) // 2:
                self.cut()
        self.cut()

    def all_rows(self) -> Any:
        """The rows of each node, as JSON has them."""
        rows = {node.required_name: self.rows(node.required_name) for node in NODES}
        return json.loads(json.dumps(rows, default=str))


def version() -> str:
    """The version of this code."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def write(target: Path) -> None:
    """Write a lake, and its rows, into an archive."""
    driver = LakeDriver()
    require_format(driver.lake.root)
    driver.send(0, 20)
    rows = json.dumps(driver.all_rows(), indent=0).encode()
    with tarfile.open(target, "w:gz") as archive:
        archive.add(driver.lake.root.removeprefix("file:"), ".")
        entry = tarfile.TarInfo(ROWS)
        entry.size = len(rows)
        archive.addfile(entry, io.BytesIO(rows))
    driver.close()


if __name__ == "__main__":
    LAKES.mkdir(exist_ok=True)
    write(LAKES / f"{version()}.tar.gz")
