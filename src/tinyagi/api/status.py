"""How the daemon is, in one object."""

from typing import Annotated, Literal

from pydantic import Field

from tinyagi.api.base import Model


class ServerStatus(Model):
    running: bool
    port: int


class ChannelStatus(Model):
    """A channel that runs or should run."""

    running: bool
    enabled: Annotated[bool, Field(description="True when the settings want it to run.")]


class HeartbeatStatus(Model):
    running: Annotated[bool, Field(description="True when at least one agent has a heartbeat.")]
    interval: Annotated[float, Field(description="Seconds, for agents that set none of their own.")]
    last_sent: Annotated[int | None, Field(description="The last one of any agent, in ms.")]


class PipelineStatus(Model):
    """How far the lake is behind the log; what is counted is null when there is no lake and none is wanted."""

    enabled: Annotated[bool, Field(description="True when the daemon runs it by itself: on, and installed.")]
    lake: Annotated[bool, Field(description="True when there is a lake: a pipeline has run on this home.")]
    through_id: Annotated[int | None, Field(description="The last event that is archived; 0 before the first run.")]
    head_id: Annotated[int | None, Field(description="The newest event.")]
    lag_events: Annotated[int | None, Field(description="Events that are not archived yet.")]
    lag_seconds: Annotated[float | None, Field(description="The age of the oldest of them.")]
    running: Annotated[bool, Field(description="True while the daemon has the pipeline run.")]
    last_error: Annotated[str | None, Field(description="Why the daemon's last run of it failed, if it did.")]
    last_run_at: Annotated[int | None, Field(description="When the daemon's last run of it ended, in ms.")]


class EngineStatus(Model):
    runs: Annotated[int, Field(description="Runs that are going on.")]


class BackgroundTaskStatus(Model):
    """A task that runs as long as the daemon; after a fault it is started again."""

    state: Annotated[Literal["running", "failing"], Field(description="`failing` until it has worked once again.")]
    since: Annotated[int, Field(description="When that state began, in ms.")]
    restarts: Annotated[int, Field(description="Starts after a fault since the daemon started.")]
    last_error: Annotated[str | None, Field(description="Its last fault, also when it runs again.")]


class Status(Model):
    """The daemon is up."""

    ok: bool = True
    uptime: Annotated[int, Field(description="Seconds since the daemon started.")]
    version: str
    server: ServerStatus
    channels: dict[str, ChannelStatus]
    heartbeat: HeartbeatStatus
    pipeline: PipelineStatus
    engine: EngineStatus
    background: Annotated[dict[str, BackgroundTaskStatus], Field(description="The endless tasks, by name.")]
    agents: Annotated[int, Field(description="Agents that are configured.")]
    teams: int
    needs_restart: Annotated[tuple[str, ...], Field(description="Settings that count only after a restart.")]
