"""Every command stands in a group of `headrace --help`."""

from __future__ import annotations

import pytest

from headrace.cli import GROUPS, app

pytestmark = pytest.mark.fast


def test_no_command_is_left_without_a_group() -> None:
    left = [command for command in app.registered_commands if command.rich_help_panel not in GROUPS]
    assert not [command.name or command.callback for command in left], "add it to GROUPS in cli/__init__.py"
