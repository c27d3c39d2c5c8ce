"""The only module that reads the environment; all other code gets a snapshot of it."""

import ipaddress
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from tinyagi.domain.errors import InvalidInput

DEFAULT_PORT: Final = 3777
PORT_NAMES: Final = ("TINYAGI_API_PORT", "TINYCLAW_API_PORT")
HOST_NAME: Final = "TINYAGI_API_HOST"
TOKEN_NAME: Final = "TINYAGI_API_TOKEN"  # noqa: S105 - a name, not a token
RUN_NAMES: Final = frozenset({"TINYAGI_RUN", "TINYAGI_AGENT_ID"})
BOT_TOKEN_NAMES: Final[Mapping[str, str]] = {"discord": "DISCORD_BOT_TOKEN", "telegram": "TELEGRAM_BOT_TOKEN"}

LOOPBACK: Final = "127.0.0.1"


def snapshot() -> dict[str, str]:
    """The environment of this process, as it is now."""
    return dict(os.environ)


def without_run_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without an agent's run variables: a daemon that an agent starts must not end with the run."""
    # The token in a run's environment is the agent's own; a daemon must not use it as the server's.
    names = RUN_NAMES if RUN_NAMES.isdisjoint(environment) else RUN_NAMES | {TOKEN_NAME}
    return {name: value for name, value in environment.items() if name not in names}


def home_path(environment: Mapping[str, str]) -> Path:
    """`TINYAGI_HOME`, else `~/.tinyagi`; absolute, because a daemon changes its working directory."""
    try:
        return Path(environment.get("TINYAGI_HOME") or "~/.tinyagi").expanduser().absolute()
    except RuntimeError as error:
        raise InvalidInput(f"There is no home folder for TinyAGI: {error} Set TINYAGI_HOME to a folder.") from error


def api_port(environment: Mapping[str, str], stored: int | None = None) -> int:
    """The port of the API: the first of `PORT_NAMES` that is set, else the settings' port, else 3777."""
    name = next((name for name in PORT_NAMES if environment.get(name)), None)
    if name is None:
        return DEFAULT_PORT if stored is None else stored
    text = environment[name]
    # isdecimal() and int() also accept digits of other scripts.
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:6]) < 65_536):
        raise InvalidInput(f"{name} is {text!r}, which is not a port: use a number from 1 to 65535.")
    return int(text)


def api_host(environment: Mapping[str, str], stored: str) -> str:
    """The address the API listens on; the environment overrides the settings."""
    return environment.get(HOST_NAME) or stored


def api_token(environment: Mapping[str, str], stored: str | None) -> str | None:
    """The token that requests to the API need; the environment overrides the settings."""
    return environment.get(TOKEN_NAME) or stored or None


def bot_token(environment: Mapping[str, str], channel: str, stored: str | None) -> str | None:
    """The token a channel logs in with; the environment overrides the settings."""
    name = BOT_TOKEN_NAMES.get(channel)
    return (environment.get(name) if name else None) or stored or None


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """True when only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
