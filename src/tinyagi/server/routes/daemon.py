"""The daemon over HTTP: status, metrics, logs, plugins, restart."""

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import PlainTextResponse

from tinyagi.api.base import ID
from tinyagi.api.daemon import (
    Applied,
    BackgroundTaskStatus,
    ChannelStatus,
    DaemonStatus,
    EngineStatus,
    HeartbeatStatus,
    LogFormat,
    LogLines,
    PipelineStatus,
    PluginLine,
    Restarting,
    ServerStatus,
)
from tinyagi.log_reader import ALL, for_people, tail
from tinyagi.server.dependencies import Services, ServicesDep, limit
from tinyagi.server.errors import responses
from tinyagi.server.metrics import Figures
from tinyagi.server.routes.audit import audited_router, set_audit_detail
from tinyagi.settings.effective import HEARTBEAT_SECONDS
from tinyagi.system.clock import wall_clock

router = APIRouter(tags=["status"])
logs_router = APIRouter(tags=["logs"])
plugins_router = APIRouter(tags=["services"])
services_router = audited_router()

Source = Annotated[str, Query(pattern=ID, description="`queue`, `daemon`, the id of a channel, or `all`.")]

Form = Annotated[
    LogFormat, Query(alias="format", description="`text`: `[time] [LEVEL] text`; `json`: the stored lines.")
]


@services_router.post("/api/services/restart", tags=["services"])
async def restart_daemon(services: ServicesDep) -> Restarting:
    """Restart the daemon: finish the current runs, then start with the current settings."""
    services.restart()
    return Restarting()


@services_router.post("/api/services/apply", tags=["services"])
async def apply_settings(services: ServicesDep, request: Request) -> Applied:
    """Restart the daemon only if changed settings need it."""
    changed = services.settings.needs_restart
    if changed:
        services.restart()
    set_audit_detail(request, ", ".join(changed))
    return Applied(restarted=bool(changed), needs_restart=changed)


@router.get("/api/status", response_model=DaemonStatus)
async def read_status(services: ServicesDep) -> DaemonStatus:
    """Show uptime, runs, failing tasks, the lag of the lake, and the settings that need a restart."""
    settings, engine = services.settings, services.engine
    configured = settings.current.monitoring.heartbeat_interval
    return DaemonStatus(
        uptime=max(0, wall_clock() - services.started_at) // 1000,
        version=services.version,
        server=ServerStatus(running=True, port=services.port),
        channels=_channels(services),
        heartbeat=HeartbeatStatus(
            running=bool(engine.heartbeat.next_at),
            interval=HEARTBEAT_SECONDS if configured is None else configured,
            last_sent={str(agent): at for agent, at in engine.heartbeat.last_sent.items()},
        ),
        pipeline=await _pipeline(services),
        engine=EngineStatus(runs=len(engine.runs())),
        background=_background(services),
        agents=len(services.rules.roster.agents),
        teams=len(services.rules.roster.teams),
        needs_restart=settings.needs_restart,
        settings_warnings=settings.warnings,
    )


@router.get("/metrics", response_class=PlainTextResponse)
async def read_metrics(services: ServicesDep) -> PlainTextResponse:
    """Return the current metrics in Prometheus' text format."""
    snapshot = services.metrics.snapshot(await _figures(services))
    text = await asyncio.to_thread(services.metrics.render, snapshot)
    return PlainTextResponse(text, headers={"content-type": CONTENT_TYPE_LATEST})


def _channels(services: Services) -> dict[str, ChannelStatus]:
    """The channels that are enabled or running."""
    enabled = services.settings.current.channels.enabled
    used = (name for name, channel in services.channels.items() if channel.running or channel.last_error)
    return {
        name: _channel(services, name, is_enabled=name in enabled)
        for name in dict.fromkeys([*enabled, *used, *services.relays.serving()])
    }


def _channel(services: Services, name: str, *, is_enabled: bool) -> ChannelStatus:
    process, report = services.channels.get(name), services.relays.of(name)
    is_connected = report is not None and report.connected
    said = None if report is None else report.error
    # The last words of an earlier process say nothing about one that works.
    error = None if is_connected else said or (None if process is None else process.last_error)
    return ChannelStatus(
        running=report is not None or (process is not None and process.running),
        enabled=is_enabled,
        connected=is_connected,
        account="" if report is None else report.account,
        error=error,
        restarts=0 if process is None else process.restarts,
    )


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
        pipeline_running=archiving.is_running,
        pipeline_failures=archiving.failures,
    )


@logs_router.get("/api/logs", response_model=LogLines, responses=responses(404))
async def read_logs(
    services: ServicesDep, source: Source = ALL, form: Form = LogFormat.TEXT, limit: int = limit(100)
) -> LogLines:
    """Show the last lines of the logs, oldest first; secrets were masked when they were written."""
    return LogLines(lines=await asyncio.to_thread(_log_lines, services.home.logs, source, limit, form))


def _log_lines(folder: Path, source: str, limit: int, form: LogFormat) -> tuple[str, ...]:
    lines = tail(folder, source, limit)
    return tuple(lines if form is LogFormat.JSON else map(for_people, lines))


@plugins_router.get("/api/plugins", response_model=list[PluginLine])
async def list_plugins(services: ServicesDep) -> list[PluginLine]:
    """List the plugins found at start with their errors, without disabled ones."""
    return [PluginLine(**asdict(plugin)) for plugin in services.engine.plugins]
