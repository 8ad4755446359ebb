"""The commands in groups, as `headrace --help` shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer
    from typer.models import CommandInfo

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Run": ("run", "dev", "demo", "demo-once"),
    "Look": (
        *("describe", "preview", "status", "tail", "sql", "get", "why", "why-not", "what-if", "audit"),
        *("verify", "limits", "dead-letters", "records", "refused", "failing", "erasures"),
    ),
    "Change": (
        *(
            "plan",
            "apply",
            "rollback",
            "pause",
            "resume",
            "set-limits",
            "set-trigger",
            "rebuild",
            "redeliver",
        ),
        *("maintain", "mirror", "retain", "erase"),
    ),
    "Repair": ("repair", "redrive", "accept-gap", "reset-guard", "backup", "restore"),
    "Develop": ("new", "fetch-jars"),
}
OTHERS = "More"


def in_groups(app: typer.Typer) -> None:
    """Show each command under its group, the groups and their commands in the order above."""
    order = {name: (group, place) for group, names in GROUPS.items() for place, name in enumerate(names)}
    groups = [*GROUPS, OTHERS]

    def placed(name: str) -> tuple[str, int]:
        return order.get(name, (OTHERS, 0))

    for command in app.registered_commands:
        command.rich_help_panel = placed(_name(command))[0]
    app.registered_commands.sort(
        key=lambda each: (groups.index(placed(_name(each))[0]), placed(_name(each))[1])
    )


def _name(command: CommandInfo) -> str:
    """The command's name: the one that it was given, or its function's."""
    if command.name is not None:
        return command.name
    return command.callback.__name__.replace("_", "-") if command.callback is not None else ""
