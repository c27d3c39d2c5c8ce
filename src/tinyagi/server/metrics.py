"""Figures for Prometheus: requests as they come, everything else as it is at the moment somebody asks."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from tinyagi.engine.archiving import Lag
from tinyagi.store.base import LogBounds, QueueDepth

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Seconds; the last one is without end."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The state of the daemon at one moment."""

    version: str
    started_at: int
    depth: QueueDepth
    bounds: LogBounds
    paused: int
    """Lanes that a person has paused."""
    runs: int
    readers: int
    """Of the live stream."""
    dropped_readers: int
    lag: Lag | None
    """None when there is no lake and none is wanted: a figure that nobody cares for must not raise an alarm."""
    is_archiving: bool
    failed_archivings: int


class Metrics:
    """Counts requests, cheaply and on the event loop only, and writes all figures in Prometheus' text format."""

    def __init__(self) -> None:
        self._process = CollectorRegistry()
        # They register themselves.
        ProcessCollector(registry=self._process)
        PlatformCollector(registry=self._process)
        GCCollector(registry=self._process)
        self._requests: dict[tuple[str, int], _Times] = {}

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count a request; the route is its pattern, so that there are few of them."""
        times = self._requests.get((route, status))
        if times is None:
            times = self._requests[route, status] = _Times()
        times.add(seconds)

    def snapshot(self, figures: Figures) -> Collector:
        """Everything of this moment, to be written at leisure."""
        return _Moment((self._request_times(), *_of_queue(figures), *_of_daemon(figures), *_of_lake(figures)))

    def render(self, moment: Collector) -> bytes:
        """The text. Looks into /proc, so it belongs into a thread."""
        registry = CollectorRegistry()
        registry.register(moment)
        return generate_latest(registry) + generate_latest(self._process)

    def _request_times(self) -> Metric:
        family = HistogramMetricFamily(
            "tinyagi_http_request_seconds", "Requests by route and status.", labels=("route", "status")
        )
        for (route, status), times in self._requests.items():
            family.add_metric((route, str(status)), times.buckets(), times.total)
        return family


class _Times:
    """A histogram of seconds."""

    __slots__ = ("_counts", "total")

    def __init__(self) -> None:
        self.total = 0.0
        self._counts = [0] * (len(BUCKETS) + 1)

    def add(self, seconds: float) -> None:
        self.total += seconds
        self._counts[bisect_left(BUCKETS, seconds)] += 1

    def buckets(self) -> list[tuple[str, float]]:
        names = [*(str(bound) for bound in BUCKETS), "+Inf"]
        return list(zip(names, map(float, accumulate(self._counts)), strict=True))


class _Moment(Collector):
    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _of_queue(figures: Figures) -> Iterator[Metric]:
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
    yield _gauge("tinyagi_lanes_paused", "Lanes that a person has paused.", figures.paused)
    yield _gauge("tinyagi_responses_outgoing", "Responses that no channel has acknowledged.", depth.outgoing)
    yield _gauge(
        "tinyagi_conversations_open", "Conversations in which something is to be done.", depth.open_conversations
    )


def _of_daemon(figures: Figures) -> Iterator[Metric]:
    yield _gauge("tinyagi_runs", "Runs that are going on in this daemon.", figures.runs)
    yield _gauge("tinyagi_stream_readers", "Readers of the live stream.", figures.readers)
    yield CounterMetricFamily(
        "tinyagi_stream_readers_dropped", "Readers that were too slow and were let go.", figures.dropped_readers
    )
    yield CounterMetricFamily(
        "tinyagi_events", "Events that were ever recorded: the head of the log.", figures.bounds.head
    )
    yield _gauge("tinyagi_events_oldest", "The oldest event that is still in the log.", figures.bounds.oldest)
    yield _gauge("tinyagi_start_time_seconds", "When this daemon started.", figures.started_at / 1000)
    info = GaugeMetricFamily("tinyagi_info", "Always 1; tells the version.", labels=("version",))
    info.add_metric((figures.version,), 1)
    yield info


def _of_lake(figures: Figures) -> Iterator[Metric]:
    if figures.lag is not None:
        yield _gauge("tinyagi_lake_lag_events", "Events that are not archived yet.", figures.lag.events)
        yield _gauge(
            "tinyagi_lake_lag_seconds", "The age of the oldest event that is not archived.", figures.lag.seconds
        )
    yield _gauge("tinyagi_pipeline_running", "1 while this daemon has the pipeline run.", figures.is_archiving)
    yield CounterMetricFamily(
        "tinyagi_pipeline_failures", "Runs of the pipeline that failed.", figures.failed_archivings
    )


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value)
