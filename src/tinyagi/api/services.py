"""The daemon and the channels that it runs."""

from typing import Annotated

from pydantic import Field

from tinyagi.api.base import Ok


class Restarting(Ok):
    """It finishes what runs, and comes back."""

    restarting: bool = True


class Applied(Ok):
    """Most settings count at once; the daemon restarts only for those that do not."""

    restarted: Annotated[bool, Field(description="True when the daemon restarts now.")]
    needs_restart: Annotated[tuple[str, ...], Field(description="Dotted names of the settings it restarts for.")]


class ChannelState(Ok):
    channel: str
    running: bool
