"""The mirrored tables of a lake, by the settings: which there are, and what they are called in the catalog."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from headrace import lake as lakes
from headrace.mirror.catalog import asked, file_uri, open_catalog
from headrace.mirror.mirrored_table import SOURCE, MirroredTable
from headrace.settings.iceberg import IcebergSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.lake.paths import Lake

LOGS = "_logs"  # after the namespace: that of mirrored logs


class Mirrors:
    """The mirror of one lake. Nothing is asked of the catalog before a table is."""

    def __init__(self, lake: Lake, settings: IcebergSettings | None = None) -> None:
        """In: settings  None: those of the environment, which may name no mirror."""
        self._lake, self.settings = lake, settings or IcebergSettings()
        self._catalog: Any = None
        self._tables: dict[str, MirroredTable] = {}

    def of_node(self, node: str) -> MirroredTable | None:
        """The mirror of a node's results; None: they are not mirrored."""
        if not self.settings.mirrors(node):
            return None
        return self._table(self.settings.namespace, node, self._lake.table(node))

    def of_log(self, topic: str) -> MirroredTable | None:
        """The mirror of a topic's log; None: it is not mirrored."""
        if not self.settings.mirrors_log(topic):
            return None
        return self._table(f"{self.settings.namespace}{LOGS}", topic, self._lake.log(topic))

    def of(self, asset: str) -> MirroredTable | None:
        """The mirror of `log/<topic>`, or of a node's results by the node's name."""
        return self.of_log(asset.removeprefix("log/")) if asset.startswith("log/") else self.of_node(asset)

    def drop_gone(self) -> list[str]:
        """Let tables leave the catalog whose Delta table is gone from the lake. Out: their names."""
        if self.settings.uri is None:
            return []
        with asked(catalog := self._opened()):
            return [*self._dropped(catalog)]

    def _dropped(self, catalog: Any) -> Iterator[str]:
        root = f"{file_uri(self._lake.root)}/"
        for namespace in (self.settings.namespace, f"{self.settings.namespace}{LOGS}"):
            if not catalog.namespace_exists(namespace):
                continue
            for identifier in catalog.list_tables(namespace):
                source = catalog.load_table(identifier).properties.get(SOURCE, "")
                if source.startswith(root) and not lakes.exists(
                    f"{self._lake.root}/{source.removeprefix(root)}"
                ):
                    catalog.drop_table(identifier)
                    yield ".".join(identifier)

    def _table(self, namespace: str, name: str, uri: str) -> MirroredTable:
        if uri not in self._tables:
            with asked(catalog := self._opened()):
                catalog.create_namespace_if_not_exists(namespace)
            # Catalogs differ in what a name may hold; all take these.
            self._tables[uri] = MirroredTable(catalog, (namespace, re.sub(r"\W", "_", name.lower())), uri)
        return self._tables[uri]

    def _opened(self) -> Any:
        if self._catalog is None:
            self._catalog = open_catalog(self.settings, self._lake.root)
        return self._catalog
