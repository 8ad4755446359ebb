"""The columns that Spark found for a description, noted beside the node's state, so that others can read it without Spark.

SQL alone tells the types of what a node's steps compute. A stream asks Spark when it starts and notes the answer.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.engine.folding.operators import NodeOperator, operator_of
from headrace.errors import TerminalError
from headrace.lake import small_files
from headrace.nodes.bound_operator import tells_changes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.nodes.bound_operator import BoundOperator


def note_columns(lake: Lake, node: Node, of: BoundOperator) -> None:
    """Note the columns of a node's feeds, unless these are noted already."""
    entry = {"feeds": _texts(of.rows.columns), "computed": _texts(of.computed)}
    path = lake.columns(node.required_name, node.fingerprint())
    if small_files.read_json(path) != entry:
        small_files.write_json(path, entry)


def stored_operator(lake: Lake, node: Node) -> NodeOperator:
    """The operator of a node, made without Spark.

    Raises: TerminalError when no stream of this description has started in the lake yet
    """
    entry = small_files.read_json(lake.columns(node.required_name, node.fingerprint()))
    if entry is None:
        raise TerminalError(
            f"Node '{node.required_name}': the lake does not tell the columns of this description.",
            detail=f"There is no file at {lake.columns(node.required_name, node.fingerprint())}.",
            hint="Start its stream once: it notes them.",
        )
    return operator_of(
        node, _schemas(entry["feeds"]), changes=tells_changes(node), computed=_schemas(entry["computed"])
    )


def _texts(schemas: Mapping[str, pa.Schema]) -> dict[str, str]:
    return {name: base64.b64encode(schema.serialize()).decode() for name, schema in schemas.items()}


def _schemas(texts: Mapping[str, Any]) -> dict[str, pa.Schema]:
    return {name: pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text))) for name, text in texts.items()}
