"""A component for `dg`: a pipeline as a folder with `defs.yaml`, beside which a module describes the nodes."""

from pathlib import Path
from textwrap import dedent

import dagster as dg
from pydantic import BaseModel, Field

from headrace.orchestration.definitions import build_definitions
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
    """The parameters that `dg scaffold defs` takes."""

    topic: str = Field(default="events", description="The Kafka topic to begin with.")
    node: str = Field(default="event_counts", description="The name of its table.")


class HeadraceScaffolder(dg.Scaffolder[ScaffoldParams]):
    """Writes `defs.yaml`, and `pipeline.py` with a first node."""

    @classmethod
    def get_scaffold_params(cls) -> type[ScaffoldParams]:
        """The parameters of the command."""
        return ScaffoldParams

    def scaffold(self, request: dg.ScaffoldRequest[ScaffoldParams]) -> None:
        """Write both files."""
        params = request.params or ScaffoldParams()
        name = request.target_path.name
        attributes = {"pipeline": "pipeline.py", "stream_name": name, "partitions_start": "2026-01-01"}
        dg.scaffold_component(request, attributes)
        text = dedent(PIPELINE).lstrip().format(topic=params.topic, node=params.node)
        Path(request.target_path, "pipeline.py").write_text(text, encoding="utf-8")


@dg.scaffold_with(HeadraceScaffolder)
class HeadraceComponent(dg.Component, dg.Model, dg.Resolvable):
    """Logs, streams, tables, checks and jobs of one pipeline.

    In: see `build_definitions`; `pipeline` names the module with the nodes
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
    owners: dict[str, list[str]] = Field(default_factory=dict, description="Owners of logs and tables.")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The definitions of the pipeline."""
        if self.pipeline.endswith(".py"):
            module = context.load_defs_relative_python_module(Path(self.pipeline))
            nodes = nodes_in([module], self.pipeline)
        else:
            nodes = load_pipeline(self.pipeline)
        given = self.model_dump(exclude={"pipeline"})
        return build_definitions(nodes, **given)
