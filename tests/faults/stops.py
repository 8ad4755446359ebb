"""Processes that are stopped past their lease, and go on when another has taken over; and two that start at once.

Each process takes the others for processes of other machines, so that nothing but the lease tells whether they are gone.
"""

from __future__ import annotations

import signal
import time
from random import Random

from tests.faults.lives import CAUGHT_UP, PATIENCE_S, Life, Process
from tests.faults.stream import Order
from tests.faults.verdict import Verdict

WAITS = "waits for a lease"
LEASE_MS = 2_000
LEASED = ("--lease-ms", str(LEASE_MS))


def stopped(life: Life, random: Random, stops: int) -> Verdict:
    """Stop the writer at a random moment, let the next take over, wake the first; then the next is the writer."""
    writer = life.running()
    for number in range(stops):
        life.traffic()
        time.sleep(random.uniform(0, 2))
        writer.send(signal.SIGSTOP)
        successor = life.next()
        time.sleep(LEASE_MS / 1000 * random.uniform(0.5, 1.5))
        successor.go(Order())
        began = time.monotonic()
        if random.random() < 0.5:  # the other wakes up while its successor works, or once that has done all
            assert successor.reaches("committed"), successor.said()[-4000:]
        else:
            assert successor.reaches(CAUGHT_UP), successor.said()[-4000:]
        life.recoveries.append(time.monotonic() - began)
        writer.send(signal.SIGCONT)
        ended = _ends(life, writer)
        life.times += 1
        life.say(f"{number + 1:4} stopped, overtaken, woken: {ended}")
        writer = successor
    writer.end()
    life.traffic()
    return life.drained()


def _ends(life: Life, process: Process) -> str:
    """Wait until a process that was overtaken has noticed, and ended by itself; why it says it did.

    It notices when it has something to commit: so there is new traffic from time to time.
    """
    began, more_at = time.monotonic(), time.monotonic() + 5
    while process.process.poll() is None:
        assert time.monotonic() < began + PATIENCE_S, f"it goes on: {process.said()[-4000:]}"
        if time.monotonic() > more_at:
            life.traffic()
            more_at += 5
        time.sleep(0.05)
    assert "failed " in process.said(), process.said()[-4000:]
    return process.said().rpartition("failed ")[2].strip()[:120]


def together(life: Life, random: Random, pairs: int) -> Verdict:
    """Start two processes at the same moment; each log and node has one writer, and each process may get some of them.

    If each has some, each waits for the other's leases. They work on for some seconds, and are killed.
    """
    for number in range(pairs):
        life.traffic()
        both = [life.next(), life.next()]
        for process in random.sample(both, 2):
            process.go(Order())
        began, deadline = time.monotonic(), time.monotonic() + PATIENCE_S
        while (
            any(process.process.poll() is None for process in both)
            and not any(CAUGHT_UP in process.said() for process in both)
            and not all(WAITS in process.said() for process in both)
        ):
            assert time.monotonic() < deadline, [process.said()[-2000:] for process in both]
            time.sleep(0.05)
        life.recoveries.append(time.monotonic() - began)
        time.sleep(random.uniform(0, 4))
        for process in both:
            process.end()
        life.times += 1
        life.say(f"{number + 1:4} two at once")
    life.traffic()
    return life.drained()
