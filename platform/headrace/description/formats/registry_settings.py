"""How to reach schema registries; secrets are read from the environment and never shown."""

from __future__ import annotations

from typing import Any

from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class RegistrySettings(BaseSettings):
    """How to reach registries; read from the environment (`HEADRACE_REGISTRY_…`), secrets included.

    In: username, password        for basic authentication
        ssl_ca_location           PEM file of the authorities that may sign the registry's certificate; None: certifi's
        ssl_certificate_location  PEM file of the client's own certificate, and `ssl_key_location` of its private key
        timeout_seconds           for one answer
    """

    model_config = SettingsConfigDict(env_prefix="HEADRACE_REGISTRY_")

    username: str | None = None
    password: SecretStr | None = None
    ssl_ca_location: str | None = None
    ssl_certificate_location: str | None = None
    ssl_key_location: str | None = None
    ssl_key_password: SecretStr | None = None
    timeout_seconds: float = 10.0
    retries: int = 2

    def client_options(self, url: str) -> dict[str, Any]:
        """For Confluent's client of one registry."""
        options: dict[str, Any] = {
            "url": url,
            "timeout": self.timeout_seconds,
            "max.retries": self.retries,
            "retries.wait.ms": 200,
            "retries.max.wait.ms": 2000,
        }
        if self.username is not None:
            password = "" if self.password is None else self.password.get_secret_value()
            options["basic.auth.user.info"] = f"{self.username}:{password}"
        for name in ("ssl_ca_location", "ssl_certificate_location", "ssl_key_location"):
            if path := getattr(self, name):
                options[name.replace("_", ".")] = path
        if self.ssl_key_password is not None:
            options["ssl.key.password"] = self.ssl_key_password.get_secret_value()
        return options
