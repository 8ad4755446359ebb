"""How much of the state each process keeps near."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from headrace.lake.state_limits import COPIES_BYTES_DEFAULT, PREFIX, REMEMBERED_BYTES_DEFAULT
from headrace.settings.environment import EnvironmentSettings


class StateSettings(EnvironmentSettings):
    """Read from the environment (`HEADRACE_STATE_…`); tasks read the same variables (see `lake.state_limits`).

    In: remembered_bytes  of decoded rows that one process, or one worker of an executor, keeps in memory
        copies_bytes      of local copies of large state files, on each machine; 0: none are made
        copies_folder     where they lie; None: below the folder for temporary files, one folder for each user
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX)

    remembered_bytes: int = Field(default=REMEMBERED_BYTES_DEFAULT, ge=0)
    copies_bytes: int = Field(default=COPIES_BYTES_DEFAULT, ge=0)
    copies_folder: str | None = None
