"""The smallest part of a life that still fails: steps, records and nodes go, as long as it does."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tests.lives.story import Life, Overtaken, Send, Step

Fails = Callable[[Life], str]  # the fault in words; empty: there is none


@dataclass
class Shrinking:
    """In: fails  lives through a life; seconds: that it may take."""

    fails: Fails
    seconds: float = 60.0

    def smallest(self, life: Life, fault: str) -> tuple[Life, str]:
        """A small life with a fault of the same kind, and that fault."""
        self._until, self._fault, self._kind = time.monotonic() + self.seconds, fault, kind_of(fault)
        size = None
        while size != (size := len(life.text())):
            for smaller in (self._nodes, self._steps, self._records):
                life = smaller(life)
        return life, self._fault

    def _still(self, life: Life) -> bool:
        if time.monotonic() > self._until:
            return False
        fault = self.fails(life)
        if kind_of(fault) != self._kind:
            return False
        self._fault = fault
        return True

    def _nodes(self, life: Life) -> Life:
        for number in range(len(life.nodes) - 1, 0, -1):
            fewer = replace(life, nodes=life.nodes[:number], begins=min(life.begins, number))
            if not self._still(fewer):
                break
            life = fewer
        for place, node in enumerate(life.nodes):
            nodes = (*life.nodes[:place], replace(node, sink=""), *life.nodes[place + 1 :])
            if node.sink and self._still(replace(life, nodes=nodes)):
                life = replace(life, nodes=nodes)
        return life

    def _steps(self, life: Life) -> Life:
        size = max(1, len(life.steps) // 2)
        while size:
            at = 0
            while at < len(life.steps):
                fewer = replace(life, steps=life.steps[:at] + life.steps[at + size :])
                if self._still(fewer):
                    life = fewer
                else:
                    at += size
            size //= 2
        return life

    def _records(self, life: Life) -> Life:
        for at, step in enumerate(life.steps):
            for fewer in _with_fewer_records(step):
                smaller = replace(life, steps=(*life.steps[:at], fewer, *life.steps[at + 1 :]))
                if self._still(smaller):
                    return self._records(smaller)
        return life


def _with_fewer_records(step: Step) -> Iterator[Step]:
    match step:
        case Send(records):
            for place in range(len(records)):
                yield Send(records[:place] + records[place + 1 :])
        case Overtaken(meanwhile=records):
            for place in range(len(records)):
                yield replace(step, meanwhile=records[:place] + records[place + 1 :])


def kind_of(fault: str) -> str:
    """What tells kinds of faults apart: the first words, without the names of nodes and numbers."""
    first = fault.partition("\n")[0]
    return re.sub(r"\d+|node_\S*|unnamed_\S*", "", first)[:60]
