"""`tinyagi token`: makes, shows, replaces and removes the token of the API."""

import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tinyagi.cli.context import CLIENT_NAME, Installation, installation
from tinyagi.cli.options import Json, Yes
from tinyagi.cli.terminal import WrongCall, confirm, note, print_json, say

if TYPE_CHECKING:
    from tinyagi.daemon.pidfile import DaemonInfo
    from tinyagi.settings.model import Settings

_POLL_SECONDS: Final = 0.1
"""Between two checks for the restarted daemon."""


class Action(StrEnum):
    MAKE = "make"
    SHOW = "show"
    ROTATE = "rotate"
    REMOVE = "remove"


def token(
    ctx: typer.Context,
    action: Annotated[Action, typer.Argument(help="make (by default), show, rotate or remove.")] = Action.MAKE,
    restart: Annotated[
        bool, typer.Option("--restart/--no-restart", help="Restart a running daemon, so that the change takes effect.")
    ] = True,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for that restart.")] = 30,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Make a token for the API, show it, replace it, or remove it.

    The token is stored in the home's settings, readable by you only. With a token, every API request needs the header
    Authorization: Bearer TOKEN. Commands on this machine read it from the settings.
    """
    place = installation(ctx)
    if place.url is not None:
        raise WrongCall("The token is in the settings of the daemon's own home: use --home there instead of --url.")
    settings = _settings(place)
    stored = settings.server.token or None
    if action is Action.SHOW:
        _show(stored, as_json=as_json)
        return
    if action is Action.MAKE and stored is not None:
        raise WrongCall("There is already a token. See it: tinyagi token show. Replace it: tinyagi token rotate")
    if action is Action.REMOVE:
        _check_removable(settings, stored)
        confirm("Remove the token? Every program of this user may then call the API.", yes=yes)
    elif stored is not None:
        confirm("Replace the token? Programs with the old one will be refused.", yes=yes)
    new = None if action is Action.REMOVE else _new_token()
    restarted = _store(place, new, timeout if restart else None)
    if as_json:
        print_json({"token": new, "source": None if new is None else "settings", "restarted": restarted})
    elif new is None:
        say("The token is removed; the daemon has restarted without it." if restarted else "The token is removed.")
    else:
        say(new)
        _explain(place)


def _new_token() -> str:
    import secrets

    return secrets.token_urlsafe(32)


def _settings(place: Installation) -> "Settings":
    from tinyagi.settings.model import Settings
    from tinyagi.settings.settings_file import SettingsFile

    loaded = SettingsFile(place.home).read()
    return Settings() if loaded is None else loaded.settings


def _show(stored: str | None, *, as_json: bool) -> None:
    found = _from_environment() or stored
    source = "environment" if _from_environment() else "settings" if stored else None
    if as_json:
        print_json({"token": found, "source": source})
    elif found is None:
        note("There is no token. Make one: tinyagi token")
        raise typer.Exit(1)
    else:
        say(found)
        if source == "environment":
            note(
                "This is TINYAGI_API_TOKEN of this environment; it takes precedence over server.token in the settings."
            )


def _check_removable(settings: "Settings", stored: str | None) -> None:
    from tinyagi.settings.environment import api_host, is_loopback, snapshot

    host = api_host(snapshot(), settings.server.host)
    if stored is None:
        raise WrongCall("There is no token in the settings.")
    if not is_loopback(host):
        raise WrongCall(f"Others can reach {host}, so the daemon needs a token. Set server.host to 127.0.0.1 first.")


def _store(place: Installation, new: str | None, timeout: float | None) -> bool:
    """Store the token and restart a running daemon; True when the daemon is up again."""
    import asyncio

    from tinyagi.cli.settings_backend import FileBackend
    from tinyagi.daemon.pidfile import find_daemon

    # The running daemon still requires the token that it started with.
    old = place.address().token
    asyncio.run(FileBackend(place.home).update({"server": {"token": new}}))
    if _from_environment():
        note(
            "TINYAGI_API_TOKEN in the environment takes precedence over the stored token. Remove the variable, here and"
        )
        note("where the daemon is started, to use the stored one.")
    before = find_daemon(place.home)
    if not before.is_up:
        return False
    if timeout is None:
        note("The running daemon keeps its old token until: tinyagi restart")
        return False
    return _restart(place, before, old, new, timeout)


def _restart(place: Installation, before: "DaemonInfo", old: str | None, new: str | None, timeout: float) -> bool:
    import asyncio

    from tinyagi.client.client import AsyncClient
    from tinyagi.client.errors import ClientError
    from tinyagi.daemon.pidfile import DaemonState, find_daemon

    async def request_restart() -> None:
        async with AsyncClient(before.url or place.address().url, old, client_name=CLIENT_NAME) as client:
            await client.services.restart()

    try:
        asyncio.run(request_restart())
    except ClientError as error:
        note(f"The daemon was not restarted: {error} The change takes effect after: tinyagi restart")
        return False
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        now = find_daemon(place.home)
        if now.state is DaemonState.RUNNING and now.process != before.process:
            if new is not None:
                note("The daemon has restarted with it.")
            return True
        time.sleep(_POLL_SECONDS)
    how = "without the token" if new is None else "with it"
    note(f"The daemon finishes its current runs, then restarts {how}. See: tinyagi status")
    return False


def _explain(place: Installation) -> None:
    note(f"Stored as server.token in {place.home.settings_file}, where commands on this machine find it.")
    note("Other programs send it as `Authorization: Bearer <token>`, or get it as TINYAGI_API_TOKEN.")
    note("Each agent's run gets its own token instead. To see this one again: tinyagi token show")


def _from_environment() -> str | None:
    from tinyagi.settings.environment import api_token, snapshot

    return api_token(snapshot(), None)
