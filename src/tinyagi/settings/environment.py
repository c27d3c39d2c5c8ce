"""The only module that reads the environment; everybody else is handed a snapshot of it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tinyagi.domain.errors import InvalidInput

DEFAULT_PORT: Final = 3777
PORT_NAMES: Final = ("TINYAGI_API_PORT", "TINYCLAW_API_PORT")
HOST_NAME: Final = "TINYAGI_API_HOST"
TOKEN_NAME: Final = "TINYAGI_API_TOKEN"  # noqa: S105 - a name, not a token
RUN_NAMES: Final = frozenset({"TINYAGI_RUN", "TINYAGI_AGENT_ID"})
BOT_TOKEN_NAMES: Final[Mapping[str, str]] = {"discord": "DISCORD_BOT_TOKEN", "telegram": "TELEGRAM_BOT_TOKEN"}


def snapshot() -> dict[str, str]:
    """The environment of this process, as it is now."""
    return dict(os.environ)


def of_nobodys_run(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without the marks of an agent's run: a daemon that an agent starts must not be ended with it."""
    return {name: value for name, value in environment.items() if name not in RUN_NAMES}


def home_path(environment: Mapping[str, str]) -> Path:
    """`TINYAGI_HOME`, else `~/.tinyagi`; absolute, because a daemon leaves the folder it was started in."""
    try:
        return Path(environment.get("TINYAGI_HOME") or "~/.tinyagi").expanduser().absolute()
    except RuntimeError as error:
        raise InvalidInput(f"There is no home folder for TinyAGI: {error} Set TINYAGI_HOME to a folder.") from error


def api_port(environment: Mapping[str, str], stored: int | None = None) -> int:
    """The port of the API: the first of `PORT_NAMES` that is set, else the one of the settings, else 3777."""
    name = next((name for name in PORT_NAMES if environment.get(name)), None)
    if name is None:
        return DEFAULT_PORT if stored is None else stored
    text = environment[name]
    # More than ASCII counts as digits, and int() takes it.
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:6]) < 65_536):
        raise InvalidInput(f"{name} is {text!r}, which is no port: use a number from 1 to 65535.")
    return int(text)


def api_host(environment: Mapping[str, str], stored: str) -> str:
    """The address that the API listens on: the environment's goes before the one of the settings."""
    return environment.get(HOST_NAME) or stored


def api_token(environment: Mapping[str, str], stored: str | None) -> str | None:
    """What a request to the API has to show: the environment's goes before the one of the settings."""
    return environment.get(TOKEN_NAME) or stored or None


def bot_token(environment: Mapping[str, str], channel: str, stored: str | None) -> str | None:
    """The token a channel logs in with: the environment's goes before the one of the settings."""
    name = BOT_TOKEN_NAMES.get(channel)
    return (environment.get(name) if name else None) or stored or None
