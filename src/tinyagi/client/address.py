"""Where a daemon answers: its address and token, as the settings and the environment say."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tinyagi.settings.environment import PORT_NAMES, api_port, api_token
from tinyagi.settings.home import Home

_HOST: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Address:
    url: str
    token: str | None
    is_known: bool = True
    """False when no port is configured: the daemon at the default port may serve another home."""


def url_of(host: str, port: int) -> str:
    """Return a URL for programs on this machine; a wildcard host becomes loopback."""
    callable_host = {"0.0.0.0": _HOST, "::": "::1"}.get(host, host)  # noqa: S104
    return f"http://[{callable_host}]:{port}" if ":" in callable_host else f"http://{callable_host}:{port}"


def configured_address(home: Home, environment: Mapping[str, str]) -> Address:
    """Return the address at which the home's daemon listens."""
    server = _server_settings(home)
    port = _port(server.get("port"))
    is_known = port is not None or any(environment.get(name) for name in PORT_NAMES)
    url = url_of(_text(server.get("host")) or _HOST, api_port(environment, port))
    return Address(url, api_token(environment, _text(server.get("token"))), is_known)


def _server_settings(home: Home) -> Mapping[str, object]:
    """Return the `server` section, empty if unreadable: the daemon reports what is wrong with the file."""
    try:
        settings = json.loads(home.settings_file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    server = settings.get("server") if isinstance(settings, dict) else None
    return server if isinstance(server, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _port(value: object) -> int | None:
    """Return a valid port, or None. 0 means that the system chooses one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 65_536 else None
