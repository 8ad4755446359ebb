"""Source chains: what a chain looks like, and how a service outside of Headrace goes on with one.

Law: a hop appends the position of what it read, numbered if it makes several records of one. So a record that is sent again
has the same root and ordinals, and the replay guard of a reader knows it.
"""

from __future__ import annotations

import re

SOURCE_CHAIN = "source-chain"  # the header's usual name
ENTRIES_MAX = 100
_W = r"[ \t\r\n]*"
_NUMBER, _OFFSET = r"(?:0|[1-9][0-9]{0,8})", r"(?:0|[1-9][0-9]{0,17})"
# Digits are bounded so that each number fits its column.
_ENTRY = rf'\[{_W}"[A-Za-z0-9._-]{{1,249}}"{_W},{_W}{_NUMBER}{_W},{_W}{_OFFSET}{_W}(?:,{_W}{_NUMBER}{_W})?\]'
CHAIN = rf"^{_W}\[{_W}{_ENTRY}(?:{_W},{_W}{_ENTRY})*{_W}\]{_W}$"
_CHAIN = re.compile(CHAIN)


def source_chain(
    header: bytes | str | None, topic: str, partition: int, offset: int, ordinal: int | None = None
) -> bytes:
    """The source chain of a record that a service makes of another one: a header for `hr.ReplayGuard`.

    In:  header                    the chain that the other record came with; None: it had none
         topic, partition, offset  where the service read it
         ordinal                   which of several records that are made of it, from 0; None: it is the only one
    Out: the chain with one entry more. A header that is no chain, or is full, is left out as if there were none
    """
    text = header if isinstance(header, str) else (header or b"").decode("ascii", "replace")
    known = re.sub(_W, "", text)[1:-1] if _CHAIN.match(text) else ""
    kept = f"{known}," if known and known.count("],[") < ENTRIES_MAX - 1 else ""
    numbered = "" if ordinal is None else f",{ordinal}"
    return f'[{kept}["{topic}",{partition},{offset}{numbered}]]'.encode()
