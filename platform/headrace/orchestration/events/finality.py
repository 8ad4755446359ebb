"""Days, or hours, that are final: an asset for each node whose partitions the stream materializes, each once.

A partition of a table is materialized by backfills, too, also of a day that is still open. A partition of `final/<node>` is
materialized by the stream alone, when everything that began in it is closed: no later record changes its rows.
"""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import dagster as dg

from headrace.nodes.days import last_complete_day
from headrace.operators.registry import operator_for
from headrace.orchestration.events.completed import Tries
from headrace.orchestration.keys import DATA_VERSION_TAG, final_key, stream_key, table_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.description import Node
    from headrace.orchestration.pipeline import Pipeline

Unit = Literal["day", "hour"]
HOUR = dt.timedelta(hours=1)
HOUR_KEY, DAY_KEY = "%Y-%m-%d-%H:%M", "%Y-%m-%d"  # as Dagster names partitions


def once_final() -> dg.AutomationCondition[Any]:
    """Start an asset once for each partition of an asset `final/<node>` that it depends on, when it is final.

    Law: a partition that has been started, or materialized by hand, is not started again, whatever its upstream does; nor
    are partitions that were final before the condition was first evaluated.
    """
    condition = (
        dg.AutomationCondition.any_deps_updated().since_last_handled()
        & dg.AutomationCondition.missing()
        & ~dg.AutomationCondition.any_deps_missing()
        & ~dg.AutomationCondition.in_progress()
    )
    return condition.with_label("once_final")


def final_spec(node: Node, pipeline: Pipeline) -> dg.AssetSpec:
    """The asset whose partitions are the final days or hours of a node."""
    unit, name = pipeline.finals[node.required_name], node.required_name
    return dg.AssetSpec(
        final_key(node),
        deps=[table_key(node)],
        group_name=pipeline.group,
        kinds={"delta"},
        description=f"The {unit}s of {name} that are final: the stream materializes each once, when all that began in it "
        "is closed.",
        partitions_def=_partitions(unit, pipeline),
    )


def finals_of(definitions: dg.Definitions) -> dict[str, Unit]:
    """The nodes whose final days or hours are assets of a code location, as `build_definitions` takes them."""
    graph = definitions.resolve_asset_graph()
    keys = [key for key in graph.get_all_asset_keys() if len(key.path) == 2 and key.path[0] == "final"]
    hourly = {key for key in keys if isinstance(graph.get(key).partitions_def, dg.HourlyPartitionsDefinition)}
    return {key.path[1]: "hour" if key in hourly else "day" for key in keys}


class FinalParts:
    """Materializes the partitions of `final/<node>` from a stream's run."""

    def __init__(self, context: dg.AssetExecutionContext, pipeline: Pipeline, node: Node) -> None:
        """Nothing is read before the first `report`."""
        self._context, self._node, self._key = context, node, final_key(node)
        self._unit: Unit = pipeline.finals[node.required_name]
        self._first_day = pipeline.days.start.date()
        self._version = pipeline.versions()[stream_key(node)]
        self._through: str | None = None
        self._tries = Tries(context, f"{self._key.to_user_string()}: final {self._unit}s")

    def report(self, closed_ms: int | None, read_ms: int | None = None) -> None:
        """Materialize what has become final since the last one. The first time: the newest one alone. Never raises.

        In: as of `last_complete_day`
        """
        last = _last_final(self._node, self._unit, closed_ms, read_ms)
        if last is None or last.date() < self._first_day:
            return
        if self._through is None or _text(last, self._unit) > self._through:
            self._tries.report(partial(self._report_through, last))

    def _report_through(self, last: dt.datetime) -> None:
        if self._through is None:
            self._through = max(self._context.instance.get_materialized_partitions(self._key), default=None)
        for part in _parts(self._through, last, self._unit):
            self._context.log_event(
                dg.AssetMaterialization(
                    self._key,
                    partition=_text(part, self._unit),
                    description=f"Everything that began in this {self._unit} is closed.",
                    tags={DATA_VERSION_TAG: self._version},
                )
            )
            self._through = _text(part, self._unit)


def _last_final(node: Node, unit: Unit, closed_ms: int | None, read_ms: int | None) -> dt.datetime | None:
    """The beginning of the last part with all its windows or batches closed."""
    if unit == "day":
        day = last_complete_day(node, closed_ms, read_ms)
        return None if day is None else dt.datetime.combine(day, dt.time())
    from_ms = operator_for(node).open_from_ms(closed_ms, read_ms)
    if from_ms is None:
        return None
    first_open = dt.datetime.fromtimestamp(from_ms // 3_600_000 * 3_600, dt.UTC).replace(tzinfo=None)
    return first_open - HOUR


def _parts(after: str | None, last: dt.datetime, unit: Unit) -> Iterator[dt.datetime]:
    """The parts after one, through another; None: the last one alone."""
    step = HOUR if unit == "hour" else dt.timedelta(days=1)
    part = (
        last if after is None else dt.datetime.strptime(after, HOUR_KEY if unit == "hour" else DAY_KEY) + step
    )
    while part <= last:
        yield part
        part += step


def _text(part: dt.datetime, unit: Unit) -> str:
    return part.strftime(HOUR_KEY if unit == "hour" else DAY_KEY)


def _partitions(unit: Unit, pipeline: Pipeline) -> dg.TimeWindowPartitionsDefinition:
    if unit == "day":
        return pipeline.days
    return dg.HourlyPartitionsDefinition(pipeline.days.start.replace(tzinfo=None), end_offset=1)
