"""Why Kafka does not take a client, in words that lead to the setting."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.errors import TerminalError, TransientError

if TYPE_CHECKING:
    from confluent_kafka import KafkaException

CREDENTIALS = (
    "Correct HEADRACE_KAFKA_USERNAME, …_PASSWORD and …_SASL_MECHANISM; with OAUTHBEARER HEADRACE_KAFKA_OAUTH_TOKEN_URL, "
    "…_OAUTH_CLIENT_ID, HEADRACE_KAFKA_OAUTH_CLIENT_SECRET and …_OAUTH_SCOPE."
)
TLS = "Correct HEADRACE_KAFKA_SSL_CA_LOCATION, …_SSL_CERTIFICATE_LOCATION, …_SSL_KEY_LOCATION and …_SSL_KEY_PASSWORD."
# Begins what the client says of a broker, whatever went wrong.
ADDRESS = re.compile(r"\b(sasl_)?(ssl|plaintext)://")
MISSING = "UNKNOWN_TOPIC_OR_PART"
CREATE = (
    "Create the topic, or correct its name. A topic that was deleted and created again is another one: "
    "read it into a new lake."
)
AWAY = (
    "Start the broker, correct HEADRACE_KAFKA_BOOTSTRAP_SERVERS, or set HEADRACE_KAFKA_SECURITY_PROTOCOL "
    "if the broker speaks TLS or SASL."
)


class RecordsNotReadError(TransientError):
    """Kafka's client could not read records that Kafka has."""


@dataclass(frozen=True)
class Refusal:
    """Why a client does not reach Kafka.

    reason  what went wrong, as the end of a sentence that begins with the address
    fix   the settings to correct
    lasts whether trying again cannot help
    """

    reason: str
    fix: str
    lasts: bool


def refusal_of(detail: str) -> Refusal:
    """Name what is wrong. In: detail  what Kafka's client said."""
    if MISSING in detail:
        return Refusal("has no such topic or partition", CREATE, lasts=False)
    lower = ADDRESS.sub("", detail.lower())
    if "authentication" in lower or "sasl" in lower or "oidc" in lower or "oauth" in lower:
        return Refusal("refuses the credentials", CREDENTIALS, lasts=True)
    if "ssl" in lower or "certificate" in lower:
        return Refusal("is not reached by TLS", TLS, lasts=True)
    return Refusal("does not answer", AWAY, lasts=False)


def not_read(topic: str, why: str) -> RecordsNotReadError:
    """The client could not read."""
    return RecordsNotReadError(
        f"Topic '{topic}': Kafka's client could not read its records.",
        detail=why,
        hint="The stream tries again by itself. If the broker is reachable, look at its log.",
    )


def settings_refused(server: str, error: KafkaException) -> TerminalError:
    """The error for settings with which Kafka's client does not begin: a mechanism that it lacks, a key it cannot read."""
    detail = error.args[0].str() if hasattr(error.args[0], "str") else str(error)
    fix = refusal_of(detail).fix
    return TerminalError(
        f"Kafka at {server}: the client does not take its settings.",
        detail=detail,
        hint="Correct what it names: HEADRACE_KAFKA_…, or options of the topic or sink."
        if fix == AWAY
        else fix,
    )
