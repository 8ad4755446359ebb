"""How a stream run behaves."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic_settings import SettingsConfigDict

from headrace.settings.environment import EnvironmentSettings

LEASE_SECONDS_LEAST = 3.0
TRIGGER_LEAST_MS, TRIGGER_MOST_MS = 50, 3_600_000


class StreamOverrides(BaseModel):
    """Settings of one stream instead of the settings of all; see `StreamSettings`."""

    model_config = ConfigDict(extra="forbid")

    trigger_ms: int | None = Field(default=None, ge=TRIGGER_LEAST_MS, le=TRIGGER_MOST_MS)
    rotate_after_hours: float | None = Field(default=None, gt=0)
    drain_timeout_seconds: float | None = Field(default=None, ge=0)
    standby: bool | None = None


class StreamSettings(EnvironmentSettings):
    """Read from the environment (`HEADRACE_STREAM_…`) when a run starts.

    In: trigger_ms             the shortest time between two micro-batches of a log, with which its nodes keep step
        rotate_after_hours     then a run drains, and the sensor starts a fresh one
        drain_timeout_seconds  how long a stop may go on folding the logs
        standby                a run waits for leases that another holds, for as long as it takes, and then takes over
        lease_seconds          when the lease of a silent process on another machine is free; it renews six times as often
        overrides              for single streams by name, as JSON: {"streams": {"trigger_ms": 500}}
    """

    model_config = SettingsConfigDict(env_prefix="HEADRACE_STREAM_")

    trigger_ms: int = Field(default=1_000, ge=TRIGGER_LEAST_MS, le=TRIGGER_MOST_MS)
    rotate_after_hours: float = Field(default=12.0, gt=0)
    drain_timeout_seconds: float = Field(default=60.0, ge=0)
    standby: bool = False
    lease_seconds: float = Field(default=60.0, ge=LEASE_SECONDS_LEAST)
    overrides: dict[str, StreamOverrides] = Field(default_factory=dict)

    def of(self, stream: str) -> StreamSettings:
        """The settings of one stream. In: stream  the name of its run."""
        own = self.overrides.get(stream)
        changed: dict[str, Any] = {} if own is None else own.model_dump(exclude_none=True)
        return self.model_copy(update=changed)
