"""`tinyagi run`, `start`, `stop`, `restart`, `office` and `install-service`: the daemon from the outside."""

import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tinyagi.cli.options import HomeOption, Json

if TYPE_CHECKING:
    from tinyagi.api.daemon import ChannelStatus, DaemonStatus, PipelineStatus
    from tinyagi.api.queue import LaneStatus, QueueStatus
    from tinyagi.cli.context import Installation
    from tinyagi.daemon.pidfile import DaemonInfo
    from tinyagi.settings.home import Home

TimeoutOption = Annotated[float, typer.Option(min=1, help="Seconds to wait until the daemon answers.")]

HEARTBEAT_OFF: Final = "off; switch it on with agents.<id>.heartbeat.enabled in settings.json"
NOT_RUNNING: Final = 3
"""The exit code that service managers expect."""


def start(context: typer.Context, home: HomeOption = None, timeout: TimeoutOption = 30) -> None:
    """Start the daemon in the background and wait until it answers."""
    _start(_home(context, home), timedelta(seconds=timeout))


def stop(context: typer.Context, home: HomeOption = None) -> None:
    """Stop the daemon; current runs get a limited time to finish."""
    _stop(_home(context, home))


def restart(context: typer.Context, home: HomeOption = None, timeout: TimeoutOption = 30) -> None:
    """Stop the daemon if it is running, and start it again."""
    from tinyagi.settings.settings_file import SettingsFile

    place = _home(context, home)
    # Check the settings before the stop: with invalid ones the daemon would not start again.
    SettingsFile(place).read()
    _stop(place)
    _start(place, timedelta(seconds=timeout))


def office(context: typer.Context, home: HomeOption = None) -> None:
    """Open the web office. Not built yet."""
    from tinyagi.cli.context import Installation, installation
    from tinyagi.cli.error_boundary import NotBuilt

    place = installation(context) if home is None else Installation(home)
    raise NotBuilt(
        f"The web office is not built yet. While the daemon runs, the API's page is {place.address().url}/docs; "
        "`tinyagi status`, `tinyagi trace` and `tinyagi logs -f` show what your agents do."
    )


def install_service(
    context: typer.Context,
    home: HomeOption = None,
    for_system: Annotated[
        bool, typer.Option("--system/--user", help="For the whole machine, or for your user (systemctl --user).")
    ] = False,
    write: Annotated[bool, typer.Option("--write", help="Install the unit instead of printing it.")] = False,
) -> None:
    """Print a systemd unit that keeps the daemon running."""
    from tinyagi.daemon.pidfile import DaemonError
    from tinyagi.daemon.systemd_unit import next_steps, unit_path, unit_text
    from tinyagi.settings.environment import snapshot
    from tinyagi.settings.model import Settings
    from tinyagi.settings.settings_file import SettingsFile

    folder, environment = _home(context, home), snapshot()
    loaded = SettingsFile(folder).read()
    text = unit_text(folder, Settings() if loaded is None else loaded.settings, environment, for_system=for_system)
    path = unit_path(environment, for_system=for_system)
    if write:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise DaemonError(
                f"{path} cannot be written ({error.strerror}). Print the unit without --write and put it there by hand."
            ) from error
    else:
        typer.echo(text, nl=False)
    for line in next_steps(path, for_system=for_system):
        typer.echo(f"# {line}", err=True)


def _home(context: typer.Context, folder: Path | None) -> "Home":
    from tinyagi.cli.context import Installation, installation

    return (installation(context) if folder is None else Installation(folder)).home


def _start(home: "Home", timeout: timedelta) -> None:
    from rich.console import Console

    from tinyagi.daemon import control
    from tinyagi.daemon.pidfile import DaemonState, find_daemon
    from tinyagi.settings.environment import api_token, snapshot
    from tinyagi.settings.first_run import ensure_settings
    from tinyagi.settings.settings_file import SettingsFile

    environment = snapshot()
    for line in ensure_settings(home, environment):
        typer.echo(line)
    loaded = SettingsFile(home).read()
    token = api_token(environment, None if loaded is None else loaded.settings.server.token)
    before = find_daemon(home)
    if before.state is DaemonState.STALE:
        typer.echo(f"{home.pid_file} {before.leftover}; it will be replaced.")
    with Console(stderr=True).status("Starting TinyAGI"):
        started = control.start_daemon(home, environment, token, timeout=timeout)
    typer.echo(_running_line(home, started.daemon, was_running=started.was_running))


def _running_line(home: "Home", daemon: "DaemonInfo", *, was_running: bool) -> str:
    state = "TinyAGI is already running" if was_running else "TinyAGI is running"
    return f"{state} (pid {daemon.pid}) at {daemon.url}/\nIts logs are in {home.logs}. Read them: tinyagi logs"


def _stop(home: "Home") -> None:
    from rich.console import Console

    from tinyagi.daemon import control
    from tinyagi.settings.errors import SettingsError
    from tinyagi.settings.model import Settings
    from tinyagi.settings.settings_file import SettingsFile

    try:
        loaded = SettingsFile(home).read()
    except SettingsError:
        # The daemon runs on the last valid settings and can still be stopped.
        loaded = None
    timeout = control.stop_timeout(Settings() if loaded is None else loaded.settings)
    with Console(stderr=True).status("Finishing the current runs"):
        stopped = control.stop_daemon(home, typer.echo, timeout)
    typer.echo("TinyAGI was not running." if stopped is None else f"Stopped TinyAGI (pid {stopped.pid}).")


def run(
    context: typer.Context,
    home: HomeOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log warnings and errors only.")] = False,
    detached: Annotated[bool, typer.Option("--detached", hidden=True)] = False,
) -> None:
    """Run the daemon in the foreground until Ctrl-C; a second Ctrl-C does not wait for runs."""
    from tinyagi.cli.context import installation

    run_engine(installation(context).folder if home is None else home, quiet=quiet, detached=detached)


def run_engine(folder: Path | None, *, quiet: bool, detached: bool = False) -> None:
    """Serve the home until a signal comes; when detached, write to the log files only."""
    import logging

    from tinyagi.cli.context import Installation
    from tinyagi.daemon import main

    main.drop_run_env(sys.argv[1:])
    # Keep the stream: while the daemon runs, sys.stderr is redirected to the log.
    stream = sys.stderr

    def print_line(text: str) -> None:
        stream.write(f"{text}\n")
        stream.flush()

    def say(text: str) -> None:
        if not quiet and not detached:
            print_line(text)

    level = logging.WARNING if quiet else logging.INFO
    if main.serve_until_stopped(Installation(folder).home, say, show=None if detached else print_line, level=level):
        main.exec_restart(sys.argv[1:])


def status(context: typer.Context, home: HomeOption = None, as_json: Json = False) -> None:
    """Show the daemon, its queue and its agents; exit code 3 when it is not running."""
    from tinyagi.cli.context import Installation, installation
    from tinyagi.cli.terminal import note, print_json
    from tinyagi.client.errors import NotRunning
    from tinyagi.daemon.pidfile import DaemonInfo, DaemonState, find_daemon

    place = installation(context) if home is None else Installation(home, installation(context).url)
    found = find_daemon(place.home) if place.url is None else DaemonInfo(DaemonState.UNKNOWN)
    try:
        daemon, queue, lanes = _fetch(place, found)
    except NotRunning:
        if as_json:
            print_json({"ok": False, "running": False, "state": found.state, "home": str(place.home.path)})
        else:
            note(_not_running_message(place, found))
        raise typer.Exit(NOT_RUNNING) from None
    if as_json:
        fields = daemon.model_dump(by_alias=True, mode="json")
        print_json({**fields, "running": True, "pid": found.pid or None, "queue": queue, "lanes": lanes})
    else:
        _show(place, found, daemon, queue, lanes)


def _fetch(place: "Installation", found: "DaemonInfo") -> "tuple[DaemonStatus, QueueStatus, list[LaneStatus]]":
    import asyncio

    from tinyagi.cli.context import CLIENT_NAME
    from tinyagi.client.client import AsyncClient
    from tinyagi.client.errors import NotRunning

    if place.url is None and found.url is None:
        # Do not try the port in the settings: the daemon of another home may answer there.
        raise NotRunning(place.address().url)

    async def fetch() -> "tuple[DaemonStatus, QueueStatus, list[LaneStatus]]":
        address = place.address()
        async with AsyncClient(address.url, address.token, client_name=CLIENT_NAME) as client:
            return await client.status(), await client.queue.status(), await client.queue.lanes()

    return asyncio.run(fetch())


def _not_running_message(place: "Installation", found: "DaemonInfo") -> str:
    from tinyagi.daemon.pidfile import DaemonState, already_running_message

    if place.url is not None:
        return f"TinyAGI is not running at {place.url}."
    if found.state is DaemonState.UNKNOWN:
        return already_running_message(place.home, found)
    if found.is_up:
        return f"TinyAGI (pid {found.pid}) does not answer yet. Read its log: tinyagi logs daemon"
    stale = f" Its pid file {found.leftover}: it did not stop cleanly." if found.state is DaemonState.STALE else ""
    return f"TinyAGI is not running on {place.home.path}.{stale} Start it with: tinyagi start"


def _show(
    place: "Installation", found: "DaemonInfo", daemon: "DaemonStatus", queue: "QueueStatus", lanes: "list[LaneStatus]"
) -> None:
    from tinyagi.cli.queue import lane_state, retries
    from tinyagi.cli.terminal import duration, print_fields, print_table, when

    heartbeat = daemon.heartbeat
    last = f", last {when(max(heartbeat.last_sent.values()))}" if heartbeat.last_sent else ""
    channels = [_channel(name, one) for name, one in daemon.channels.items()]
    print_fields(
        (
            ("TinyAGI", f"{daemon.version}, up {duration(daemon.uptime * 1000)}"),
            ("address", place.address().url),
            ("process", found.pid or None),
            ("home", None if place.url else place.home.path),
            ("runs", daemon.engine.runs),
            ("queue", f"{queue.waiting} waiting, {queue.processing} running, {queue.dead} dead"),
            ("retries", retries(queue) if queue.retrying else None),
            ("answers", f"{queue.outgoing} not delivered yet"),
            ("heartbeat", f"every {heartbeat.interval:g} s{last}" if heartbeat.running else HEARTBEAT_OFF),
            ("channels", "; ".join(channels) or "none; connect one: tinyagi channel setup"),
            ("office", f"not built yet; the API's page: {place.address().url}/docs"),
            ("lake", _lake(daemon.pipeline)),
            ("failing", "; ".join(_failing(daemon)) or None),
            ("restart", f"needed for {', '.join(daemon.needs_restart)}" if daemon.needs_restart else None),
            ("settings", " ".join(daemon.settings_warnings) or None),
        )
    )
    print_table(
        ("agent!", "waiting#", "running#", "dead#", "state"),
        [(f"@{lane.agent}", lane.waiting, lane.processing, lane.dead, lane_state(lane)) for lane in lanes],
        empty="No agent has had a message yet.",
    )


def _channel(name: str, status: "ChannelStatus") -> str:
    from tinyagi.cli.channels import state_of

    account = f" as {status.account}" if status.account and status.connected else ""
    return f"{name} {state_of(status)}{account}{f' ({status.error})' if status.error else ''}"


def _failing(daemon: "DaemonStatus") -> list[str]:
    from tinyagi.cli.terminal import when

    tasks = [(name, task) for name, task in daemon.background.items() if task.state == "failing"]
    return [f"{name} since {when(task.since)}: {task.last_error}" for name, task in tasks]


def _lake(pipeline: "PipelineStatus") -> str:
    from tinyagi.cli.terminal import duration
    from tinyagi.domain.texts import counted

    if pipeline.lag_events is None:
        return "off"
    age = duration(round((pipeline.lag_seconds or 0) * 1000))
    behind = "up to date"
    if pipeline.lag_events:
        behind = f"{counted(pipeline.lag_events, 'event')} behind, the oldest {age} old"
    parts = (
        behind,
        "the pipeline is running" if pipeline.running else None,
        None if pipeline.enabled else "the daemon does not run the pipeline",
        f"its last run failed: {pipeline.last_error}" if pipeline.last_error else None,
    )
    return "; ".join(part for part in parts if part)
