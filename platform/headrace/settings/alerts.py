"""How alerts reach people; secrets are read from the environment and never shown."""

from __future__ import annotations

from typing import Literal

from pydantic import SecretStr
from pydantic_settings import SettingsConfigDict

from headrace.settings.environment import EnvironmentSettings


class SlackSettings(EnvironmentSettings):
    """How to reach Slack (`HEADRACE_SLACK_…`). In: token  of a bot that may write into the channel."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_SLACK_")

    token: SecretStr | None = None


class SmtpSettings(EnvironmentSettings):
    """How to reach a mail server (`HEADRACE_SMTP_…`).

    In: security  "starttls", "tls" from the first byte, or "none"
        sender    the address from which alerts come
    """

    model_config = SettingsConfigDict(env_prefix="HEADRACE_SMTP_")

    host: str = "localhost"
    port: int = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    username: str | None = None
    password: SecretStr | None = None
    sender: str = "headrace@localhost"
    timeout_seconds: float = 20.0
