"""Finds the installation and the daemon of a command, and opens the client or the settings for it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

import typer

from tinyagi.client.address import Address, configured_address
from tinyagi.client.errors import NotRunning
from tinyagi.settings.environment import api_token, snapshot
from tinyagi.settings.home import Home, find_home

if TYPE_CHECKING:
    from tinyagi.cli.settings_backend import SettingsBackend
    from tinyagi.client.client import AsyncClient

T = TypeVar("T")

CLIENT_NAME: Final = "cli"


@dataclass(frozen=True, slots=True)
class Installation:
    """The installation that the command line or the environment names."""

    folder: Path | None = None
    """`--home`; None uses the environment."""
    url: str | None = None
    """`--url`; None uses the home's daemon."""

    @property
    def home(self) -> Home:
        return find_home() if self.folder is None else Home(self.folder.expanduser().absolute())

    def address(self, environment: Mapping[str, str] | None = None) -> Address:
        """The daemon's address, from `--url`, else from the pid file, else from environment and settings."""
        from tinyagi.daemon.pidfile import DaemonState, find_daemon

        environment = snapshot() if environment is None else environment
        configured = configured_address(self.home, environment)
        if self.url is not None:
            from tinyagi.settings.environment import is_loopback

            url = self.url if "://" in self.url else f"http://{self.url}"
            # Never send the home's token to another machine; a token for that comes from the environment.
            is_local = is_loopback(urlsplit(url).hostname or "")
            return Address(url, configured.token if is_local else api_token(environment, None))
        daemon = find_daemon(self.home)
        if daemon.url is not None and daemon.state is not DaemonState.STALE:
            return Address(daemon.url, configured.token)
        return configured


def installation(context: typer.Context) -> Installation:
    """The installation from the options of `tinyagi` itself."""
    root = context.find_root()
    if isinstance(root.obj, Installation):
        return root.obj
    # During shell completion the options are parsed, but no command has run.
    folder = root.params.get("home")
    return Installation(None if folder is None else Path(folder), root.params.get("url"))


def call_daemon(context: typer.Context, request: "Callable[[AsyncClient], Awaitable[T]]") -> T:
    """Run the request against the daemon; raise NotRunning when there is none."""
    import asyncio

    from tinyagi.client.client import AsyncClient

    address = installation(context).address()
    if not address.is_known:
        raise NotRunning(address.url)

    async def call() -> T:
        async with AsyncClient(address.url, address.token, client_name=CLIENT_NAME) as client:
            return await request(client)

    return asyncio.run(call())


def edit_settings(context: typer.Context, edit: "Callable[[SettingsBackend], Awaitable[T]]") -> T:
    """Read or change the settings: through the daemon when it runs, else in the file."""
    import asyncio

    from tinyagi.cli.settings_backend import open_backend

    async def run() -> T:
        async with open_backend(installation(context)) as backend:
            return await edit(backend)

    return asyncio.run(run())
