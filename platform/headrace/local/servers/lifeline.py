"""Child processes that never outlive their parent, however it dies.

`spawn` starts a command in a session of its own, so that Ctrl-C in a terminal reaches only the parent, which
then stops its children in order. On Linux the kernel sends the child SIGTERM when the parent is gone, also
after SIGKILL; elsewhere only an orderly exit is covered, by the `atexit` of whoever started the child.

This file is also the first thing that the child runs, by its path, so it imports the standard library alone.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

PR_SET_PDEATHSIG = 1


def spawn(
    command: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    keep_fds: Sequence[int] = (),
    user: str | None = None,
) -> subprocess.Popen[bytes]:
    """Start a command whose life is tied to this process.

    In:     what it prints is appended to `log`; `keep_fds` stay open in it; `user` is who root runs it as.
    Out:    the process; its pid is the command's own.
    Raises: OSError when it cannot be started.
    """
    started: Future[subprocess.Popen[bytes]] = Future()

    # The kernel takes the end of the *thread* that forked for the end of the parent: so this one stays.
    def fork_and_stay() -> None:
        try:
            with log.open("ab") as output:
                process = subprocess.Popen(
                    [sys.executable, "-I", "-S", __file__, str(os.getpid()), user or "", *command],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=env,
                    cwd=cwd,
                    pass_fds=keep_fds,
                    start_new_session=True,
                )
        except BaseException as error:
            started.set_exception(error)
            return
        started.set_result(process)
        process.wait()

    threading.Thread(target=fork_and_stay, name=f"lifeline of {command[0]}", daemon=True).start()
    return started.result()


def hear_signals() -> None:
    """Let SIGINT raise KeyboardInterrupt, and SIGTERM SystemExit, so that a command that runs until Ctrl-C ends in order.

    A script's shell starts what runs in its background with SIGINT ignored; Spark puts a handler of its own there.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))


def stop(process: subprocess.Popen[bytes], *, patience_s: float = 20.0) -> None:
    """End a process with SIGTERM, and with SIGKILL when it has not gone after `patience_s`."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def children(parent: int) -> list[int]:
    """The processes that a process has started and that still run; Linux tells them."""
    return [int(pid) for path in Path(f"/proc/{parent}/task").glob("*/children") for pid in _words(path)]


def descendants(parent: int) -> list[int]:
    """Its children, theirs, and so on."""
    return [pid for child in children(parent) for pid in (child, *descendants(child))]


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []  # the process or thread has ended


def _become(parent: int, user: str, command: Sequence[str]) -> None:
    if user:  # here and not before: this Python may lie where only root may go
        owner = pwd.getpwnam(user)
        os.setgroups([])
        os.setgid(owner.pw_gid)
        os.setuid(owner.pw_uid)
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_DFL)  # a parent in the background of a script has them ignored
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit("The parent was gone before its child began.")
    os.execvp(command[0], list(command))


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
