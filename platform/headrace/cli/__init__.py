"""The command line."""

from headrace.cli.changing import apply_pipeline, plan_pipeline, roll_pipeline_back
from headrace.cli.commands import app, main
from headrace.cli.describing import describe_nodes
from headrace.cli.previewing import preview_node

app.command("describe")(describe_nodes)
app.command("preview")(preview_node)
app.command("plan")(plan_pipeline)
app.command("apply")(apply_pipeline)
app.command("rollback")(roll_pipeline_back)

__all__ = ["app", "main"]
