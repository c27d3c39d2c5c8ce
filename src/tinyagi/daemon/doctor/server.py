"""Checks of the daemon, its API and the pipeline: running, access, port, lag of the lake."""

import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Final

import psutil
from pydantic import TypeAdapter, ValidationError

from tinyagi.api.daemon import BackgroundTaskStatus, ChannelStatus, PipelineStatus
from tinyagi.daemon.control import query_daemon
from tinyagi.daemon.doctor.findings import CheckContext, Finding, hint, ok, problem, warning
from tinyagi.daemon.pidfile import DaemonError, DaemonState, already_running_message, find_daemon
from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.texts import counted
from tinyagi.settings.environment import TOKEN_NAME, api_host, api_port, api_token, is_loopback
from tinyagi.settings.model import SHORTEST_TOKEN, Settings
from tinyagi.system import peer_user
from tinyagi.wiring import pipeline_is_installed

_TASKS: Final = TypeAdapter(dict[str, BackgroundTaskStatus])
_CHANNELS: Final = TypeAdapter(dict[str, ChannelStatus])
_FEW_CHARACTERS = 8
"""A token with fewer different characters is easy to guess."""

_HOUR = 3600


def access(context: CheckContext, settings: Settings) -> Iterator[Finding]:
    server = settings.server
    token, host = api_token(context.environment, server.token), api_host(context.environment, server.host)
    if token is None and not is_loopback(host):
        yield problem("Access", f"Others can reach {host}, and there is no token.", "Make one with: tinyagi token")
    elif token is None and server.check_peer_user and peer_user.IS_SUPPORTED:
        yield ok("Access", f"{host}: the daemon's own user and root only, without a token")
    elif token is None:
        yield warning(
            "Access",
            "There is no token, so every user of this machine can call the API and make agents run programs as you.",
            "Make a token: tinyagi token",
        )
    elif len(token) < SHORTEST_TOKEN or len(set(token)) < _FEW_CHARACTERS:
        is_stored = not context.environment.get(TOKEN_NAME)
        remedy = "Replace it with: tinyagi token rotate" if is_stored else f"Unset {TOKEN_NAME}, then: tinyagi token"
        yield problem("Access", "The token is easy to guess.", remedy)
    else:
        yield ok("Access", f"{host}, with a token")
    wild = [name for name in (*server.allowed_origins, *server.allowed_hosts) if "*" in name]
    if wild:
        yield problem(
            "Origins",
            f"{', '.join(wild)} would let any web page use the API.",
            "List exact names in server.allowed_origins and server.allowed_hosts.",
        )


def daemon(context: CheckContext, settings: Settings) -> Iterator[Finding]:
    try:
        found = find_daemon(context.home)
    except DaemonError as error:
        yield problem("Daemon", str(error), "Fix this first: without the lock two daemons could run on one home.")
        return
    match found.state:
        case DaemonState.RUNNING:
            token = api_token(context.environment, settings.server.token)
            status = query_daemon(found, token)
            if status is None:
                yield problem(
                    "Daemon",
                    f"It runs (pid {found.pid}) but does not answer at {found.url}.",
                    "See `tinyagi logs daemon`. If you changed the token: tinyagi restart",
                )
            else:
                yield ok("Daemon", f"runs (pid {found.pid}) at {found.url}, version {found.version}")
                yield from _failing_tasks(status)
        case DaemonState.STARTING:
            yield hint("Daemon", f"It is starting (pid {found.pid}).", "Check again in a moment: tinyagi status")
        case DaemonState.UNKNOWN:
            yield warning("Daemon", already_running_message(context.home, found), "Stop it where it runs.")
        case DaemonState.STALE:
            yield hint(
                "Daemon",
                f"It is not running, and it did not shut down cleanly: {context.home.pid_file} {found.leftover}.",
                "Start it with: tinyagi start. It recovers the unfinished messages.",
            )
        case DaemonState.ABSENT:
            yield hint("Daemon", "It is not running.", "Start it with: tinyagi start")
    if not found.is_up:
        yield from _port(context, settings)


def _failing_tasks(status: object) -> Iterator[Finding]:
    try:
        tasks = _TASKS.validate_python(status.get("background") if isinstance(status, dict) else None)
    except ValidationError:
        # A daemon of another version: the next restart replaces it.
        return
    for name, task in tasks.items():
        if task.state == "failing":
            yield problem(
                "Background",
                f"The daemon's task {name} keeps failing ({task.restarts} restarts): {task.last_error}",
                "It restarts within 30 seconds. See more with `tinyagi logs queue`.",
            )


def channels(context: CheckContext, settings: Settings) -> Iterator[Finding]:
    """Channels as a running daemon sees them."""
    status = _status(context, settings)
    try:
        found = _CHANNELS.validate_python(status.get("channels") if isinstance(status, dict) else {})
    except ValidationError:
        return
    for name, channel in found.items():
        if channel.connected:
            yield ok("Channel", f"{name} is connected as {channel.account}")
        elif channel.running:
            yield warning(
                "Channel",
                f"{name} is not connected{f': {channel.error}' if channel.error else ' yet'}",
                f"It tries again automatically. See more with `tinyagi logs {name}`.",
            )
        else:
            yield problem(
                "Channel",
                f"{name} is enabled and does not run{f': {channel.error}' if channel.error else '.'}",
                f"Fix that, then: tinyagi channel restart {name}. To do without it: tinyagi channel stop {name}",
            )


def _port(context: CheckContext, settings: Settings) -> Iterator[Finding]:
    remedy = "Choose another with server.port or TINYAGI_API_PORT, or stop that program."
    try:
        port = api_port(context.environment, settings.server.port)
    except InvalidInput as error:
        yield problem("Port", str(error), "Set the variable to a free port, or remove it.")
        return
    host = api_host(context.environment, settings.server.host)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with closing(socket.socket(family, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            user = _listener(port)
            yield problem("Port", f"{host}:{port} cannot be used: {error.strerror}{user}.", remedy)
        else:
            yield ok("Port", f"{port} is free" if port else "any free port is used")


def _listener(port: int) -> str:
    """The program that listens on the port; empty when the system does not show it to this user."""
    try:
        for connection in psutil.net_connections("tcp"):
            is_there = connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port
            if is_there and connection.pid:
                return f", by {psutil.Process(connection.pid).name()} (pid {connection.pid})"
    except psutil.Error:
        return ""
    return ""


def pipeline(context: CheckContext, settings: Settings) -> Iterator[Finding]:
    if not settings.pipeline.enabled:
        yield ok("Pipeline", "switched off")
    elif not pipeline_is_installed():
        yield hint(
            "Pipeline",
            "Its packages are not installed, so there is no lake, and reports cover only what the queue keeps.",
            "Install them: pip install 'tinyagi[pipeline]', or set pipeline.enabled to false.",
        )
    else:
        yield ok(
            "Pipeline", f"installed, with {settings.pipeline.master}; the daemon runs it when there is enough to do"
        )
    lake = _pipeline_status(context, settings)
    if lake is not None:
        yield from _failure(lake)
        yield from _lag(lake, settings.pipeline.warn_hours)


def _pipeline_status(context: CheckContext, settings: Settings) -> PipelineStatus | None:
    status = _status(context, settings)
    if not isinstance(status, dict):
        return None
    try:
        return PipelineStatus.model_validate(status.get("pipeline"))
    except ValidationError:
        # A daemon of another version: the next restart replaces it.
        return None


def _status(context: CheckContext, settings: Settings) -> object:
    """The answer of a running daemon; None when there is none, which the check "Daemon" reports."""
    try:
        return query_daemon(find_daemon(context.home), api_token(context.environment, settings.server.token))
    except DaemonError:
        return None


def _failure(lake: PipelineStatus) -> Iterator[Finding]:
    if lake.last_error is not None:
        remedy = "It is retried automatically. See more with `tinyagi logs pipeline`, or run: tinyagi pipeline run"
        yield warning("Pipeline run", f"The last one failed: {lake.last_error}", remedy)


def _lag(lake: PipelineStatus, warn_hours: float) -> Iterator[Finding]:
    if lake.lag_events is None or lake.lag_seconds is None:
        return
    if lake.lag_seconds < warn_hours * _HOUR:
        yield ok("Lake", f"{counted(lake.lag_events, 'event')} not archived yet" if lake.lag_events else "up to date")
        return
    yield warning(
        "Lake",
        f"It is {counted(lake.lag_events, 'event')} and {lake.lag_seconds / _HOUR:.0f} hours behind; "
        "events that are not archived are not pruned either.",
        "See why with `tinyagi pipeline run`, or give up the lake with `tinyagi pipeline detach`.",
    )
