"""Assets: for each topic its log, for each node the running query and the table, as people see them."""

import datetime as dt
from collections.abc import Iterator

import dagster as dg
from dagster_pyspark import LazyPySparkResource

from headrace.description import Node, NodeReference, Topic, describe, is_unnamed, written_by
from headrace.orchestration.events.columns import log_table_schema, result_table_schema
from headrace.orchestration.events.lineage import column_lineage
from headrace.orchestration.jobs.backfills import BackfillConfig, backfill
from headrace.orchestration.keys import (
    BACKFILL_POOL,
    log_key,
    op_name,
    stream_key,
    stream_named,
    table_key,
)
from headrace.orchestration.pipeline import Pipeline
from headrace.orchestration.resources import LakeResource
from headrace.orchestration.streams import StreamConfig, host_streams

# The keys by which Dagster's pages and catalogues know a table. Dagster documents them; it does not export a class for them.
SCHEMA, LINEAGE = "dagster/column_schema", "dagster/column_lineage"
TABLE_NAME, STORAGE_KIND, URI = "dagster/table_name", "dagster/storage_kind", "dagster/uri"


def streaming_assets(pipeline: Pipeline) -> dg.AssetsDefinition:
    """Make the assets of every log and running query of a pipeline: one run hosts those that are selected."""
    specs = [_log_spec(topic, pipeline) for topic in pipeline.own_topics]
    specs += [_stream_spec(node, pipeline) for node in pipeline.nodes]

    @dg.multi_asset(name=op_name("host", pipeline.name), specs=specs, can_subset=True)
    def streams(
        context: dg.AssetExecutionContext,
        config: StreamConfig,
        spark: LazyPySparkResource,
        lake: LakeResource,
    ) -> Iterator[dg.MaterializeResult[None]]:
        host_streams(context, pipeline, config, spark, lake)
        yield from ()  # all was reported while it ran

    return streams


def table_asset(node: Node, pipeline: Pipeline) -> dg.AssetsDefinition:
    """Make the asset of a node's result table; to materialize days of it is a backfill."""

    @dg.multi_asset(
        name=op_name("recompute", node.required_name),
        specs=[_table_spec(node, pipeline)],
        partitions_def=_days(node, pipeline),
        backfill_policy=dg.BackfillPolicy.single_run(),
        pool=BACKFILL_POOL,
    )
    def table(
        context: dg.AssetExecutionContext,
        config: BackfillConfig,
        spark: LazyPySparkResource,
        lake: LakeResource,
    ) -> dg.MaterializeResult[None]:
        return backfill(context, node, config, spark, lake)

    return table


def _log_spec(topic: Topic, pipeline: Pipeline) -> dg.AssetSpec:
    return dg.AssetSpec(
        log_key(topic),
        group_name=pipeline.group,
        kinds={"kafka", "delta", "spark"},
        description=(
            f"The log of Kafka topic {topic.name}. It holds each record once, in one order, with its stream time and "
            "every other decision about it. All tables follow from it.\n\n" + _how_to_start(pipeline)
        ),
        owners=pipeline.owners_of(log_key(topic)),
        metadata={
            SCHEMA: log_table_schema(topic),
            TABLE_NAME: f"logs.{topic.name}",
            STORAGE_KIND: "delta",
            **_uri(pipeline, f"logs/{topic.name}"),
            "topic": topic.name,
            "starts at": str(topic.start),
            "table": f"logs/{topic.name} below the lake's root",
        },
        freshness_policy=_freshness(pipeline),
        skippable=True,
    )


def _stream_spec(node: Node, pipeline: Pipeline) -> dg.AssetSpec:
    name = node.required_name
    return dg.AssetSpec(
        stream_key(node),
        deps=_read_by(node),
        group_name=pipeline.group,
        kinds={"spark", "stream"},
        description=(
            f"The running query that writes the table {name}. Look there for results, backfills and checks. "
            "While the query runs, this page shows rows per second, lag, stream time and late records.\n\n"
            + _how_to_start(pipeline)
        ),
        owners=pipeline.owners_of(table_key(node), node.owners),
        code_version=node.fingerprint()[:12],
        freshness_policy=_freshness(pipeline),
        skippable=True,
    )


def _read_by(node: Node) -> list[dg.AssetKey]:
    """The logs and running queries that a node reads; in place of a step without a name those that it reads."""
    found: dict[dg.AssetKey, None] = {}
    for topic in node.topics:
        of = written_by(topic)
        # Another pipeline has the asset, in this code location or elsewhere.
        if isinstance(topic, NodeReference):
            found[stream_named(topic.node)] = None
        elif of is not None and is_unnamed(of.required_name):
            found |= dict.fromkeys(_read_by(of))
        else:
            found[log_key(topic) if of is None else stream_key(of)] = None
    return [*found]


def _table_spec(node: Node, pipeline: Pipeline) -> dg.AssetSpec:
    lineage = column_lineage(node)
    return dg.AssetSpec(
        table_key(node),
        deps=[stream_key(node)],
        group_name=pipeline.group,
        kinds={"delta", "table"},
        description=_table_text(node),
        owners=pipeline.owners_of(table_key(node), node.owners),
        code_version=node.fingerprint()[:12],
        partitions_def=_days(node, pipeline),
        metadata={
            SCHEMA: result_table_schema(node),
            **({} if lineage is None else {LINEAGE: lineage}),
            TABLE_NAME: f"tables.{node.required_name}",
            STORAGE_KIND: "delta",
            **_uri(pipeline, f"tables/{node.required_name}"),
            "table": f"tables/{node.required_name} below the lake's root",
            "made of": dg.MetadataValue.md(f"```\n{describe(node)}\n```"),
            "picture": dg.MetadataValue.md(f"```mermaid\n{describe(node).mermaid}\n```"),
        },
    )


def _uri(pipeline: Pipeline, path: str) -> dict[str, str]:
    """Where a table lies, if the lake's root is known when definitions load."""
    return {} if pipeline.lake_root is None else {URI: f"{pipeline.lake_root.rstrip('/')}/{path}"}


def _freshness(pipeline: Pipeline) -> dg.FreshnessPolicy | None:
    """A running stream reports its assets every ten minutes, whether records come or not."""
    if not pipeline.stale_after_ms:
        return None
    fail = dt.timedelta(milliseconds=pipeline.stale_after_ms)
    return dg.FreshnessPolicy.time_window(fail_window=fail, warn_window=fail / 2)


def _days(node: Node, pipeline: Pipeline) -> dg.DailyPartitionsDefinition | None:
    """Rows that are revised belong to no day: their table is recomputed as a whole."""
    return None if node.day_column is None else pipeline.days


def _how_to_start(pipeline: Pipeline) -> str:
    return (
        f"To start it, switch on the sensor `keep_{pipeline.name}_running`, or materialize it here to start it once. "
        "To stop it, terminate its run: it finishes its micro-batches first."
    )


def _table_text(node: Node) -> str:
    how = (
        "The stream writes this table, and reports each day that it has completed. Materializing days recomputes "
        "them from the log, compares row by row, and replaces only rows that differ."
        if node.day_column
        else "The stream folds changes into this table about once a minute. Materializing it recomputes it from the log, "
        "compares row by row, and replaces only rows that differ."
    )
    why = (
        f"`headrace why {node.required_name} COLUMN=VALUE` names the records behind a row, and "
        "`headrace why-not TOPIC PARTITION OFFSET` says what has become of a record."
    )
    return "\n\n".join(filter(None, (node.description, node.in_words, how, why)))
