"""Which Spark computes, and what its driver and executors get."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from headrace.settings.environment import EnvironmentSettings

NAMES = {
    "driver_memory": "spark.driver.memory",
    "driver_host": "spark.driver.host",
    "driver_bind_address": "spark.driver.bindAddress",
    "driver_pod": "spark.kubernetes.driver.pod.name",
    "executors": "spark.executor.instances",
    "executor_cores": "spark.executor.cores",
    "executor_memory": "spark.executor.memory",
    "executor_memory_overhead": "spark.executor.memoryOverhead",
    "cores_max": "spark.cores.max",
    "archives": "spark.archives",
}


class SparkSettings(EnvironmentSettings):
    """Read from the environment (`HEADRACE_SPARK_…`). None of them is a secret: Dagster shows them.

    In: master                    Spark's master URL
        driver_memory             of the run's process, as `4g`
        driver_host               the name or address at which executors reach the run's process; None: its host name
        driver_bind_address       the address to which that process binds; None: the same
        driver_pod                on Kubernetes the pod of the run's process; executors are removed with it
        executors                 how many, on Kubernetes and YARN
        executor_cores            tasks at once in one executor
        executor_memory           of its JVM
        executor_memory_overhead  beside the JVM: its Python workers
        cores_max                 of all executors of a run, on a standalone cluster
        archives                  a packed Python environment for the executors, as `s3a://bucket/venv.tar.gz#venv`
        ship_engine               whether executors get Headrace itself from the driver; False: their Python has it
        py_files                  modules of yours that tasks import (processors, functions of `transform`), as a JSON list
        conf                      more of Spark's settings, as a JSON object; they override all others
    """

    model_config = SettingsConfigDict(env_prefix="HEADRACE_SPARK_")

    master: str = "local[2]"
    driver_memory: str | None = None
    driver_host: str | None = None
    driver_bind_address: str | None = None
    driver_pod: str | None = None
    executors: int | None = Field(default=None, ge=1)
    executor_cores: int | None = Field(default=None, ge=1)
    executor_memory: str | None = None
    executor_memory_overhead: str | None = None
    cores_max: int | None = Field(default=None, ge=1)
    archives: str | None = None
    ship_engine: bool = True
    py_files: list[str] = Field(default_factory=list)
    conf: dict[str, str] = Field(default_factory=dict)

    @property
    def cores(self) -> int | None:
        """The cores of all executors of a run; None: the settings do not say."""
        if self.cores_max is not None or self.executors is None:
            return self.cores_max
        return self.executors * (self.executor_cores or 1)

    @property
    def spark_settings(self) -> dict[str, str]:
        """The settings, by Spark's names; the master is not among them."""
        named = {spark: getattr(self, own) for own, spark in NAMES.items()}
        return {name: str(value) for name, value in named.items() if value is not None} | self.conf
