"""A small disk that can be full: a file system in memory, which root may mount."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path
from types import TracebackType

MEGABYTE = 1 << 20


class SmallDisk:
    """A folder with room for so many megabytes."""

    def __init__(self, folder: Path, megabytes: int = 64) -> None:
        self.folder, self._megabytes = folder, megabytes
        self._ballast = folder / "ballast"

    def __enter__(self) -> SmallDisk:
        self.folder.mkdir(parents=True, exist_ok=True)
        options = f"size={self._megabytes}m,mode=0777"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)], check=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True)

    def fill(self, spare_bytes: int) -> None:
        """Leave so many bytes free."""
        with self._ballast.open("wb", buffering=0) as ballast:
            for size in (MEGABYTE, 4_096):
                self._write(ballast.fileno(), size)
            ballast.truncate(max(0, ballast.tell() - spare_bytes))

    @staticmethod
    def _write(descriptor: int, size: int) -> None:
        while True:
            try:
                os.write(descriptor, bytes(size))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                return

    def free(self) -> None:
        """Give the room back."""
        self._ballast.unlink()
