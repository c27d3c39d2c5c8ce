"""Figures for Prometheus, read with its own parser."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from tests.server.conftest import Premises
from tests.support.puppet import Gate
from tinyagi.domain.ids import AgentId
from tinyagi.engine.pipeline_trigger import LAKE, LakeLag
from tinyagi.server.metrics import Figures, Metrics
from tinyagi.store.event_log import LogBounds
from tinyagi.store.lanes import LaneDepth, QueueDepth

Figure = tuple[str, frozenset[tuple[str, str]]]
LANE = 'we"ird\n\\lane'

NOW = Figures(
    version="1.2.3",
    started_at=5_000,
    depth=QueueDepth(7, 2, 100, 1, 4, 3, (LaneDepth(LANE, pending=7, dead=1),)),
    bounds=LogBounds(11, 99),
    paused=1,
    runs=2,
    readers=5,
    dropped_readers=6,
    lag=LakeLag(through_id=90, head_id=99, events=9, seconds=61.5),
    pipeline_running=True,
    pipeline_failures=2,
)


def read(text: str) -> dict[Figure, float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def rendered(metrics: Metrics, figures: Figures = NOW) -> dict[Figure, float]:
    return read(metrics.render(metrics.snapshot(figures)).decode())


def named(name: str, **labels: str) -> Figure:
    return name, frozenset(labels.items())


def test_requests_are_counted_by_route_and_status_with_their_times() -> None:
    metrics = Metrics()
    for seconds in (0.0005, 0.004, 0.005, 60.0):
        metrics.request("/api/message", 200, seconds)
    metrics.request("/api/message", 409, 0.002)

    found = rendered(metrics)

    def bucket(limit: str) -> float:
        return found[named("tinyagi_http_request_seconds_bucket", route="/api/message", status="200", le=limit)]

    assert [bucket(limit) for limit in ("0.001", "0.0025", "0.005", "10.0", "+Inf")] == [1, 1, 3, 3, 4]
    labels = {"route": "/api/message", "status": "200"}
    assert found[named("tinyagi_http_request_seconds_count", **labels)] == 4
    assert found[named("tinyagi_http_request_seconds_sum", **labels)] == 60.0095
    assert found[named("tinyagi_http_request_seconds_count", route="/api/message", status="409")] == 1


def test_queue_and_stream_figures_are_rendered() -> None:
    found = rendered(Metrics())

    assert found[named("tinyagi_messages", status="pending")] == 7
    assert found[named("tinyagi_messages", status="completed")] == 100
    assert found[named("tinyagi_lane_messages", lane=LANE, status="pending")] == 7
    assert found[named("tinyagi_lane_messages", lane=LANE, status="dead")] == 1
    expected = {
        "tinyagi_responses_outgoing": 4,
        "tinyagi_conversations_open": 3,
        "tinyagi_lanes_paused": 1,
        "tinyagi_runs": 2,
        "tinyagi_stream_readers": 5,
        "tinyagi_stream_readers_dropped_total": 6,
        "tinyagi_events_total": 99,
        "tinyagi_events_oldest": 11,
        "tinyagi_start_time_seconds": 5,
        "tinyagi_lake_lag_events": 9,
        "tinyagi_lake_lag_seconds": 61.5,
        "tinyagi_pipeline_running": 1,
        "tinyagi_pipeline_failures_total": 2,
    }
    assert {name: found[named(name)] for name in expected} == expected
    assert found[named("tinyagi_info", version="1.2.3")] == 1
    assert found[named("process_resident_memory_bytes")] > 0


def test_a_home_without_a_lake_has_no_lag_figures() -> None:
    found = rendered(Metrics(), replace(NOW, lag=None, pipeline_running=False))

    assert named("tinyagi_lake_lag_seconds") not in found
    assert named("tinyagi_lake_lag_events") not in found
    assert found[named("tinyagi_pipeline_running")] == 0


def test_two_sets_of_metrics_share_nothing() -> None:
    one, other = Metrics(), Metrics()
    one.request("/api/message", 200, 0.1)

    counted = named("tinyagi_http_request_seconds_count", route="/api/message", status="200")
    assert rendered(one)[counted] == 1
    assert counted not in rendered(other)


def test_requests_are_counted_while_another_thread_renders() -> None:
    metrics = Metrics()
    with ThreadPoolExecutor(1) as renderer:
        renders = [renderer.submit(rendered, metrics) for _ in range(20)]
        requests = 0
        while not all(render.done() for render in renders) or not requests:
            requests += 1
            # A new label set now and then: the renderer must not trip over it.
            metrics.request(f"/api/{requests // 500}", 200, 0.001)

    def counted(found: dict[Figure, float]) -> float:
        return sum(value for (name, _), value in found.items() if name == "tinyagi_http_request_seconds_count")

    assert [counted(render.result()) for render in renders] == sorted(counted(render.result()) for render in renders)
    assert counted(rendered(metrics)) == requests


async def test_the_figures_of_a_running_daemon_are_served(premises: Premises) -> None:
    gate = premises.puppet.plays["coder"] = Gate()
    await premises.store.lanes.pause(AgentId("writer"))
    await premises.send("@coder build it")
    await premises.send("@writer write it")
    await gate.reached.wait()
    await premises.http.get("/api/queue/status")
    await premises.http.get("/api/queue/dead/1/nowhere")
    await premises.store.events.acknowledge(LAKE, 1)

    answer = await premises.http.get("/metrics")

    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    found = read(answer.text)
    assert found[named("tinyagi_messages", status="processing")] == 1
    assert found[named("tinyagi_lane_messages", lane="writer", status="pending")] == 1
    assert (found[named("tinyagi_runs")], found[named("tinyagi_lanes_paused")]) == (1, 1)
    assert found[named("tinyagi_events_total")] == (await premises.store.events.bounds()).head
    assert found[named("tinyagi_lake_lag_events")] == found[named("tinyagi_events_total")] - 1
    assert found[named("tinyagi_http_request_seconds_count", route="/api/queue/status", status="200")] == 1
    gate.open.set()
