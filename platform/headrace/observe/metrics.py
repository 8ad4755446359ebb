"""The Prometheus endpoint of a stream run: the figures of its queries, as of the last poll."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

import structlog
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from headrace.observe.figures import FATES, MEANINGS, numbers
from headrace.settings import Settings
from headrace.streams import topic_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prometheus_client.metrics_core import Metric

    from headrace.streams.status.stream_status import StreamStatus

logger = structlog.get_logger(__name__)
COUNTED = {  # that only grow within a run; the client adds `_total`
    "rows_total": "rows",
    "suppression_emit_total": "suppression_emit",
    "suppression_emit_early_total": "suppression_emit_early",
    **{name: name for name in (*FATES.values(), *topic_reader.MEANINGS)},
}
STATES = ("running", "paused", "waiting", "restarting", "failed", "stopped", "ended")


class MetricsEndpoint(Collector):
    """Serves metrics while entered, if `HEADRACE_METRICS_PORT` is set: on loopback, or on `HEADRACE_METRICS_HOST`.

    Law: a scrape reads what the last poll said; it asks neither Spark nor Kafka.
    """

    def __init__(self, port: int | None = None) -> None:
        """In: port  in place of that of the settings; 0 takes a free one."""
        settings = Settings()
        self.port = settings.metrics_port if port is None else port
        self._price_per_hour = settings.price_per_hour
        self._host = settings.metrics_host
        self._statuses: Sequence[StreamStatus] = ()
        self._wall = 0.0
        self._close: Callable[[], None] = lambda: None

    def see(self, statuses: Sequence[StreamStatus]) -> None:
        """Keep the statuses of a poll for the next scrape."""
        self._statuses, self._wall = tuple(statuses), time.time()

    def collect(self) -> Iterator[Metric]:
        """Give the metrics, each with the label `asset`."""
        shown = [
            (status.asset, numbers(status, self._wall, self._price_per_hour)) for status in self._statuses
        ]
        for name, meaning in MEANINGS.items():
            kind = CounterMetricFamily if name in COUNTED else GaugeMetricFamily
            family = kind(f"headrace_{COUNTED.get(name, name)}", meaning, labels=["asset"])
            for asset, known in shown:
                if name in known:
                    family.add_metric([asset], known[name])
            yield family
        state = GaugeMetricFamily(
            "headrace_state", "1 for the state that the query is in.", labels=["asset", "state"]
        )
        for status in self._statuses:
            for each in STATES:
                state.add_metric([status.asset, each], float(status.state == each))
        yield state

    def __enter__(self) -> Self:
        if self.port is None:
            return self
        registry = CollectorRegistry()
        registry.register(self)
        try:
            server, thread = start_http_server(self.port, self._host, registry)
        except OSError as error:
            # Another stream run of this machine has it; a run needs no metrics to be right.
            logger.warning("no metrics endpoint", host=self._host, port=self.port, error=str(error))
            return self
        self.port = server.server_port

        def close() -> None:
            server.shutdown()
            server.server_close()
            thread.join(timeout=5)

        self._close = close
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
