"""TinyAGI: teams of AI agents coordinated through one durable queue."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tinyagi.api.messages import SendMessage
    from tinyagi.client.client import AsyncClient, Client
    from tinyagi.client.errors import ClientError

__all__ = ["AsyncClient", "Client", "ClientError", "SendMessage"]

_PLACES = {
    "AsyncClient": "tinyagi.client.client",
    "Client": "tinyagi.client.client",
    "ClientError": "tinyagi.client.errors",
    "SendMessage": "tinyagi.api.messages",
}


def __getattr__(name: str) -> object:
    """Import the client when a program asks for it: the command line starts without it."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(_PLACES[name]), name)
