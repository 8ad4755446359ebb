"""Where alerts go: a channel of Slack, or mail. A sensor sends them (see `alerts`)."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Protocol, runtime_checkable

from headrace.description import Duration
from headrace.description.durations import duration_ms
from headrace.errors import DescriptionError, TransientError
from headrace.extras import named_extra
from headrace.settings.alerts import SlackSettings, SmtpSettings


@runtime_checkable
class AlertChannel(Protocol):
    """Takes alerts to people. A channel of your own has this method, and may have `no_result_for`, as `SlackAlerts` has."""

    def send(self, subject: str, lines: Sequence[str]) -> None:
        """Deliver a message, or raise an error: then the sensor sends it again when it looks next."""
        ...


@dataclass(frozen=True)
class SlackAlerts:
    """Sends alerts to a channel of Slack, such as "#data"; HEADRACE_SLACK_TOKEN holds the token.

    In: no_result_for  also tell when a table has had no result for so long, and which partition holds it; None: never
    """

    channel: str
    no_result_for: Duration | None = None

    def __post_init__(self) -> None:
        _check(self.no_result_for)
        if not self.channel:
            raise DescriptionError("SlackAlerts: channel is empty.", hint="Write for example '#data'.")

    def send(self, subject: str, lines: Sequence[str]) -> None:
        """See `AlertChannel`. Raises: TransientError when Slack does not take it."""
        with named_extra():
            from dagster_slack import SlackResource

        token = SlackSettings().token
        if token is None:
            raise TransientError("SlackAlerts: there is no token.", hint="Set HEADRACE_SLACK_TOKEN.")
        text = "\n".join([f"*{_escaped(subject)}*", *(f"• {_escaped(line)}" for line in lines)])
        try:
            client = SlackResource(token=token.get_secret_value()).get_client()
            client.chat_postMessage(channel=self.channel, text=text)
        except Exception as error:  # of HTTP and of Slack's own answers
            raise TransientError(
                f"SlackAlerts: {self.channel} did not take it.", detail=str(error)
            ) from error


def _check(no_result_for: Duration | None) -> None:
    if no_result_for is not None:
        duration_ms(no_result_for, "no_result_for")


def _escaped(text: str) -> str:
    """The text without Slack's marks: a value in it must not call everybody (`<!channel>`), nor make a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@dataclass(frozen=True)
class EmailAlerts:
    """Sends alerts by mail, through the server that HEADRACE_SMTP_… names.

    In: to             addresses
        no_result_for  as of `SlackAlerts`
    """

    to: Sequence[str]
    no_result_for: Duration | None = None

    def __post_init__(self) -> None:
        _check(self.no_result_for)
        if isinstance(self.to, str) or not self.to or not all("@" in each for each in self.to):
            raise DescriptionError(
                "EmailAlerts: to is no list of addresses.", hint="Write for example to=['data@example.com']."
            )
        object.__setattr__(self, "to", tuple(self.to))

    def send(self, subject: str, lines: Sequence[str]) -> None:
        """See `AlertChannel`. Raises: TransientError when the server does not take it."""
        smtp, message = SmtpSettings(), EmailMessage()
        message["Subject"], message["From"], message["To"] = subject, smtp.sender, ", ".join(self.to)
        message.set_content("\n".join([*lines, ""]))
        try:
            with _connected(smtp) as server:
                if smtp.username is not None:
                    server.login(smtp.username, smtp.password.get_secret_value() if smtp.password else "")
                server.send_message(message)
        except (smtplib.SMTPException, OSError) as error:
            where = f"{smtp.host}:{smtp.port}"
            raise TransientError(f"EmailAlerts: {where} did not take it.", detail=str(error)) from error


def _connected(smtp: SmtpSettings) -> smtplib.SMTP:
    if smtp.security == "tls":
        context = ssl.create_default_context()
        return smtplib.SMTP_SSL(smtp.host, smtp.port, timeout=smtp.timeout_seconds, context=context)
    server = smtplib.SMTP(smtp.host, smtp.port, timeout=smtp.timeout_seconds)
    if smtp.security == "starttls":
        server.starttls(context=ssl.create_default_context())
    return server
