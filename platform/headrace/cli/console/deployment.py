"""The nodes of a pipeline and the lake that holds their tables, as a command names them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headrace.cli.console.options import DEFAULTS, Pipeline, Root
from headrace.description import is_unnamed, with_unnamed
from headrace.errors import TerminalError
from headrace.nodes.descriptions.asset_names import stream_name
from headrace.settings import load_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node, Topic
    from headrace.lake.paths import Lake


@dataclass(frozen=True)
class Deployment:
    """The options `--pipeline` and `--lake`, and what they name."""

    pipeline: Pipeline = DEFAULTS.pipeline
    lake_root: Root = DEFAULTS.lake

    @cached_property
    def nodes(self) -> Sequence[Node]:
        """The pipeline's nodes. The pipeline is loaded once."""
        return load_pipeline(self.pipeline)

    @property
    def lake(self) -> Lake:
        """The lake."""
        from headrace.lake.paths import Lake

        return Lake(self.lake_root)

    def node(self, name: str) -> Node:
        """The node of this name; a step without a name has the one that the lake knows it by.

        Raises: typer.BadParameter when there is none, with the names that there are
        """
        nodes = {node.required_name: node for node in with_unnamed(self.nodes)}
        if name not in nodes:
            known = ", ".join(sorted(each for each in nodes if not is_unnamed(each)))
            raise typer.BadParameter(f"no node {name!r} in {self.pipeline}; there are: {known}")
        return nodes[name]

    def topic(self, name: str) -> Topic:
        """The topic of this name that nodes read.

        Raises: typer.BadParameter when there is none, with the names that there are
        """
        from headrace.nodes.descriptions.topics import topics_of

        topics = topics_of(self.nodes)
        if name not in topics:
            known = ", ".join(sorted(topics))
            raise typer.BadParameter(f"no topic {name!r} in {self.pipeline}; there are: {known}")
        return topics[name]

    def topic_or_node(self, name: str) -> Topic | Node:
        """The topic or the node of a name; `log/<topic>` and `stream/<node>_stream` say which, as `headrace status` does.

        Raises: typer.BadParameter when there is neither, with the names that there are
        """
        from headrace.nodes.descriptions.topics import topics_of

        topics = topics_of(self.nodes)
        kind, _, rest = name.rpartition("/")
        if kind in ("", "log") and rest in topics:
            return topics[rest]
        for node in with_unnamed(self.nodes):
            if name in (node.required_name, stream_name(node.required_name)):
                return node
        known = [
            *(f"log/{each}" for each in topics),
            *(stream_name(each.required_name) for each in self.nodes),
        ]
        said = f"no topic and no node {name!r} in {self.pipeline}; there are: {', '.join(known)}"
        raise typer.BadParameter(said)

    def session(self) -> SparkSession:
        """Start Spark."""
        return session(self.lake_root)

    def session_when_needed(self) -> SparkSession:
        """A session that starts when something of it is needed."""
        from headrace.spark.on_demand import SparkOnDemand

        return SparkOnDemand.session(self.session)

    def require_lake(self) -> None:
        """Refuse a lake that no stream has written.

        Raises: TerminalError that names the lake, and settings files of a `headrace dev` or a demo below this folder
        """
        from headrace.lake import small_files
        from headrace.lake.format import is_known
        from headrace.local.servers.settings_file import NAME, second_terminal

        known = self.lake.root
        if is_known(known) or small_files.names(known):
            return
        near = sorted(Path.cwd().glob(f".headrace/*/{NAME}"))
        raise TerminalError(
            f"There is no lake at {self.lake_root}: no stream has written there.",
            detail="\n".join(f"Settings of another lake are here. {second_terminal(path)}" for path in near)
            or None,
            hint="Start a stream (headrace dev, headrace run), or name the lake that a stream writes, by --lake or "
            "HEADRACE_LAKE. A demo, and headrace dev, print a line that sets it as they start.",
        )


USUAL = Deployment()


def session(root: str) -> SparkSession:
    """Start Spark for the lake of this root."""
    from headrace.spark.jars import spark_jars
    from headrace.spark.session import build_session, configured

    return build_session(configured(spark_jars(), root))
