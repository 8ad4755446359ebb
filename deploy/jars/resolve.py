"""Fetch the jars that deploy/jars/ivy.xml names, with the Ivy that PySpark ships, and verify their digests.

Usage: python deploy/jars/resolve.py DESTINATION [--lock]

Out:    DESTINATION/spark, …/broker, …/registry and …/iceberg, complete or untouched, and DESTINATION/.resolved.
        With --lock, deploy/jars/SHA256SUMS is written anew instead of being verified.
Notes:  Standard library only. The repositories are Ivy's own defaults; HEADRACE_IVY_SETTINGS names an Ivy
        settings file where a mirror is wanted.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import time
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
SUMS = HERE / "SHA256SUMS"
CONFIGURATIONS = ("spark", "broker", "registry", "iceberg")
ARCHIVE = ".tar.gz"
WAITS_S = (5, 20, 60)


def main(destination: Path, *, lock: bool) -> None:
    """Resolve into a folder beside the destination, verify it, and swap it in."""
    fresh = destination.with_name(destination.name + ".new")
    old = destination.with_name(destination.name + ".old")
    remove(fresh)
    remove(old)
    fresh.mkdir(parents=True)
    retrieve(fresh, cache=destination.with_name("ivy"))
    if lock:
        SUMS.write_text(digests(fresh))
    verify(fresh)
    unpack(fresh / "registry")
    (fresh / ".resolved").touch()
    if destination.exists() or destination.is_symlink():
        destination.rename(old)
    fresh.rename(destination)
    remove(old)


def remove(folder: Path) -> None:
    """Delete a folder, or a link to one, if it is there; what a link points at stays."""
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)


def retrieve(folder: Path, *, cache: Path) -> None:
    """Run Ivy, again after a wait when the network failed; what it has fetched stays in its cache."""
    command = ivy_command(folder, cache)
    for wait_s in (*WAITS_S, None):
        code, lines = run_ivy(command)
        if code == 0:
            return
        said = "\n".join(lines[-20:])
        if wait_s is None:
            sys.exit(f"{said}\njars: Ivy could not resolve {HERE / 'ivy.xml'}; see above. Is the network up?")
        print(f"jars: not resolved, trying again in {wait_s} s", file=sys.stderr)
        time.sleep(wait_s)


def run_ivy(command: list[str]) -> tuple[int, list[str]]:
    """Run Ivy and print the name of each file that it downloads; its exit code and its output."""
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout or ():
            lines.append(line.rstrip())
            if line.startswith("downloading "):
                print(f"jars: {line.split()[1].rpartition('/')[2]}", flush=True)
    return process.returncode, lines


def ivy_command(folder: Path, cache: Path) -> list[str]:
    """Compose the command line that retrieves every configuration into a folder of its name."""
    java = str(Path(os.environ["JAVA_HOME"], "bin", "java")) if os.environ.get("JAVA_HOME") else "java"
    settings = os.environ.get("HEADRACE_IVY_SETTINGS")
    return [
        *(java, "-jar", str(ivy_jar())),
        *(("-settings", settings) if settings else ()),
        *("-ivy", str(HERE / "ivy.xml"), "-cache", str(cache), "-confs", *CONFIGURATIONS),
        *("-retrieve", f"{folder}/[conf]/[artifact]-[revision].[ext]"),
    ]


def ivy_jar() -> Path:
    """Find the Ivy that PySpark ships, without importing PySpark."""
    spec = find_spec("pyspark")
    found = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar")) if spec and spec.origin else []
    if not found:
        sys.exit(f"jars: {sys.executable} has no PySpark with an Ivy jar; install requirements.lock first.")
    return found[-1]


def digests(folder: Path) -> str:
    """List the SHA-256 of every jar and archive, one per line, in the form that `sha256sum -c` reads."""
    jars = sorted([*folder.glob("*/*.jar"), *folder.glob(f"*/*{ARCHIVE}")])
    return "".join(
        f"{hashlib.sha256(jar.read_bytes()).hexdigest()}  {jar.relative_to(folder)}\n" for jar in jars
    )


def verify(folder: Path) -> None:
    """Compare what was retrieved with SHA256SUMS; exit naming what differs."""
    wanted, found = set(SUMS.read_text().splitlines()), set(digests(folder).splitlines())
    if wanted != found:
        differing = sorted({line.split()[1] for line in wanted ^ found})
        sys.exit(
            f"jars: {', '.join(differing)}: not what {SUMS} says. After a deliberate change of ivy.xml, "
            "write it anew with `make lock`; otherwise do not trust the repository that served them."
        )


def unpack(folder: Path) -> None:
    """Put what an archive holds in its place."""
    for archive in folder.glob(f"*{ARCHIVE}"):
        with tarfile.open(archive) as content:
            content.extractall(folder, filter="data")
        archive.unlink()


if __name__ == "__main__":
    paths = [argument for argument in sys.argv[1:] if argument != "--lock"]
    if len(paths) != 1:
        sys.exit(__doc__)
    main(Path(paths[0]), lock="--lock" in sys.argv)
