"""How the API is reached, and by whom. Read once, when the daemon starts."""

import ipaddress
from functools import lru_cache
from typing import Annotated, Final

from pydantic import Field

from tinyagi.settings.section import Names, Section

LOOPBACK: Final = "127.0.0.1"
SHORTEST_TOKEN: Final = 16


class ServerSettings(Section):
    host: Annotated[str, Field(min_length=1, max_length=253)] = LOOPBACK
    """Any other address than the machine's own needs a token."""
    port: Annotated[int, Field(ge=0, le=65_535)] | None = None
    """None is `TINYAGI_API_PORT`, else 3777; 0 is any free port."""
    token: Annotated[str, Field(min_length=SHORTEST_TOKEN, max_length=512, pattern=r"^[!-~]+$")] | None = None
    """What every request has to show; None asks for nothing. `TINYAGI_API_TOKEN` goes before it."""
    allowed_hosts: Names = ()
    """Further names that the daemon is called by, without a port."""
    allowed_origins: Names = ()
    """Further web origins whose pages may call the API, such as `https://office.example`."""
    max_body_bytes: Annotated[int, Field(ge=1_024, le=1_073_741_824)] = 1_048_576
    messages_per_minute: Annotated[int, Field(ge=0, le=1_000_000)] = 120
    """Of one sender on a chat channel or from another machine; 0 is no limit."""
    max_streams: Annotated[int, Field(ge=1, le=100_000)] = 1_000
    """Readers of live events at the same time."""


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """True when only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
