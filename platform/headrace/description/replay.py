"""The replay guard, described: how a topic knows a record that was sent before.

Law: the sequencer judges each record once and writes the verdict into the log, so a guard alters the log of what
comes after it and no node's reading of what stands there. It is no part of a node's fingerprint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.description.schema import Column, fields_of_struct
from headrace.description.ways_on import explained_call
from headrace.description.wording import a_value, did_you_mean, listed, require_choice
from headrace.errors import DescriptionError

IN_VALUE = "__source-chain"  # the header in the log of a chain that stands in the value
MONOTONE, EXACT = "monotone", "exact"
MODES = (MONOTONE, EXACT)
CHAIN, ORDER = "chain", "order"
ORDINALS = (CHAIN, ORDER)
ENTRY = {"topic": "STRING", "partition": "INT", "offset": "BIGINT"}
MAX_GAPS = 10_000  # intervals of seen positions for each root partition, in exact mode: about 200 KB of state


@explained_call
@dataclass(frozen=True)
class ReplayGuard:
    """Refuses records that a republisher sends a second time; each is kept in the log and marked `replay`.

    In: `header`: name of the record header with the source chain, a JSON list of [topic, partition, offset] or
    [topic, partition, offset, ordinal], root first; the last header of that name counts, as in Kafka's `lastHeader`.
    `path`: with `header=None`: where the chain stands in the value: a column, or fields within one ("envelope.chain"). Its
    type is STRING (the same JSON), or an array of structs with `topic` STRING, `partition` INT, `offset` BIGINT and, if
    there is one, `ordinal` INT. A record with a null or an empty array there is its own root.
    `mode`: "monotone", for republishers that keep the order: a record is a replay unless its root offset and ordinals
    lie beyond the highest seen on its path; "exact", for those that reorder: unless its root position is new on any path.
    `max_gaps`: exact mode alone: of each root partition at most so many intervals of seen positions are remembered
    (default 10,000). When there are more, the lowest are forgotten and all below them is refused and reported.
    `ordinals`: "chain": each of several outputs of one input has an ordinal in its chain; "order": records of one chain that
    follow one another on a path are the outputs of one input, numbered by their order. The first of them differs from the
    others in its bytes, so a record with its bytes is the first one, sent again. Monotone mode alone.
    Raises: DescriptionError naming the value and the fix.
    """

    header: str | None = "source-chain"
    mode: str = MONOTONE
    max_gaps: int | None = None
    path: str | None = None
    ordinals: str = CHAIN

    def __post_init__(self) -> None:
        if self.path is not None and self.header is not None:
            raise DescriptionError(
                f"ReplayGuard: the chain is in header {a_value(self.header)} or at path {a_value(self.path)}.",
                hint="Give header=None with path='…'.",
            )
        if self.path is not None and (not isinstance(self.path, str) or "" in self.path.split(".")):
            raise DescriptionError(
                f"ReplayGuard: path {a_value(self.path)} is no path of names.",
                hint="Write for example path='envelope.source_topic_chain'.",
            )
        if self.path is None and (not isinstance(self.header, str) or not self.header):
            raise DescriptionError(
                f"ReplayGuard: header {a_value(self.header)} is not the name of a record header.",
                hint="Give its name, such as 'source-chain'.",
            )
        require_choice("ReplayGuard: mode", self.mode, MODES, "modes are")
        self._check_ordinals()
        if self.max_gaps is None:
            return
        if self.mode != EXACT:
            raise DescriptionError(
                f"ReplayGuard: max_gaps {a_value(self.max_gaps)} bounds the exact mode; mode is '{self.mode}'.",
                hint="Leave it out, or give mode='exact'.",
            )
        if not isinstance(self.max_gaps, int) or isinstance(self.max_gaps, bool) or self.max_gaps < 1:
            raise DescriptionError(
                f"ReplayGuard: max_gaps {a_value(self.max_gaps)} is not a whole number above 0.",
                hint=f"Leave it out for {MAX_GAPS:,}.",
            )

    def _check_ordinals(self) -> None:
        if self.ordinals not in ORDINALS:
            raise DescriptionError(
                f"ReplayGuard: ordinals {a_value(self.ordinals)} do not exist; there are {listed(ORDINALS)}."
            )
        if self.ordinals == ORDER and self.mode != MONOTONE:
            raise DescriptionError(
                f"ReplayGuard: ordinals 'order' numbers the records of a path in order; mode is '{self.mode}'.",
                hint="Number the outputs in the chain, or give mode='monotone'.",
            )

    @property
    def place(self) -> str:
        """Where the chain stands, as people read it."""
        return str(self.header if self.path is None else self.path)

    @property
    def log_header(self) -> str:
        """The header that holds the chain in the log; of a chain in the value the sequencer adds it."""
        return IN_VALUE if self.header is None else self.header

    @property
    def gaps_max(self) -> int:
        """The bound of the exact mode."""
        return MAX_GAPS if self.max_gaps is None else self.max_gaps


def check_path(guard: ReplayGuard, columns: Sequence[Column], what: str) -> None:
    """Raise DescriptionError when no chain can stand at a guard's path. In: columns  of the topic's value."""
    if guard.path is None:
        return
    of, at = "", ""
    for name in guard.path.split("."):
        found = {column.name: column.type for column in columns}
        if name not in found:
            raise DescriptionError(
                f"{what}: replay_guard: path '{guard.path}': '{name}' is not in {at or 'the value'}; "
                f"there are {listed(list(found))}.",
                hint=did_you_mean(name, list(found)),
            )
        of, at = found[name], name
        columns = fields_of_struct(of, what)
    inner = (
        fields_of_struct(of.removeprefix("ARRAY<").removesuffix(">"), what) if of.startswith("ARRAY<") else ()
    )
    types = {column.name: column.type for column in inner}
    if of != "STRING" and types not in (ENTRY, ENTRY | {"ordinal": "INT"}):
        raise DescriptionError(
            f"{what}: replay_guard: path '{guard.path}' is {of}, which holds no source chain.",
            hint="Make it STRING, or ARRAY<STRUCT<topic: STRING, partition: INT, offset: BIGINT>>; ordinal: INT may follow.",
        )
