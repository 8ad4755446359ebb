"""`headrace fetch-jars`: what an installed Headrace needs beside its wheel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

import headrace
from headrace.cli.console.telling import report
from headrace.errors import TransientError
from headrace.spark.jars import jars_dir, project_root

LIST = "resolve.py"


def fetch(
    folder: Annotated[
        Path | None, typer.Argument(help="Where to put them. Default: $HEADRACE_JARS, or .headrace/jars.")
    ] = None,
) -> None:
    """Fetch the jars of Spark and of the local Kafka broker, and verify the digest of each."""
    found = fetch_jars(folder)
    report(f"The jars are in {found}.", folder=found)


def fetch_jars(destination: Path | None = None) -> Path:
    """Fetch what is not there yet; a folder that is complete is left alone.

    In:     destination  None: where Headrace looks for jars, `HEADRACE_JARS` or `.headrace/jars`
    Out:    the folder, with `spark/`, `broker/` and `registry/`
    Raises: TransientError when Ivy could not fetch them, or a digest is another one.
    """
    folder = (destination or jars_dir()).absolute()
    if (folder / ".resolved").exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, str(deployed("jars") / LIST), str(folder)],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise TransientError(f"The jars could not be fetched into '{folder}'.", detail=done.stderr.strip())
    return folder


def deployed(name: str) -> Path:
    """A folder of `deploy/`: in the wheel below the package, in a checkout where it is."""
    installed = Path(headrace.__file__).parent / "deploy" / name
    return installed if installed.exists() else project_root() / "deploy" / name
