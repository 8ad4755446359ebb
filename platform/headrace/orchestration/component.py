"""A component for `dg`: a pipeline as a folder with `defs.yaml`, beside which a module describes the nodes."""

from pathlib import Path
from textwrap import dedent
from typing import Literal

import dagster as dg
from pydantic import BaseModel, Field

from headrace.errors import DescriptionError
from headrace.orchestration.alerting.alert_channels import AlertChannel, EmailAlerts, SlackAlerts
from headrace.orchestration.definitions import build_definitions
from headrace.quality.results import DEFAULT_THRESHOLDS, Thresholds
from headrace.settings.pipeline import load_pipeline, nodes_in

PIPELINE = '''
    """A pipeline: a topic, and a node of it."""

    import headrace as hr

    events = hr.Topic("{topic}", key="id STRING", value="id STRING, amount DOUBLE")

    event_counts = (
        events.group_by("id")
        .window(hr.tumbling("1 minute"), grace="1 minute")
        .aggregate(n=hr.count(), total=hr.sum("amount"))
        .suppress(hr.until_window_closes())
        .named("{node}", description="How many events each id had, and their sum.")
    )
'''


class ScaffoldParams(BaseModel):
    """Holds the parameters that `dg scaffold defs` takes."""

    topic: str = Field(default="events", description="The Kafka topic to begin with.")
    node: str = Field(default="event_counts", description="The name of its table.")


class HeadraceScaffolder(dg.Scaffolder[ScaffoldParams]):
    """Writes `defs.yaml`, and `pipeline.py` with a first node."""

    @classmethod
    def get_scaffold_params(cls) -> type[ScaffoldParams]:
        """Say which parameters `dg scaffold defs` takes."""
        return ScaffoldParams

    def scaffold(self, request: dg.ScaffoldRequest[ScaffoldParams]) -> None:
        """Write both files."""
        params = request.params or ScaffoldParams()
        name = request.target_path.name
        attributes = {"pipeline": "pipeline.py", "stream_name": name, "partitions_start": "2026-01-01"}
        dg.scaffold_component(request, attributes)
        text = dedent(PIPELINE).lstrip().format(topic=params.topic, node=params.node)
        Path(request.target_path, "pipeline.py").write_text(text, encoding="utf-8")


class ThresholdsOfAsset(dg.Model, dg.Resolvable):
    """`Thresholds` as `defs.yaml` has them: each key is one of its fields. A key that is left out keeps its default."""

    late_ratio_max: float = DEFAULT_THRESHOLDS.late_ratio_max
    dead_letter_ratio_max: float = DEFAULT_THRESHOLDS.dead_letter_ratio_max
    replay_ratio_max: float = DEFAULT_THRESHOLDS.replay_ratio_max
    refused_in_a_row_max: int = DEFAULT_THRESHOLDS.refused_in_a_row_max
    orphan_ratio_max: float = DEFAULT_THRESHOLDS.orphan_ratio_max
    unmatched_ratio_max: float = DEFAULT_THRESHOLDS.unmatched_ratio_max
    join_sample_ratio: float = DEFAULT_THRESHOLDS.join_sample_ratio
    severities: dict[str, str] = Field(default_factory=dict, description="By check: error or warn.")
    blocking: list[str] = Field(default_factory=list, description="Checks that hold back assets downstream.")

    def made(self) -> Thresholds:
        """Make the thresholds.

        Raises: DescriptionError, see `Thresholds`
        """
        return Thresholds(**{**self.model_dump(), "blocking": tuple(self.blocking)})


class AlertsTo(dg.Model, dg.Resolvable):
    """One channel of alerts: a channel of Slack, or addresses of mail. Secrets stay in the environment."""

    slack: str | None = Field(default=None, description="A channel, such as '#data'.")
    email: list[str] | None = Field(default=None, description="Addresses.")
    no_result_for: str | None = Field(
        default=None, description="Also tell of a table without a result for so long, as '15 minutes'."
    )

    def made(self) -> AlertChannel:
        """Make the channel.

        Raises: DescriptionError when it names both, or neither
        """
        if (self.slack is None) == (self.email is None):
            raise DescriptionError(
                f"alerts: {self.model_dump()} names {'no channel' if self.slack is None else 'two channels'}.",
                hint="Write for each entry either slack: '#data' or email: [data@example.com].",
            )
        if self.email is not None:
            return EmailAlerts(self.email, self.no_result_for)
        return SlackAlerts(self.slack or "", self.no_result_for)


@dg.scaffold_with(HeadraceScaffolder)
class HeadraceComponent(dg.Component, dg.Model, dg.Resolvable):
    """Makes the logs, streams, tables, checks and jobs of one pipeline from `defs.yaml`.

    In: see `build_definitions`; `pipeline` names the module with the nodes. Settings of Kafka come from the environment
    """

    pipeline: str = Field(
        default="pipeline.py", description="A file beside defs.yaml, or a module's dotted name."
    )
    partitions_start: str = Field(description="First day of the result tables, YYYY-MM-DD.")
    stream_name: str = Field(default="streams", description="The name of the stream run.")
    group: str = Field(default="streams", description="The group in the asset graph.")
    lake_root: str | None = Field(default=None, description="The root URI of the tables; $HEADRACE_LAKE.")
    docs: str | None = Field(default=None, description="A local folder for the pages of the report.")
    docs_url: str | None = Field(default=None, description="The address that serves them.")
    standby: bool = Field(
        default=False, description="Whether a second run waits, and takes over when the first one ends."
    )
    sensor_running: bool = Field(default=False, description="Whether the stream's sensor begins switched on.")
    first_checks_running: bool = Field(
        default=False, description="Whether the sensor of the first checks begins switched on."
    )
    quality_cron: str = Field(default="0 * * * *", description="When the checks run.")
    maintenance_cron: str = Field(default="30 3 * * *", description="When tables are packed and cleaned.")
    stale_after: str = Field(default="1 hour", description="When a stream that reports nothing is stale.")
    spark: dict[str, str] = Field(default_factory=dict, description="More of Spark's configuration.")
    logs_elsewhere: list[str] = Field(
        default_factory=list, description="Topics whose logs are assets of another pipeline."
    )
    finals: dict[str, Literal["day", "hour"]] = Field(
        default_factory=dict, description="By a node's name, day or hour: its final ones become partitions."
    )
    owners: dict[str, list[str]] = Field(default_factory=dict, description="Owners of logs and tables.")
    thresholds: dict[str, ThresholdsOfAsset] = Field(
        default_factory=dict, description="The thresholds of checks, by log/<topic> or a node's name."
    )
    alerts: list[AlertsTo] = Field(
        default_factory=list, description="Who is told about checks and runs that fail."
    )
    alerts_running: bool = Field(
        default=False, description="Whether the sensor of alerts begins switched on."
    )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Load the module that `pipeline` names, and make its definitions.

        Raises: TerminalError when there is no such module or it defines no named node; DescriptionError
        """
        if self.pipeline.endswith(".py"):
            module = context.load_defs_relative_python_module(Path(self.pipeline))
            nodes = nodes_in([module], self.pipeline)
        else:
            nodes = load_pipeline(self.pipeline)
        given = self.model_dump(exclude={"pipeline", "thresholds", "alerts"})
        return build_definitions(
            nodes,
            **given,
            thresholds={asset: each.made() for asset, each in self.thresholds.items()},
            alerts=[each.made() for each in self.alerts],
        )
