"""The command line."""

from headrace.cli.commands import app, main
from headrace.cli.describing import describe_nodes
from headrace.cli.previewing import preview_node

app.command("describe")(describe_nodes)
app.command("preview")(preview_node)

__all__ = ["app", "main"]
