"""How to reach Kafka: one set of settings for both clients, librdkafka's and the one in Spark's JVM.

Certificates are PEM files, as librdkafka takes them. They have to be on each machine that runs tasks. The JVM's client wants
certificate and key in one file, and reads few kinds of keys and no usual encryption of them. Unless it can read the file
as it is, it gets certificate and key as text. Spark redacts that as it does a password.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from pydantic import Field, SecretStr, ValidatorFunctionWrapHandler, field_validator
from pydantic_settings import SettingsConfigDict

from headrace.errors import TerminalError
from headrace.settings.environment import EnvironmentSettings

# By librdkafka's name of a setting that both clients need: the field that holds it.
FIELDS = {
    "bootstrap.servers": "bootstrap_servers",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "username",
    "sasl.password": "password",
    "ssl.ca.location": "ssl_ca_location",
    "ssl.certificate.location": "ssl_certificate_location",
    "ssl.key.location": "ssl_key_location",
    "ssl.key.password": "ssl_key_password",
}
PLAIN_KEY = "-----BEGIN PRIVATE KEY-----"  # PKCS #8
JAAS = "org.apache.kafka.common.security"


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
        group                     consumer group to which logs tell how far they have read; empty: none is told
        small_records             a log that is so far behind, or less, is read by Kafka's client in the run's own process;
                                  beyond it Spark's tasks read. 0: they read everything
        queued_kbytes             what that client may hold for each log
        password, ssl_key_password may also be given as `dagster.EnvVar`
    """

    model_config = SettingsConfigDict(env_prefix="HEADRACE_KAFKA_")

    bootstrap_servers: str = "127.0.0.1:9092"
    group: str = "headrace"
    small_records: int = Field(default=200_000, ge=0)
    queued_kbytes: int = Field(default=16_384, ge=64, le=2_097_151)
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] | None = None
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    username: str | None = None
    password: SecretStr | None = None
    ssl_ca_location: str | None = None
    ssl_certificate_location: str | None = None
    ssl_key_location: str | None = None
    ssl_key_password: SecretStr | None = None

    @field_validator("password", "ssl_key_password", mode="wrap")
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
        for name in ("password", "ssl_key_password"):
            if name in own:
                own[name] = SecretStr(own[name])
        return self.model_copy(update=own)

    def client_options(self) -> dict[str, str]:
        """For librdkafka.

        Raises: TerminalError when a file of certificates cannot be read
        """
        options = self._shared()
        if self.username and self.password:
            options |= {"sasl.username": self.username, "sasl.password": self.password.get_secret_value()}
        for name in ("ssl_ca_location", "ssl_certificate_location", "ssl_key_location"):
            if path := getattr(self, name):
                _pem(name, path)
                options[name.replace("_", ".")] = path
        if self.ssl_key_password:
            options["ssl.key.password"] = self.ssl_key_password.get_secret_value()
        return options

    def spark_options(self) -> dict[str, str]:
        """For Spark's Kafka source; only committed records are read.

        Raises: TerminalError when a file of certificates or the key cannot be read
        """
        options = self._shared() | self._jvm_certificates()
        if self.username and self.password:
            scram = (self.sasl_mechanism or "").startswith("SCRAM")
            module = f"{JAAS}.{'scram.Scram' if scram else 'plain.Plain'}LoginModule"
            user, secret = _quoted(self.username), _quoted(self.password.get_secret_value())
            options["sasl.jaas.config"] = f"{module} required username={user} password={secret};"
        options["isolation.level"] = "read_committed"
        return {f"kafka.{key}": value for key, value in options.items()}

    def _shared(self) -> dict[str, str]:
        options = {"bootstrap.servers": self.bootstrap_servers}
        if self.security_protocol:
            options["security.protocol"] = self.security_protocol
        if self.sasl_mechanism:
            options["sasl.mechanism"] = self.sasl_mechanism
        return options

    def _jvm_certificates(self) -> dict[str, str]:
        options: dict[str, str] = {}
        if self.ssl_ca_location:
            _pem("ssl_ca_location", self.ssl_ca_location)
            options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.ssl_ca_location}
        certificate, key = self.ssl_certificate_location, self.ssl_key_location
        if bool(certificate) != bool(key):
            raise TerminalError(
                f"Kafka: {'a certificate without its key' if certificate else 'a key without its certificate'}.",
                hint="Set both ssl_certificate_location and ssl_key_location; one file may hold both.",
            )
        if certificate and key:
            text, options["ssl.keystore.type"] = _pem("ssl_key_location", key), "PEM"
            if certificate == key and PLAIN_KEY in text:
                options["ssl.keystore.location"] = key
            else:
                options["ssl.keystore.certificate.chain"] = _pem("ssl_certificate_location", certificate)
                options["ssl.keystore.key"] = self._plain_key(key, text)
        return options

    def _plain_key(self, path: str, text: str) -> str:
        """A key as the JVM reads it: PKCS #8, not encrypted."""
        secret = self.ssl_key_password
        password = None if secret is None else secret.get_secret_value().encode()
        try:
            encrypted = "ENCRYPTED" in text
            key = serialization.load_pem_private_key(text.encode(), password if encrypted else None)
        except (TypeError, ValueError, UnsupportedAlgorithm) as error:
            raise TerminalError(
                f"Kafka: the private key in ssl_key_location '{path}' cannot be read.",
                detail=str(error).partition(".")[0],
                hint="Correct the file, or the key's password in HEADRACE_KAFKA_SSL_KEY_PASSWORD.",
            ) from error
        form, none = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        return key.private_bytes(serialization.Encoding.PEM, form, none).decode()


def _pem(name: str, path: str) -> str:
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
    return text


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
