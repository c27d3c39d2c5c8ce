"""Models of the daemon: status, restarts, logs, the audit log, the event log and plugins."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from tinyagi.api.base import Model, Ok


class Restarting(Ok):
    """The daemon finishes the current runs, then starts again."""

    restarting: bool = True


class Applied(Ok):
    """Most settings take effect at once; the daemon restarts only for those that do not."""

    restarted: Annotated[bool, Field(description="True when the daemon restarts now.")]
    needs_restart: Annotated[tuple[str, ...], Field(description="Dotted names of the settings that need the restart.")]


class ServerStatus(Model):
    running: bool
    port: int


class ChannelStatus(Model):
    """A channel that is running or enabled."""

    running: Annotated[bool, Field(description="True while a process serves it, here or on another machine.")]
    enabled: Annotated[bool, Field(description="True when channels.enabled names it: it starts with the daemon.")]
    connected: Annotated[bool, Field(description="True while the platform accepts it.")] = False
    account: Annotated[str, Field(description="The bot's name on the platform.")] = ""
    error: Annotated[str | None, Field(description="Why it is not connected, or why its process ended.")] = None
    restarts: Annotated[int, Field(description="Restarts of its process since the daemon started.")] = 0


class HeartbeatStatus(Model):
    running: Annotated[bool, Field(description="True when at least one agent has a heartbeat.")]
    interval: Annotated[float, Field(description="Default in seconds, for agents without their own.")]
    last_sent: Annotated[dict[str, int], Field(description="When each agent got its last one, in ms.")]


class PipelineStatus(Model):
    """How far the lake is behind the log; counts are null without a lake and with the pipeline off."""

    enabled: Annotated[bool, Field(description="True when the daemon runs it automatically: enabled and installed.")]
    lake: Annotated[bool, Field(description="True when the home has a lake.")]
    through_id: Annotated[int | None, Field(description="The last archived event; 0 before the first run.")]
    head_id: Annotated[int | None, Field(description="The newest event.")]
    lag_events: Annotated[int | None, Field(description="Events that are not archived yet.")]
    lag_seconds: Annotated[float | None, Field(description="Age of the oldest of these.")]
    running: Annotated[bool, Field(description="True while the daemon runs the pipeline.")]
    last_error: Annotated[
        str | None, Field(description="Error of the daemon's last pipeline run; null after a success.")
    ]
    last_run_at: Annotated[int | None, Field(description="End of the daemon's last pipeline run, in ms.")]


class EngineStatus(Model):
    runs: Annotated[int, Field(description="Current runs.")]


class BackgroundTaskStatus(Model):
    """A task that runs as long as the daemon and is restarted after an error."""

    state: Annotated[Literal["running", "failing"], Field(description="`failing` until it has worked again.")]
    since: Annotated[int, Field(description="When that state began, in ms.")]
    restarts: Annotated[int, Field(description="Restarts after an error since the daemon started.")]
    last_error: Annotated[str | None, Field(description="Its last error, even if it works again.")]


class DaemonStatus(Model):
    """The state of a running daemon."""

    ok: bool = True
    uptime: Annotated[int, Field(description="Seconds since the daemon started.")]
    version: str
    server: ServerStatus
    channels: dict[str, ChannelStatus]
    heartbeat: HeartbeatStatus
    pipeline: PipelineStatus
    engine: EngineStatus
    background: Annotated[dict[str, BackgroundTaskStatus], Field(description="Background tasks by name.")]
    agents: Annotated[int, Field(description="Configured agents.")]
    teams: int
    needs_restart: Annotated[tuple[str, ...], Field(description="Changed settings that take effect after a restart.")]
    settings_warnings: Annotated[
        tuple[str, ...], Field(description="A sentence for each setting without effect, usually a misspelled one.")
    ] = ()


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class LogLines(Model):
    """The last lines of the log files, oldest first."""

    lines: Annotated[tuple[str, ...], Field(description="`[time] [LEVEL] text`, or JSON objects on request.")]


class AuditLine(Model):
    """An administrative action."""

    id: int
    at: int
    who: str
    action: str
    target: str
    detail: str


class LoggedEvent(Model):
    """An event of the log, with its texts in full."""

    id: Annotated[int, Field(description="Position in the log; pass it as `after`.")]
    type: str
    version: Annotated[int, Field(description="Version of the payload's schema.")]
    timestamp: int
    message_id: str | None
    conversation_id: str | None
    conversation_started_at: int | None
    agent_id: str | None
    payload: Annotated[dict[str, JsonValue], Field(description="The fields of this event type, as stored.")]


class PluginLine(Model):
    name: str
    origin: Annotated[str, Field(description="The path of its plugin.py, or its entry point and package.")]
    sha256: Annotated[str | None, Field(description="Hash of its source; null when it could not be read.")]
    error: Annotated[str | None, Field(description="Why it was skipped or disabled; null while it works.")]
