"""The body of a stream run: poll the queries each second until asked to stop or time to rotate.

How it ends: interrupted, it drains and is CANCELED (a person's choice); after `rotate_after_hours` it drains
and SUCCEEDS (the sensor starts the next); when every query has failed for good it FAILS with the causes; when Spark's
JVM ends it FAILS within seconds (the sensor starts the next).
"""

import time
from collections.abc import Callable, Sequence

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field
from pyspark.sql import SparkSession

from headrace.errors import TerminalError
from headrace.observe.metrics import MetricsEndpoint
from headrace.orchestration.events.completed import CompletedDays
from headrace.orchestration.events.current import CurrentTable
from headrace.orchestration.events.finality import FinalParts
from headrace.orchestration.events.progress import Cadence, ProgressReporter
from headrace.orchestration.heartbeat import Heartbeat
from headrace.orchestration.interrupts import StopRequest
from headrace.orchestration.keys import STREAM_TAG, query_of, stream_key
from headrace.orchestration.pipeline import Pipeline
from headrace.orchestration.resources import LakeResource, session
from headrace.orchestration.verdicts.advancing import AdvanceReporter
from headrace.orchestration.verdicts.increments import JudgedIncrements
from headrace.quality.checks import announce
from headrace.settings import StateSettings, StreamSettings
from headrace.spark.kafka import KafkaSettings
from headrace.streams.jvm_process import JvmEndedError
from headrace.streams.status.stream_status import StreamStatus
from headrace.streams.stream_runtime import StreamRuntime
from headrace.streams.trigger import FollowedTrigger

POLL_SECONDS = 1.0


class StreamConfig(dg.Config):
    """Holds how a stream run behaves; every value has a default that serves.

    A value that differs from these defaults holds for the run. For the rest the environment decides (see `StreamSettings`).
    """

    observe_every_seconds: float = Field(
        default=20.0, description="One observation per asset in this time, at first."
    )
    settle_after_minutes: float = Field(default=10.0, description="When a run counts as settled.")
    observe_settled_every_seconds: float = Field(
        default=600.0,
        description="The same after the run has settled. A day adds mostly these events to Dagster's database.",
    )
    materialize_every_minutes: float = Field(
        default=10.0, description="One materialization per asset in this time."
    )
    rotate_after_hours: float = Field(
        default=12.0, description="After this time the run drains, and the sensor starts a new one."
    )
    drain_timeout_seconds: float = Field(
        default=60.0, description="How long a stop may go on folding the logs."
    )
    close_batches_on_stop: bool = Field(
        default=True,
        description="Whether a stop closes open batches, because nobody knows when the next run begins. After "
        "`rotate_after_hours` the next run begins at once, so batches stay open.",
    )
    trigger_ms: int = Field(
        default=1_000,
        description="The shortest time between two micro-batches of a query, unless the job set_trigger has set another.",
    )


def settings_of(config: StreamConfig, stream: str) -> StreamSettings:
    """Read the settings of a stream's run: those of this run come before those of the environment."""
    StateSettings()  # tasks take the default of what is no number; a run is refused
    names = ("trigger_ms", "rotate_after_hours", "drain_timeout_seconds")
    given, default = config.model_dump(include=set(names)), StreamConfig().model_dump()
    changed = {name: given[name] for name in names if given[name] != default[name]}
    return StreamSettings().of(stream).model_copy(update=changed)


def host_streams(
    context: dg.AssetExecutionContext,
    pipeline: Pipeline,
    config: StreamConfig,
    spark: LazyPySparkResource,
    lake: LakeResource,
) -> None:
    """Run the selected queries in this process until something ends it (see above).

    Raises: DagsterExecutionInterruptedError when a person stopped it; Failure when all queries have failed.
    """
    if STREAM_TAG not in context.run.tags:  # launched from an asset's page, not as the job
        context.instance.add_run_tags(context.run_id, {STREAM_TAG: pipeline.name})
    advancing = AdvanceReporter(context.instance, context.run_id)
    _announce(context, pipeline, lake)
    with (
        StopRequest() as stop,
        Heartbeat(context.instance, context.run_id, stop.ask, on_beat=advancing.report),
        MetricsEndpoint() as metrics,
    ):
        started = _start_spark(context, spark, stop)
        if started is not None and stop.reason is None:
            try:
                _Watch(context, pipeline, config, started, lake, [advancing.see, metrics.see]).until(stop)
            finally:
                advancing.report()  # a stream that was stopped does not stand still
    if stop.reason is not None:
        context.log.info(f"Stopped: {stop.reason}.")
        raise dg.DagsterExecutionInterruptedError(stop.reason)


def _announce(context: dg.AssetExecutionContext, pipeline: Pipeline, lake: LakeResource) -> None:
    """Let the report say what will be checked, before anything was; a stream runs without it, too."""
    try:
        announce(lake.docs_folder, pipeline.own_topics, pipeline.nodes)
    except (OSError, TerminalError) as error:
        context.log.warning(f"The report could not be begun: {error}")


def _start_spark(
    context: dg.AssetExecutionContext, spark: LazyPySparkResource, stop: StopRequest
) -> SparkSession | None:
    try:
        return session(spark, context.log, drains=True)
    except KeyboardInterrupt:  # Spark's own handler, had it just taken the signal
        stop.ask("interrupted while Spark started")
        return None


class Reported:
    """Chooses the queries that a run reports: all, or, where another run may have them, those that it has had itself."""

    def __init__(self, *, stands_by: bool, report: Callable[[str], None]) -> None:
        """It has had none. In: report  is told when others begin or cease to have some."""
        self._stands_by, self._announce = stands_by, report
        self._had: set[str] = set()
        self._waiting: list[str] = []

    def of(self, statuses: Sequence[StreamStatus]) -> list[StreamStatus]:
        """Give the statuses to report. A query that waits is left out: the run that has it reports it."""
        if not self._stands_by:
            return [*statuses]
        waiting = [each.asset for each in statuses if each.state == "waiting"]
        if waiting != self._waiting:
            self._waiting = waiting
            self._announce(
                f"Stands by for {', '.join(waiting)}." if waiting else "Stands by for nothing more."
            )
        self._had |= {each.asset for each in statuses if each.state in ("running", "paused", "failed")}
        return [each for each in statuses if each.asset in self._had and each.state != "waiting"]


class _Watch:
    """The loop around a runtime."""

    def __init__(
        self,
        context: dg.AssetExecutionContext,
        pipeline: Pipeline,
        config: StreamConfig,
        spark: SparkSession,
        lake: LakeResource,
        listeners: Sequence[Callable[[Sequence[StreamStatus]], None]],
    ) -> None:
        self._context, self._config, self._listeners = context, config, listeners
        self._reported = Reported(stands_by=pipeline.standby, report=context.log.info)
        self._logs_elsewhere = pipeline.logs_elsewhere
        self._of = settings_of(config, pipeline.name)
        self._trigger = FollowedTrigger(
            lake.lake, pipeline.name, self._of.trigger_ms, warn=context.log.warning
        )
        self._runtime = StreamRuntime(
            spark,
            lake.lake,
            pipeline.nodes,
            kafka=pipeline.kafka or KafkaSettings(),
            only=pipeline.hosted(context.selected_asset_keys),
            trigger_ms=self._trigger.now_ms(),
            standby=pipeline.standby or self._of.standby,
        )
        self._progress = ProgressReporter(
            context,
            pipeline.versions(),
            pipeline.checks(),
            observe=Cadence(
                config.observe_every_seconds,
                config.observe_settled_every_seconds,
                config.settle_after_minutes * 60,
            ),
            materialize=Cadence(
                min(60, config.materialize_every_minutes * 60),
                config.materialize_every_minutes * 60,
                config.settle_after_minutes * 60,
            ),
        )
        self._days = {
            query_of(stream_key(node)): CompletedDays(context, pipeline, node, spark, lake.lake)
            for node in pipeline.nodes
            if node.day_column is not None
        }
        self._finals = {
            query_of(stream_key(node)): FinalParts(context, pipeline, node)
            for node in pipeline.nodes
            if node.required_name in pipeline.finals
        }
        self._tables = {
            query_of(stream_key(node)): CurrentTable(
                context, pipeline, node, lake.lake, every_seconds=config.materialize_every_minutes * 60
            )
            for node in pipeline.nodes
            if stream_key(node) in context.selected_asset_keys
        }
        self._judged = {
            query_of(stream_key(node)): JudgedIncrements(context, node, spark, lake.lake)
            for node in pipeline.nodes
            if node.expectations and stream_key(node) in context.selected_asset_keys
        }

    def until(self, stop: StopRequest) -> None:
        """Poll and report until stopped, then drain; whatever happens, the queries are drained."""
        queries = len(self._context.selected_asset_keys)
        self._context.log.info(
            f"Spark is running. Starting {queries} queries, one after another; each takes some seconds."
        )
        began = time.monotonic()
        rotate_at = began + self._of.rotate_after_hours * 3600
        try:
            while stop.reason is None and time.monotonic() < rotate_at:
                self._runtime.set_trigger(self._trigger.now_ms())
                statuses = self._runtime.poll()
                self._report(statuses, time.monotonic() - began)
                if self._runtime.jvm_ended:
                    break  # `drain` raises
                _fail_if_all_failed(statuses)
                stop.wait(POLL_SECONDS)
        finally:
            self._drain(stop)

    def _report(self, statuses: Sequence[StreamStatus], age: float) -> None:
        statuses = self._of_this_run(statuses)
        for listen in self._listeners:
            listen(statuses)
        if self._runtime.jvm_ended:
            return  # the last word follows at once, and tables cannot be read any more
        self._progress.report(statuses, now=age, wall=time.time())
        for status in statuses:
            if status.asset in self._days:
                self._days[status.asset].report(status.stream_time_ms, status.read_ms)
            if status.asset in self._finals:
                self._finals[status.asset].report(status.stream_time_ms, status.read_ms)
            if status.asset in self._tables:
                self._tables[status.asset].report()
            if status.asset in self._judged:
                self._judged[status.asset].report()

    def _of_this_run(self, statuses: Sequence[StreamStatus]) -> list[StreamStatus]:
        """Without what another run has, and without logs that are assets elsewhere, unless this run writes them."""
        elsewhere = {f"log/{name}" for name in self._logs_elsewhere}
        ours = self._reported.of(statuses)
        return [status for status in ours if status.asset not in elsewhere or status.state == "running"]

    def _drain(self, stop: StopRequest) -> None:
        if self._runtime.jvm_ended:
            self._context.log.error("Spark's JVM has ended: the streams cannot be drained.")
        else:
            why = stop.reason or "it is time for a fresh run"
            self._context.log.info(
                f"Draining ({why}): micro-batches end, then the nodes fold what the logs hold."
            )
        close = self._config.close_batches_on_stop and stop.reason is not None
        try:
            self._runtime.drain(self._of.drain_timeout_seconds, close_batches=close)
        except JvmEndedError as error:
            if stop.reason is None:
                raise dg.Failure(str(error), allow_retries=False) from error
            self._context.log.error(f"The run stops, but its streams were not drained. {error}")
        finally:
            self._say_farewell()

    def _say_farewell(self) -> None:
        statuses = self._of_this_run(self._runtime.poll())
        for listen in self._listeners:
            listen(statuses)
        self._progress.farewell(statuses, wall=time.time())
        if not self._runtime.jvm_ended:
            for status in statuses:
                if status.asset in self._tables:
                    self._tables[status.asset].report(last=True)
                if status.asset in self._judged:
                    self._judged[status.asset].report(last=True)


def _fail_if_all_failed(statuses: Sequence[StreamStatus]) -> None:
    if statuses and all(status.state in ("failed", "ended") for status in statuses):
        causes = {status.asset: status.error or "unknown" for status in statuses}
        told = "\n".join(f"{asset}: {error}" for asset, error in causes.items())
        text = f"Every query of this run has failed.\n{told}"
        raise dg.Failure(text, metadata=causes, allow_retries=False)
