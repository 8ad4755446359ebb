"""Begin the rebuild of a node with its opening balance, where the rows before it are gone.

Law (L40): the balance of the changed description is a projection of the balance that is there (see
`fold.aggregates.projection`), and so are the rows that were final at the cut. The rest of the log leads from there to what
the whole log would have led to.

The balance is projected once, before anything is folded, and lies beside the tables; the swap brings it in. From then on the
file of the balance names both, and each description reads its own. The balance of the description before goes once the node
is the new one.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from headrace import lake as lakes
from headrace.description import quote
from headrace.description.feeds import RESULT
from headrace.engine.state_files import StatePlace, StateSource, write_merged
from headrace.engine.state_layout import SHARED, TABLE
from headrace.engine.state_parquet import open_parquet
from headrace.errors import TerminalError
from headrace.fold.aggregates import Aggregates
from headrace.fold.aggregates.projection import columns_from, project
from headrace.fold.contract import BATCH
from headrace.lake import kinds, small_files
from headrace.nodes.balances.opening import (
    BEFORE,
    STATE,
    balance_by,
    copy_state,
    cut_logs,
    forget_openings_but,
    opening_entry,
)
from headrace.nodes.balances.rebuild_from_balance import rebuild_from_balance
from headrace.nodes.bound_operator import bound
from headrace.nodes.progress import Progress
from headrace.nodes.rows.node_frames import is_settled
from headrace.nodes.standing.state_commits import state_record, state_written_by, writings_read
from headrace.spark.lake_rows import append_rows, read_table, spark_schema
from headrace.spark.rows.cast_by_name import cast_by_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.engine.state_layout import StateLayout
    from headrace.lake import NewFile
    from headrace.lake.paths import Lake
    from headrace.nodes.bound_operator import BoundOperator


def begin_from_balance(spark: SparkSession, lake: Lake, scratch: Lake, node: Node) -> bool:
    """Let a rebuild begin where the balance of the node stands, unless it has begun; False: its whole log is there.

    In:     scratch  where its tables lie (see `rebuild_from_balance.rebuild_place`)
    Raises: TerminalError when the balance does not tell what the node needs
    """
    name = node.required_name
    if small_files.exists(scratch.opening(name)):
        return True
    if not cut_logs(lake, node):
        return False
    rebuild = rebuild_from_balance(lake, node)
    if rebuild.sources is None or not rebuild.suffices:
        raise TerminalError(
            f"Node '{name}': its opening balance does not tell what its changed description needs.",
            detail=rebuild.why_not,
            hint="Run `headrace plan`: it names what is missing, and the ways out.",
        )
    assert scratch.nodes is not None
    small_files.delete(scratch.nodes)  # begun, and broken off
    lakes.forget(scratch.nodes)
    entry: Mapping[str, Any] = balance_by(lake, name, state_written_by(lake, name)) or {}
    progress, of = Progress.from_json({**entry["progress"], "sizes": {}}), bound(spark, node)
    described: Any = node  # has_balance: it has aggregates
    aggregates = Aggregates.of(described.aggregates, of.rows.packed.feeds[RESULT].schema)
    columns = columns_from(aggregates, rebuild.sources)
    source = StateSource.committed(lakes.open_table(f"{lake.openings(name)}/{entry['folder']}/{STATE}"))
    folder = uuid.uuid4().hex
    uri = f"{scratch.openings(name)}/{folder}/{STATE}"
    _state_table(of, uri).append([*_projected(source, of.operator.layout, uri, columns)], _signed(name))
    _settled_rows(spark, lake, scratch, node, progress, rebuild.sources)
    copied = copy_state(StateSource.committed(lakes.open_table(uri)), scratch.state(name))
    record = state_record(node, progress, writings_read(lake, node))
    _state_table(of, scratch.state(name)).append(copied, record)
    small_files.write_json(scratch.opening(name), opening_entry(node, folder, progress))
    return True


def bring_balance(
    spark: SparkSession, lake: Lake, scratch: Lake, node: Node, require_leases: Callable[[], object]
) -> bool:
    """Put the balance with which a rebuild began beside the one that is there; False: it began with the whole log.

    In: require_leases  raises when the caller does not hold the node's leases any more
    """
    name = node.required_name
    mine = small_files.read_json(scratch.opening(name))
    if mine is None:
        return False
    uri = f"{lake.openings(name)}/{mine['folder']}/{STATE}"
    table = lakes.open_table(f"{scratch.openings(name)}/{mine['folder']}/{STATE}")
    made = _state_table(bound(spark, node), uri)
    if lakes.last_commit(lakes.open_table(uri), f"opening/{name}") is None:
        made.append(copy_state(StateSource.committed(table), uri), _signed(name))
    require_leases()  # who has the node now may have struck another balance
    small_files.write_json(lake.opening(name), mine | _balance_before(lake, name, mine))
    return True


def _balance_before(lake: Lake, name: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """The balance that the tables are of, as the file of a balance has it beside another."""
    found = balance_by(lake, name, state_written_by(lake, name))
    if found is None or found["fingerprint"] == own["fingerprint"]:
        return {}
    return {BEFORE: {key: of for key, of in found.items() if key != BEFORE}}


def settle_balance(lake: Lake, scratch: Lake, name: str) -> None:
    """Forget the balance of the description before, once the node is the new one."""
    mine = small_files.read_json(scratch.opening(name))
    if mine is not None:
        small_files.write_json(lake.opening(name), mine)
        forget_openings_but(lake, name, mine["folder"])


def _state_table(of: BoundOperator, uri: str) -> lakes.TableWriter:
    table = lakes.create(uri, of.state_schema, kinds.state(tuple(SHARED.names)))
    return lakes.TableWriter(table, lakes.APPENDER)


def _signed(name: str) -> dict[str, str]:
    return {"writer": f"opening/{name}"}


def _projected(
    source: StateSource, layout: StateLayout, uri: str, columns: Mapping[str, str]
) -> Iterator[NewFile]:
    """Files with the rows of a state under other columns, each of a file of the source."""
    for table in layout.tables:
        for name, file in source.of(table).files.items():
            with open_parquet(f"{source.uri}/{name}", file.size, None) as parquet:
                if table not in parquet.schema_arrow.names:
                    continue
                rows = parquet.read(columns=[*SHARED.names, table])
            rows = rows.filter(pc.equal(rows[TABLE], table))
            if rows.num_rows:
                projected = layout.unpacked(table, _with_columns(rows, layout, table, columns))
                written = write_merged(StatePlace(uri, layout, table), projected, pc.max(rows[BATCH]).as_py())
                assert written is not None
                yield written


def _with_columns(rows: pa.Table, layout: StateLayout, table: str, columns: Mapping[str, str]) -> pa.Table:
    """Rows of a file with the columns of a layout. In: columns  the former names (see `columns_from`)."""
    wanted = pa.schema(list(layout.file_schema(table).field(table).type))
    own = project(pa.Table.from_struct_array(rows[table]), wanted, columns)
    return rows.set_column(rows.schema.get_field_index(table), table, own.to_struct_array())


def _settled_rows(
    spark: SparkSession,
    lake: Lake,
    scratch: Lake,
    node: Node,
    progress: Progress,
    sources: Mapping[str, str],
) -> None:
    """Take over the rows that were final at the cut; of current results the state has all."""
    name = node.required_name
    if not node.has_days:
        return
    made = lakes.create(scratch.table(name), bound(spark, node).result_schema, kinds.RESULTS)
    rows = read_table(spark, lake.table(name)).where(is_settled(node, progress))
    picked = [
        cast_by_name(F.col(quote(before)), rows.schema[before].dataType, field.dataType).alias(field.name)
        for field in spark_schema(made).fields
        for before in [sources.get(field.name, field.name)]
    ]
    append_rows(lakes.TableWriter(made, lakes.APPENDER), rows.select(*picked), _signed(name))
