"""The check of mirrored tables, `iceberg_equals_delta`; there is one where the settings name a catalog."""

from collections.abc import Sequence

import dagster as dg

from headrace.mirror.equality import CLAIM, iceberg_equals_delta
from headrace.mirror.mirrored_table import VERSION
from headrace.mirror.mirrors import Mirrors
from headrace.orchestration.keys import log_key, op_name, table_key
from headrace.orchestration.pipeline import Pipeline
from headrace.orchestration.resources import LakeResource
from headrace.settings import IcebergSettings

NAME = "iceberg_equals_delta"


def mirror_checks(pipeline: Pipeline) -> Sequence[dg.AssetChecksDefinition]:
    """Make the check of each table that is mirrored. It needs no Spark."""
    settings = IcebergSettings()
    logs = [topic for topic in pipeline.own_topics if settings.mirrors_log(topic.name)]
    nodes = [node for node in pipeline.nodes if settings.mirrors(node.required_name)]
    assets = {f"log/{topic.name}": log_key(topic) for topic in logs}
    assets |= {node.required_name: table_key(node) for node in nodes}
    return [_check(asset, key) for asset, key in assets.items()]


def _check(asset: str, key: dg.AssetKey) -> dg.AssetChecksDefinition:
    @dg.multi_asset_check(
        name=op_name("check_mirror", asset),
        specs=[dg.AssetCheckSpec(NAME, asset=key, description=CLAIM)],
        description=f"Compares the Iceberg mirror of `{asset}` with its table.",
    )
    def check(lake: LakeResource) -> dg.AssetCheckResult:
        mirror = Mirrors(lake.lake).of(asset)
        assert mirror is not None
        found = iceberg_equals_delta(mirror)
        metadata = {} if found.version is None else {VERSION: found.version}
        return dg.AssetCheckResult(
            asset_key=key,
            check_name=NAME,
            passed=found.equal,
            severity=dg.AssetCheckSeverity.WARN,  # the table itself is right
            description=found.sentence,
            metadata=metadata,
        )

    return check
