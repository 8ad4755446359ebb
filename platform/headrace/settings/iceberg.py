"""The mirror of tables in an Iceberg catalog."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from headrace.errors import TerminalError
from headrace.settings.environment import EnvironmentSettings
from headrace.settings.secret_urls import require_escaped


class IcebergSettings(EnvironmentSettings):
    """Read from the environment (`HEADRACE_ICEBERG_…`), secrets included. Without a `uri` there is no mirror.

    In: uri             of the catalog: `https://…` of one that speaks Iceberg's REST protocol; else of a database, such as
                        `postgresql+psycopg://…` or `sqlite:///…`, which may hold a password
        warehouse       REST: the warehouse's name in the catalog. Database: the URI below which Iceberg's own files go
        credential      REST: `client:secret`
        token           REST: a token in place of a credential
        oauth2_uri      REST: where the credential gives a token; None: at the catalog
        namespace       of the mirrored tables
        nodes           whose results are mirrored; empty: of all nodes
        logs            topics whose logs are mirrored
        when            `interval`: every so many seconds; `final_days`: a table with days when one more of them is final
        every_seconds   between two looks at the tables
        snapshots_hours  then a snapshot leaves the Iceberg table; the newest one stays
    """

    model_config = SettingsConfigDict(env_prefix="HEADRACE_ICEBERG_")

    uri: SecretStr | None = None
    warehouse: str | None = None
    credential: SecretStr | None = None
    token: SecretStr | None = None
    oauth2_uri: str | None = None
    namespace: str = Field(default="headrace", min_length=1)
    nodes: list[str] = Field(default_factory=list)
    logs: list[str] = Field(default_factory=list)
    when: Literal["interval", "final_days"] = "interval"
    every_seconds: float = Field(default=60.0, ge=1)
    snapshots_hours: float = Field(default=2.0, gt=0, le=24)

    @model_validator(mode="after")
    def _hides_its_password(self) -> Self:
        require_escaped("" if self.uri is None else self.uri.get_secret_value(), "HEADRACE_ICEBERG_URI")
        return self

    @model_validator(mode="after")
    def _rest_has_what_is_of_rest(self) -> Self:
        of_rest = [name for name in ("credential", "token", "oauth2_uri") if getattr(self, name) is not None]
        if self.uri is not None and not self.is_rest and of_rest:
            variables = ", ".join(f"HEADRACE_ICEBERG_{name.upper()}" for name in of_rest)
            raise TerminalError(
                f"{variables}: only a REST catalog takes that, and HEADRACE_ICEBERG_URI names a database.",
                hint="Leave it out, or name a catalog by https://….",
            )
        return self

    @property
    def is_rest(self) -> bool:
        """True if the catalog speaks Iceberg's REST protocol."""
        uri = "" if self.uri is None else self.uri.get_secret_value()
        return uri.startswith(("http://", "https://"))

    def mirrors(self, node: str) -> bool:
        """True if the results of a node are mirrored."""
        return self.uri is not None and (not self.nodes or node in self.nodes)

    def mirrors_log(self, topic: str) -> bool:
        """True if the log of a topic is mirrored."""
        return self.uri is not None and topic in self.logs
