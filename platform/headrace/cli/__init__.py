"""The command line."""

from headrace.cli.commands import app, main
from headrace.cli.dead_letters import redrive, show_dead_letters
from headrace.cli.describing import describe_nodes
from headrace.cli.previewing import preview_node

app.command("dead-letters")(show_dead_letters)
app.command("describe")(describe_nodes)
app.command("preview")(preview_node)
app.command("redrive")(redrive)

__all__ = ["app", "main"]
