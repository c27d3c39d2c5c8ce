"""The daemon from the outside: start, stop, restart, its office, its service."""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinyagi.cli.run import HomeOption

if TYPE_CHECKING:
    # Types only: `tinyagi --help` is instant because nothing of this is imported before a command needs it.
    from tinyagi.daemon.pidfile import Sighting
    from tinyagi.settings.home import Home

TimeoutOption = Annotated[float, typer.Option(min=1, help="Seconds to wait until the daemon answers.")]


def start(context: typer.Context, home: HomeOption = None, timeout: TimeoutOption = 30) -> None:
    """Start the daemon in the background and wait until it answers."""
    _start(_home(context, home), timedelta(seconds=timeout))


def stop(context: typer.Context, home: HomeOption = None) -> None:
    """Let the daemon finish what runs, for a bounded time, and end it."""
    _stop(_home(context, home))


def restart(context: typer.Context, home: HomeOption = None, timeout: TimeoutOption = 30) -> None:
    """Stop the daemon if it runs, and start it again."""
    from tinyagi.settings.document import Document  # noqa: PLC0415

    place = _home(context, home)
    # Before anything is stopped: with settings that cannot be used the daemon would not come back.
    Document(place).read()
    _stop(place)
    _start(place, timedelta(seconds=timeout))


def office(
    context: typer.Context,
    home: HomeOption = None,
    only_print: Annotated[bool, typer.Option("--print", help="Print the address instead of opening it.")] = False,
) -> None:
    """Open the office in a browser."""
    import webbrowser  # noqa: PLC0415 - see above

    from tinyagi.cli.context import Place, place_of  # noqa: PLC0415
    from tinyagi.daemon.errors import DaemonError  # noqa: PLC0415
    from tinyagi.daemon.pidfile import look  # noqa: PLC0415

    place = place_of(context) if home is None else Place(home)
    url = place.url and place.address().url
    if url is None:
        url = look(place.home).url
    if url is None:
        raise DaemonError(f"TinyAGI is not running on {place.home.path}. Start it with: tinyagi start")
    if only_print or not webbrowser.open(f"{url}/"):
        typer.echo(f"{url}/")


def install_service(
    context: typer.Context,
    home: HomeOption = None,
    for_system: Annotated[
        bool, typer.Option("--system/--user", help="For the whole machine, or for you (systemctl --user).")
    ] = False,
    write: Annotated[bool, typer.Option("--write", help="Put the unit in its place instead of printing it.")] = False,
) -> None:
    """Print a systemd unit that keeps the daemon running."""
    from tinyagi.daemon.errors import DaemonError  # noqa: PLC0415
    from tinyagi.daemon.unit import advice, place, unit  # noqa: PLC0415
    from tinyagi.settings.document import Document  # noqa: PLC0415
    from tinyagi.settings.environment import snapshot  # noqa: PLC0415
    from tinyagi.settings.model import Settings  # noqa: PLC0415

    folder, environment = _home(context, home), snapshot()
    loaded = Document(folder).read()
    text = unit(folder, Settings() if loaded is None else loaded.settings, environment, for_system=for_system)
    path = place(environment, for_system=for_system)
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
    for line in advice(path, for_system=for_system):
        typer.echo(f"# {line}", err=True)


def _home(context: typer.Context, folder: Path | None) -> "Home":
    from tinyagi.cli.context import Place, place_of  # noqa: PLC0415

    return (place_of(context) if folder is None else Place(folder)).home


def _start(home: "Home", patience: timedelta) -> None:
    from rich.console import Console  # noqa: PLC0415

    from tinyagi.daemon import starting  # noqa: PLC0415
    from tinyagi.daemon.pidfile import State, look  # noqa: PLC0415
    from tinyagi.settings.defaults import ensure  # noqa: PLC0415
    from tinyagi.settings.document import Document  # noqa: PLC0415
    from tinyagi.settings.environment import api_token, snapshot  # noqa: PLC0415

    environment = snapshot()
    for line in ensure(home, environment):
        typer.echo(line)
    loaded = Document(home).read()
    token = api_token(environment, None if loaded is None else loaded.settings.server.token)
    before = look(home)
    if before.state is State.STALE:
        typer.echo(f"{home.pid_file} {before.leftover}: it is replaced.")
    with Console(stderr=True).status("TinyAGI starts"):
        started = starting.start(home, environment, token, patience=patience)
    typer.echo(_told(home, started.daemon, was_running=started.was_running))


def _told(home: "Home", daemon: "Sighting", *, was_running: bool) -> str:
    runs = "TinyAGI runs already" if was_running else "TinyAGI runs"
    return f"{runs} (pid {daemon.pid}) at {daemon.url}/\nIts logs are in {home.logs}; to read them: tinyagi logs"


def _stop(home: "Home") -> None:
    from rich.console import Console  # noqa: PLC0415

    from tinyagi.daemon import stopping  # noqa: PLC0415
    from tinyagi.settings.document import Document  # noqa: PLC0415
    from tinyagi.settings.errors import SettingsError  # noqa: PLC0415
    from tinyagi.settings.model import Settings  # noqa: PLC0415

    try:
        loaded = Document(home).read()
    except SettingsError:
        # The daemon goes on with the last good settings, and can be stopped all the same.
        loaded = None
    patience = stopping.longest_stop(Settings() if loaded is None else loaded.settings)
    with Console(stderr=True).status("TinyAGI finishes what runs"):
        stopped = stopping.stop(home, typer.echo, patience)
    typer.echo("TinyAGI was not running." if stopped is None else f"TinyAGI is stopped (it was pid {stopped.pid}).")
