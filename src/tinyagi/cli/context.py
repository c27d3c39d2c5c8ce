"""Which installation a command is about and where its daemon is; the way from a command to the client."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

import typer

from tinyagi.client.errors import NotRunning
from tinyagi.settings.environment import PORT_NAMES, api_port, api_token, snapshot
from tinyagi.settings.home import Home, find_home

if TYPE_CHECKING:
    # Types only: `tinyagi --help` is instant because nothing of this is imported before a command needs it.
    from tinyagi.cli.settings_desk import SettingsDesk
    from tinyagi.client.client import Client

T = TypeVar("T")

CLIENT_NAME: Final = "cli"


@dataclass(frozen=True, slots=True)
class Address:
    url: str
    token: str | None
    is_known: bool = True
    """False for the mere default: whoever answers there serves another home."""


@dataclass(frozen=True, slots=True)
class Place:
    """One installation, as the command line and the environment name it."""

    folder: Path | None = None
    """`--home`; None leaves it to the environment."""
    url: str | None = None
    """`--url`; None finds the daemon of the home."""

    @property
    def home(self) -> Home:
        return find_home() if self.folder is None else Home(self.folder.expanduser().absolute())

    def address(self, environment: Mapping[str, str] | None = None) -> Address:
        """Where the daemon is: as told, as its pid file says, or as environment and settings would have it."""
        from tinyagi.daemon.pidfile import State, address, look  # noqa: PLC0415 - see above

        environment = snapshot() if environment is None else environment
        server = _server_settings(self.home)
        token = api_token(environment, _text(server.get("token")))
        if self.url is not None:
            from tinyagi.settings.server import is_loopback  # noqa: PLC0415 - see above

            url = self.url if "://" in self.url else f"http://{self.url}"
            # The home's token is for the home's daemon: another machine's has to be told.
            own = token if is_loopback(urlsplit(url).hostname or "") else api_token(environment, None)
            return Address(url, own)
        sighting = look(self.home)
        if sighting.url is not None and sighting.state is not State.STALE:
            return Address(sighting.url, token)
        port = _port(server.get("port"))
        is_known = port is not None or any(environment.get(name) for name in PORT_NAMES)
        host = _text(server.get("host")) or "127.0.0.1"
        return Address(address(host, api_port(environment, port)), token, is_known)


def place_of(context: typer.Context) -> Place:
    """What the options of `tinyagi` itself say."""
    root = context.find_root()
    if isinstance(root.obj, Place):
        return root.obj
    # While a shell completes a word, options are known and nothing was called.
    folder = root.params.get("home")
    return Place(None if folder is None else Path(folder), root.params.get("url"))


def ask(context: typer.Context, question: "Callable[[Client], Awaitable[T]]") -> T:
    """Ask the daemon; raise NotRunning when there is none."""
    import asyncio  # noqa: PLC0415

    from tinyagi.client.client import Client  # noqa: PLC0415

    address = place_of(context).address()
    if not address.is_known:
        raise NotRunning(address.url)

    async def asking() -> T:
        async with Client(address.url, address.token, client_name=CLIENT_NAME) as client:
            return await question(client)

    return asyncio.run(asking())


def at_desk(context: typer.Context, work: "Callable[[SettingsDesk], Awaitable[T]]") -> T:
    """Work on the settings: through the daemon when it runs, else on the file itself."""
    import asyncio  # noqa: PLC0415

    from tinyagi.cli.settings_desk import open_desk  # noqa: PLC0415

    async def working() -> T:
        async with open_desk(place_of(context)) as desk:
            return await work(desk)

    return asyncio.run(working())


def _server_settings(home: Home) -> Mapping[str, object]:
    """The section as far as it can be read: whoever writes or checks the file says what is wrong with it."""
    try:
        settings = json.loads(home.settings_file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    server = settings.get("server") if isinstance(settings, dict) else None
    return server if isinstance(server, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _port(value: object) -> int | None:
    """A port one can connect to: 0 only says that any will do."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 65_536 else None
