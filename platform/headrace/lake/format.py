"""The version of all that a lake holds: logs, states, commit records and small files. It stands in one file at the root.

Law: no writer of this version writes into a lake of another one, or into a store that cannot tell whether a file is new.

| format | since | what a writer of this version does |
| --- | --- | --- |
| none | a new lake | marks it |
| 7 | 0.1.0 | writes |
| the URI of a backup | 0.1.0 | refuses: `headrace restore` has not ended |
| another | another version | refuses, before any write |
"""

from __future__ import annotations

from headrace.errors import TerminalError
from headrace.lake import small_files

FORMAT = 7
NAME = "format.json"
RESTORING = "restoring"  # in place of a format: the URI of the backup that is being restored here


def require_format(root: str) -> None:
    """Refuse a lake that this version may not write; mark one that has no mark yet.

    Raises: TerminalError
    """
    if not is_known(root):
        path = f"{root}/{NAME}"
        entry = {"format": FORMAT}
        if small_files.write_json(path, entry, overwrite=False) and small_files.write_json(
            path, entry, overwrite=False
        ):
            small_files.delete(path)
            raise no_conditional_puts(root)


def is_known(root: str) -> bool:
    """True if the lake has this version's format; False: it has no mark. Nothing is written.

    Raises: TerminalError when another version has written it, or the mark cannot be read
    """
    try:
        found = small_files.read_json(f"{root}/{NAME}")
        if found is not None and RESTORING in found:
            raise _half_restored(root, found[RESTORING])
        written = None if found is None else int(found["format"])
    except (KeyError, TypeError, ValueError) as error:
        raise TerminalError(
            f"Lake '{root}': its {NAME} does not say which version has written it.",
            detail=f"{type(error).__name__}: {error}. Nothing was changed.",
            hint="Restore the file from a backup. If no version but this one has written the lake, delete it.",
        ) from None
    if written is None:
        return False
    if written != FORMAT:
        age = "a newer" if written > FORMAT else "an older"
        raise TerminalError(
            f"Lake '{root}': {age} version of Headrace has written it (format {written}).",
            detail=f"This version writes format {FORMAT}. Nothing was changed.",
            hint="Run that version, or read the topics into a new lake with this one.",
        )
    return True


def _half_restored(root: str, source: str) -> TerminalError:
    """The error for a lake into which a backup is being copied."""
    return TerminalError(
        f"Lake '{root}': a restore of the backup '{source}' has not ended.",
        hint=f"Wait until it has ended. If it broke off, run it again: headrace restore {source} --lake {root}",
    )


def no_conditional_puts(root: str) -> TerminalError:
    """The error for a store that replaced a file which it was told to create."""
    return TerminalError(
        f"Storage '{root}': the store has no conditional puts: it replaced a file that it was to create.",
        detail="Leases and commits rest on them; without them two writers could both believe that they succeeded.",
        hint="Use a store that knows `If-None-Match: *`, such as Amazon's S3, MinIO or SeaweedFS.",
    )
