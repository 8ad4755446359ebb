"""Commands that read a lake refuse one that is not there, and name the settings of what runs on this machine."""

from __future__ import annotations

from pathlib import Path

from headrace.errors import TerminalError


def require_lake(root: str) -> None:
    """Refuse a lake that no stream has written.

    Raises: TerminalError that names the lake, and settings files of a `headrace dev` or a demo below this folder
    """
    from headrace.lake import small_files
    from headrace.lake.format import is_known
    from headrace.lake.paths import Lake
    from headrace.local.servers.settings_file import NAME, second_terminal

    known = Lake(root).root
    if is_known(known) or small_files.names(known):
        return
    near = sorted(Path.cwd().glob(f".headrace/*/{NAME}"))
    raise TerminalError(
        f"There is no lake at {root}: no stream has written there.",
        detail="\n".join(f"Settings of another lake are here. {second_terminal(path)}" for path in near)
        or None,
        hint="Start a stream (headrace dev, headrace run), or name the lake that a stream writes, by --lake or "
        "HEADRACE_LAKE. A demo, and headrace dev, print a line that sets it as they start.",
    )
