"""URLs that hold a password."""

from __future__ import annotations

import re

from headrace.errors import TerminalError

# Clients end a password at its first `@`. They differ on whether a `/` or `?` before that belongs to it.
TWO_AT = re.compile(r"[\w+]+://([^@/]+|[^/@?][^@?]*)@[^?]*@")


def require_escaped(url: str, variable: str) -> None:
    """Refuse a URL with an `@` after its user and password: its client takes a part of the password for the host.

    Such a host stands in errors of clients and of the network.

    In:     variable  that holds the URL
    Raises: TerminalError, with nothing of the URL in it
    """
    if TWO_AT.match(url):
        raise TerminalError(
            f"{variable} has more than one @, so a part of its password would be taken for the host.",
            hint="Write %40 for an @ in a password or a name.",
        )
