"""How the daemon is: in one object for people and programs, in figures for Prometheus."""

import asyncio

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import PlainTextResponse

from tinyagi.api.status import (
    BackgroundTaskStatus,
    ChannelStatus,
    EngineStatus,
    HeartbeatStatus,
    PipelineStatus,
    ServerStatus,
    Status,
)
from tinyagi.server.metrics import Figures
from tinyagi.server.services import Services, Use
from tinyagi.store.clock import wall_clock

router = APIRouter(tags=["status"])


@router.get("/api/status", response_model=Status)
async def read_status(services: Use) -> Status:
    """Tell how long the daemon is up, what it runs, what fails, how far the lake is behind, what needs a restart."""
    settings, engine = services.settings, services.engine
    return Status(
        uptime=max(0, wall_clock() - services.started_at) // 1000,
        version=services.version,
        server=ServerStatus(running=True, port=services.port),
        channels=_channels(services),
        heartbeat=HeartbeatStatus(
            running=bool(engine.heartbeat.next_at),
            interval=settings.current.monitoring.heartbeat_interval,
            last_sent=engine.heartbeat.last_sent,
        ),
        pipeline=await _pipeline(services),
        engine=EngineStatus(runs=len(engine.runs())),
        background=_background(services),
        agents=len(services.rules.roster.agents),
        teams=len(services.rules.roster.teams),
        needs_restart=settings.needs_restart,
    )


@router.get("/metrics", response_class=PlainTextResponse)
async def read_metrics(services: Use) -> PlainTextResponse:
    """Give the figures of this moment in Prometheus' text format."""
    moment = services.metrics.snapshot(await _figures(services))
    text = await asyncio.to_thread(services.metrics.render, moment)
    return PlainTextResponse(text, headers={"content-type": CONTENT_TYPE_LATEST})


def _channels(services: Services) -> dict[str, ChannelStatus]:
    """Those that this daemon has, and those that the settings want and nobody runs."""
    wanted = services.settings.current.channels.enabled
    there = services.channels
    return {
        name: ChannelStatus(running=name in there and there[name].running, enabled=name in wanted)
        for name in dict.fromkeys([*there, *wanted])
    }


def _background(services: Services) -> dict[str, BackgroundTaskStatus]:
    return {
        name: BackgroundTaskStatus(
            state="failing" if task.failing else "running",
            since=task.since,
            restarts=task.restarts,
            last_error=task.last_error,
        )
        for name, task in services.engine.background.states.items()
    }


async def _pipeline(services: Services) -> PipelineStatus:
    archiving = services.engine.archiving
    lag = await archiving.lag()
    return PipelineStatus(
        enabled=archiving.is_wanted,
        lake=await asyncio.to_thread(services.home.lake.is_dir),
        through_id=None if lag is None else lag.through_id,
        head_id=None if lag is None else lag.head_id,
        lag_events=None if lag is None else lag.events,
        lag_seconds=None if lag is None else lag.seconds,
        running=archiving.is_running,
        last_error=archiving.last_error,
        last_run_at=archiving.last_run_at,
    )


async def _figures(services: Services) -> Figures:
    store, archiving = services.store, services.engine.archiving
    return Figures(
        version=services.version,
        started_at=services.started_at,
        depth=await store.queue.depth(),
        bounds=await store.events.bounds(),
        paused=sum(lane.paused for lane in await store.lanes.all()),
        runs=len(services.engine.runs()),
        readers=services.hub.readers,
        dropped_readers=services.hub.dropped,
        lag=await archiving.lag(),
        is_archiving=archiving.is_running,
        failed_archivings=archiving.failures,
    )
