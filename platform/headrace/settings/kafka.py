"""How to reach Kafka: settings of librdkafka, which reads and writes, in the run's own process and in Spark's tasks.

Certificates are PEM files. They have to be on each machine that runs tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, SecretStr, ValidatorFunctionWrapHandler, field_validator
from pydantic_settings import SettingsConfigDict

from headrace.errors import TerminalError
from headrace.settings.environment import EnvironmentSettings

# By librdkafka's name of a setting of the connection: the field that holds it.
FIELDS = {
    "bootstrap.servers": "bootstrap_servers",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "username",
    "sasl.password": "password",
    "sasl.oauthbearer.token.endpoint.url": "oauth_token_url",
    "sasl.oauthbearer.client.id": "oauth_client_id",
    "sasl.oauthbearer.client.secret": "oauth_client_secret",
    "sasl.oauthbearer.scope": "oauth_scope",
    "sasl.oauthbearer.extensions": "oauth_extensions",
    "https.ca.location": "oauth_ca_location",
    "ssl.ca.location": "ssl_ca_location",
    "ssl.certificate.location": "ssl_certificate_location",
    "ssl.key.location": "ssl_key_location",
    "ssl.key.password": "ssl_key_password",
}

SECRETS = ("password", "oauth_client_secret", "ssl_key_password")
OAUTH = "OAUTHBEARER"


class _NamedSecret(SecretStr):
    """A secret that is read when it is needed, such as Dagster's `EnvVar`."""

    def get_secret_value(self) -> str:
        named: Any = self._secret_value
        value = named.get_value()
        if value is None:
            raise TerminalError(
                f"Kafka: variable {named.env_var_name} is not set, and holds a secret of the settings.",
                hint="Set it where the run starts, or correct its name in EnvVar(…).",
            )
        return str(value)


class KafkaSettings(EnvironmentSettings):
    """How to reach Kafka; read from the environment (`HEADRACE_KAFKA_…`), secrets included.

    In: ssl_ca_location           PEM file of the authorities that may sign the brokers' certificates; None: the system's
        ssl_certificate_location  PEM file of the client's own certificate and those that sign it
        ssl_key_location          PEM file of its private key; may be the file of the certificate
        ssl_key_password          of an encrypted key
        oauth_token_url           OAUTHBEARER: where client id and secret give a token (OpenID Connect, client credentials)
        oauth_scope               what is asked for there; None: what the server gives without
        oauth_extensions          SASL extensions, such as logicalCluster=lkc-1,identityPoolId=pool-1
        oauth_ca_location         PEM file of the authorities that may sign that server's certificate; None: the system's
        group                     consumer group to which logs tell how far they have read; empty: none is told
        small_records             a log that is so far behind, or less, is read by Kafka's client in the run's own process;
                                  beyond it Spark's tasks read. 0: they read everything
        queued_kbytes             what that client may hold for each log
        password, oauth_client_secret, ssl_key_password may also be given as `dagster.EnvVar`
    """

    model_config = SettingsConfigDict(env_prefix="HEADRACE_KAFKA_")

    bootstrap_servers: str = "127.0.0.1:9092"
    group: str = "headrace"
    small_records: int = Field(default=200_000, ge=0)
    queued_kbytes: int = Field(default=16_384, ge=64, le=2_097_151)
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] | None = None
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = None
    username: str | None = None
    password: SecretStr | None = None
    oauth_token_url: str | None = None
    oauth_client_id: str | None = None
    oauth_client_secret: SecretStr | None = None
    oauth_scope: str | None = None
    oauth_extensions: str | None = None
    oauth_ca_location: str | None = None
    ssl_ca_location: str | None = None
    ssl_certificate_location: str | None = None
    ssl_key_location: str | None = None
    ssl_key_password: SecretStr | None = None

    @field_validator(*SECRETS, mode="wrap")
    @classmethod
    def _read_late(cls, value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        return _NamedSecret(value) if hasattr(value, "get_value") else handler(value)

    @field_validator("security_protocol", "sasl_mechanism", mode="before")
    @classmethod
    def _as_kafka_writes_it(cls, value: Any) -> Any:
        return (value.strip().upper() or None) if isinstance(value, str) else value

    def of(self, options: Mapping[str, str]) -> Self:
        """The settings of one topic. In: options  its own; those in `FIELDS` override, others are no connection's."""
        own: dict[str, Any] = {FIELDS[name]: value for name, value in options.items() if name in FIELDS}
        for name in SECRETS:
            if name in own:
                own[name] = SecretStr(own[name])
        return self.model_copy(update=own)

    def client_options(self) -> dict[str, str]:
        """For librdkafka.

        Raises: TerminalError when a file of certificates cannot be read, or a certificate has no key
        """
        options = {"bootstrap.servers": self.bootstrap_servers}
        if self.security_protocol:
            options["security.protocol"] = self.security_protocol
        if self.sasl_mechanism:
            options["sasl.mechanism"] = self.sasl_mechanism
        if self.username and self.password:
            options |= {"sasl.username": self.username, "sasl.password": self.password.get_secret_value()}
        if self.sasl_mechanism == OAUTH:
            options |= self._oauth_options()
        self._require_key()
        for name in ("ssl_ca_location", "ssl_certificate_location", "ssl_key_location"):
            if path := getattr(self, name):
                _require_pem(name, path)
                options[name.replace("_", ".")] = path
        if self.ssl_key_password:
            options["ssl.key.password"] = self.ssl_key_password.get_secret_value()
        return options

    def _oauth_options(self) -> dict[str, str]:
        """Kafka's client fetches tokens itself, and a new one before the former ends."""
        needed = ("oauth_token_url", "oauth_client_id", "oauth_client_secret")
        missing = [f"HEADRACE_KAFKA_{name.upper()}" for name in needed if not getattr(self, name)]
        if missing:
            raise TerminalError(
                f"Kafka: sasl_mechanism is {OAUTH}, and there is no {' and no '.join(missing)}.",
                hint="A client fetches its tokens by OpenID Connect: it needs the address, its id and its secret.",
            )
        if self.oauth_ca_location:
            _require_pem("oauth_ca_location", self.oauth_ca_location)
        known = {
            option: getattr(self, name)
            for option, name in FIELDS.items()
            if name.startswith("oauth_") and name not in SECRETS and getattr(self, name)
        }
        assert self.oauth_client_secret is not None
        secret = {"sasl.oauthbearer.client.secret": self.oauth_client_secret.get_secret_value()}
        return {"sasl.oauthbearer.method": "oidc"} | known | secret

    def _require_key(self) -> None:
        certificate, key = self.ssl_certificate_location, self.ssl_key_location
        if bool(certificate) != bool(key):
            raise TerminalError(
                f"Kafka: {'a certificate without its key' if certificate else 'a key without its certificate'}.",
                hint="Set both ssl_certificate_location and ssl_key_location; one file may hold both.",
            )


def _require_pem(name: str, path: str) -> None:
    try:
        text = Path(path).read_text(encoding="ascii", errors="replace")  # comments may hold anything
    except OSError as error:
        raise TerminalError(
            f"Kafka: {name} '{path}' cannot be read as a PEM file.",
            detail=str(error),
            hint=f"Correct HEADRACE_KAFKA_{name.upper()}, or give this process the right to read the file.",
        ) from error
    if "-----BEGIN " not in text:
        raise TerminalError(
            f"Kafka: {name} '{path}' is no PEM file.",
            hint="Convert it: openssl x509 -inform DER -in FILE, or openssl pkcs12 -in FILE.",
        )
