"""A pipeline: the nodes that one stream run hosts, and what Dagster calls them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

from dagster import AssetCheckKey, DailyPartitionsDefinition

from headrace.description.checks import checked_owners
from headrace.description.durations import duration_ms, format_duration
from headrace.errors import DescriptionError
from headrace.nodes.descriptions.sink_settings import reached_by
from headrace.nodes.descriptions.topics import is_hosted, topics_below, topics_of
from headrace.orchestration.keys import ADVANCING, log_key, op_name, query_of, stream_key, table_key
from headrace.quality import DEFAULT_THRESHOLDS, log_checks, node_checks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dagster import AssetKey

    from headrace.description import Duration, Node, Topic
    from headrace.quality import Thresholds
    from headrace.spark.kafka import KafkaSettings

STALE_AFTER_LEAST_MS = 120_000  # the warning comes at half of it, and Dagster takes no less than a minute


@dataclass(frozen=True)
class Pipeline:
    """Some nodes and their topics.

    name   of the stream run, its job and its tag
    group  under which the asset graph shows them
    days   the partitions of the result tables, UTC days of `window_start`
    kafka  None: read from the environment when a run starts
    standby  whether a second run waits, warm, and takes over when the first one ends
    logs_elsewhere  topics whose logs are assets of another pipeline; a run of this one writes them while none of that does
    thresholds, owners  of logs and tables, by asset key: `log/<topic>` or the node's name
    lake_root       where the tables lie; None: it is known only when a run starts
    finals          nodes whose final days or hours are assets, with "day" or "hour"
    stale_after_ms  when logs and streams that report nothing are stale; 0: never
    """

    name: str
    nodes: tuple[Node, ...]
    group: str
    days: DailyPartitionsDefinition
    kafka: KafkaSettings | None = None
    thresholds: Mapping[str, Thresholds] = field(default_factory=dict)
    owners: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    standby: bool = False
    logs_elsewhere: tuple[str, ...] = ()
    lake_root: str | None = None
    stale_after_ms: int = 0
    finals: Mapping[str, Literal["day", "hour"]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse words about assets that there are not."""
        unread = sorted({*self.logs_elsewhere} - {topic.name for topic in self.topics})
        if unread:
            raise DescriptionError(
                f"logs_elsewhere: no node reads topic {unread[0]!r}.",
                hint=f"The topics are {', '.join(topic.name for topic in self.topics)}.",
            )
        self._require_days()
        if 0 < self.stale_after_ms < STALE_AFTER_LEAST_MS:
            raise DescriptionError(
                f"stale_after: {format_duration(self.stale_after_ms)} is too short for Dagster.",
                hint="Give '30 minutes' or more, for a stream that runs reports every ten minutes; 0: never.",
            )
        known = [key.to_user_string() for key in (*map(log_key, self.own_topics), *self.table_keys)]
        for what, asked in (("thresholds", self.thresholds), ("owners", self.owners)):
            unknown = sorted(asked.keys() - set(known))
            if unknown:
                raise DescriptionError(
                    f"{what}: there is no asset {unknown[0]!r}.", hint=f"There are: {', '.join(known)}."
                )

    def _require_days(self) -> None:
        """Refuse final days of nodes that there are not, or whose rows belong to no day."""
        dated = {node.required_name: node for node in self.nodes if node.day_column is not None}
        for name, unit in self.finals.items():
            if name not in dated or unit not in ("day", "hour"):
                raise DescriptionError(
                    f"finals: {name!r} has no final {unit}s.",
                    hint=f"Nodes whose rows belong to a day: {', '.join(dated) or 'none'}. Write 'day' or 'hour'.",
                )

    def thresholds_of(self, key: AssetKey) -> Thresholds:
        """Give the thresholds of a log or a table."""
        return self.thresholds.get(key.to_user_string(), DEFAULT_THRESHOLDS)

    def owners_of(self, key: AssetKey, described: Sequence[str] = ()) -> list[str]:
        """Give the owners of a log or table, those in its description first."""
        return [*described, *self.owners.get(key.to_user_string(), ())]

    @property
    def suffix(self) -> str:
        """The end of its jobs' names, which tells them from those of other pipelines."""
        return "" if self.name == "streams" else f"_{self.name}"

    @property
    def runs(self) -> tuple[str, ...]:
        """The names of the runs that may host it: of their jobs, and the values of their tag."""
        return (self.name, f"{self.name}_standby") if self.standby else (self.name,)

    @property
    def topics(self) -> tuple[Topic, ...]:
        """The topics that the nodes read, each once."""
        return tuple(topics_of(self.nodes).values())

    @property
    def own_topics(self) -> tuple[Topic, ...]:
        """The topics whose logs are assets of this pipeline."""
        return tuple(topic for topic in self.topics if topic.name not in self.logs_elsewhere)

    def hosted(self, selected: Iterable[AssetKey]) -> set[str]:
        """The queries of a run for the assets that are selected; also logs that are assets elsewhere, if it reads them."""
        chosen = {query_of(key) for key in selected}
        nodes = [node for node in self.nodes if is_hosted(node, self.nodes, chosen)]
        read = {topic.name for topic in topics_below(nodes)}
        return chosen | {f"log/{name}" for name in self.logs_elsewhere if name in read}

    @property
    def streaming_keys(self) -> list[AssetKey]:
        """The assets that a stream run keeps up to date."""
        return [*map(log_key, self.own_topics), *map(stream_key, self.nodes)]

    @property
    def table_keys(self) -> list[AssetKey]:
        """The result tables."""
        return [table_key(node) for node in self.nodes]

    def versions(self) -> dict[AssetKey, str]:
        """For each asset what changes only with its description: new rows make no table downstream stale."""
        logs = {log_key(topic): "log" for topic in self.topics}
        streams = {stream_key(node): node.fingerprint()[:12] for node in self.nodes}
        return logs | streams

    def checks(self) -> dict[AssetKey, list[AssetCheckKey]]:
        """The checks of each log, running query and table that is an asset of this pipeline."""
        logs = {log_key(topic): [*log_checks(topic), ADVANCING] for topic in self.own_topics}
        streams = {stream_key(node): [ADVANCING] for node in self.nodes}
        tables = {table_key(node): list(node_checks(node)) for node in self.nodes}
        checks = logs | streams | tables
        return {key: [AssetCheckKey(key, name) for name in names] for key, names in checks.items()}


class Options(TypedDict, total=False):
    """The options of a pipeline: parameters of `build_definitions`, but for `name`, which is `stream_name` there."""

    group: str
    name: str
    kafka: KafkaSettings | None
    thresholds: Mapping[str, Thresholds] | None
    owners: Mapping[str, Sequence[str]] | None
    standby: bool
    logs_elsewhere: Sequence[str]
    lake_root: str | None
    stale_after: Duration
    finals: Mapping[str, Literal["day", "hour"]] | None


def pipeline_of(nodes: Sequence[Node], *, partitions_start: str, **options: Unpack[Options]) -> Pipeline:
    """A pipeline whose tables have a partition for each day from YYYY-MM-DD through today."""
    kafka, owners = options.get("kafka"), options.get("owners") or {}
    return Pipeline(
        op_name(options.get("name", "streams")),
        tuple(nodes if kafka is None else reached_by(nodes, kafka)),
        options.get("group", "streams"),
        DailyPartitionsDefinition(partitions_start, end_offset=1),  # today can be verified as far as it is
        kafka,
        dict(options.get("thresholds") or {}),
        {asset: checked_owners(names) for asset, names in owners.items()},
        standby=options.get("standby", False),
        logs_elsewhere=tuple(options.get("logs_elsewhere", ())),
        lake_root=options.get("lake_root"),
        stale_after_ms=duration_ms(options.get("stale_after", 0), "stale_after"),
        finals=dict(options.get("finals") or {}),
    )
