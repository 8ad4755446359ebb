"""Ordinals by the order of records: which output of an input each record is, where the service does not number them.

Law: a function of the records of a path, in the order of offsets, so cuts do not show. Dead letters are numbered, too: one
that can be read when it is sent again has the same ordinal. Neighbours with one source chain are the outputs of one input,
numbered from 0. A record with the bytes of the first of them begins again at 0: the service has
sent them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from headrace.sequence.replays.chains import NO_ORDINAL, Chains
from headrace.sequence.replays.contents import Contents


class Run(NamedTuple):
    """Neighbours with one chain: the digests of the chain and of the first record, and the ordinal of the next one."""

    chain: int
    content: int
    following: int = 0


Runs = Mapping[str, Run]
"""The last run of each path."""


def number_outputs(chains: Chains, contents: Contents, runs: Runs) -> tuple[Chains, Runs]:
    """The chains with an ordinal in each last entry that has none, and the runs after them.

    In: chains  of records in the order of their offsets, partition by partition
    """
    ends = np.cumsum(chains.hops) - 1
    open_ended = ~chains.malformed & (chains.hops > 0)
    open_ended[open_ended] = chains.ordinals[ends[open_ended]] == NO_ORDINAL
    rows = np.flatnonzero(open_ended)
    names = chains.path.dictionary.to_pylist()
    paths = chains.path.indices.to_numpy()[rows].tolist()
    ordinals, after = np.empty(len(rows), np.int32), dict(runs)
    for place, (path, (chain, content)) in enumerate(
        zip(paths, contents.digests(rows).tolist(), strict=True)
    ):
        last = after.get(names[path])
        goes_on = last is not None and last.chain == chain and last.content != content
        run = last if last is not None and goes_on else Run(chain, content)
        ordinals[place] = run.following
        after[names[path]] = run._replace(following=run.following + 1)
    numbers = chains.ordinals.copy()
    numbers[ends[rows]] = ordinals
    return replace(chains, ordinals=numbers), after
