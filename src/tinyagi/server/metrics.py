"""Metrics in Prometheus' text format: counts requests; the caller passes a snapshot of everything else."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tinyagi.engine.pipeline_trigger import LakeLag
from tinyagi.store.event_log import LogBounds
from tinyagi.store.lanes import QueueDepth

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper bounds in seconds; a last bucket without a bound follows."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The state of the daemon at one moment."""

    version: str
    started_at: int
    depth: QueueDepth
    bounds: LogBounds
    paused: int
    """Paused lanes."""
    runs: int
    readers: int
    """Readers of the live stream."""
    dropped_readers: int
    lag: LakeLag | None
    """None without a lake and with the pipeline off: an unused metric must not raise an alert."""
    pipeline_running: bool
    pipeline_failures: int


class Metrics:
    """Counts requests and renders all metrics."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._requests = Histogram(
            "tinyagi_http_request_seconds",
            "Requests by route and status.",
            labelnames=("route", "status"),
            buckets=BUCKETS,
            registry=self._registry,
        )

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count a request; `route` is the pattern, so that labels stay few."""
        self._requests.labels(route, status).observe(seconds)

    def snapshot(self, figures: Figures) -> Collector:
        """Collect the daemon's state now, to be rendered later."""
        return _Snapshot((*_queue_metrics(figures), *_daemon_metrics(figures), *_lake_metrics(figures)))

    def render(self, snapshot: Collector) -> bytes:
        """Render the text. Reads /proc, so call it in a thread."""
        registry = CollectorRegistry()
        registry.register(snapshot)
        return generate_latest(registry) + generate_latest(self._registry)


class _Snapshot(Collector):
    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _queue_metrics(figures: Figures) -> Iterator[Metric]:
    depth = figures.depth
    messages = GaugeMetricFamily("tinyagi_messages", "Messages by status.", labels=("status",))
    for status in ("pending", "processing", "completed", "dead"):
        messages.add_metric((status,), getattr(depth, status))
    yield messages
    lanes = GaugeMetricFamily("tinyagi_lane_messages", "Messages by lane and status.", labels=("lane", "status"))
    for lane in depth.lanes:
        for status in ("pending", "processing", "dead"):
            lanes.add_metric((lane.agent, status), getattr(lane, status))
    yield lanes
    yield _gauge("tinyagi_lanes_paused", "Paused lanes.", figures.paused)
    yield _gauge("tinyagi_responses_outgoing", "Responses that no channel has acknowledged yet.", depth.outgoing)
    yield _gauge("tinyagi_conversations_open", "Conversations with open messages.", depth.open_conversations)


def _daemon_metrics(figures: Figures) -> Iterator[Metric]:
    yield _gauge("tinyagi_runs", "Current runs of this daemon.", figures.runs)
    yield _gauge("tinyagi_stream_readers", "Readers of the live stream.", figures.readers)
    yield CounterMetricFamily(
        "tinyagi_stream_readers_dropped", "Readers dropped because they were too slow.", figures.dropped_readers
    )
    yield CounterMetricFamily("tinyagi_events", "Events recorded so far: the head of the log.", figures.bounds.head)
    yield _gauge("tinyagi_events_oldest", "Id of the oldest event in the log.", figures.bounds.oldest)
    yield _gauge("tinyagi_start_time_seconds", "Start time of this daemon.", figures.started_at / 1000)
    info = GaugeMetricFamily("tinyagi_info", "Always 1; the label has the version.", labels=("version",))
    info.add_metric((figures.version,), 1)
    yield info


def _lake_metrics(figures: Figures) -> Iterator[Metric]:
    if figures.lag is not None:
        yield _gauge("tinyagi_lake_lag_events", "Events that are not archived yet.", figures.lag.events)
        yield _gauge(
            "tinyagi_lake_lag_seconds", "Age of the oldest event that is not archived yet.", figures.lag.seconds
        )
    yield _gauge("tinyagi_pipeline_running", "1 while this daemon runs the pipeline.", figures.pipeline_running)
    yield CounterMetricFamily("tinyagi_pipeline_failures", "Failed runs of the pipeline.", figures.pipeline_failures)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value)
