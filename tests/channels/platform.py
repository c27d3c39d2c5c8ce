"""A chat platform on loopback, as the tests of all channels drive it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message that the platform accepted from the bot."""

    person: str
    """The person in whose chat it is; in a place, empty."""
    text: str
    place: str = ""
    files: tuple[str, ...] = ()
    """Names of attached files."""
    sent: str = ""
    """The platform's id of it."""


class Platform(Protocol):
    """A server that speaks the platform's protocol. It keeps its state while channels come and go."""

    channel: str
    """The id of the channel."""

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings with which a channel connects to this server."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def write(
        self,
        text: str,
        *,
        person: str = "7",
        name: str = "Ada",
        place: str = "",
        files: Sequence[tuple[str, bytes]] = (),
    ) -> str:
        """A person writes to the bot; return the id of the ChannelMessage that the channel makes of it."""

    async def repeat(self, message: str) -> None:
        """Hand the same message to the channel once more, as the platform does when it saw no confirmation."""

    @property
    def deliveries(self) -> Sequence[Delivered]:
        """Everything that the bot delivered, in order."""

    @property
    def downloads(self) -> int:
        """Files that the bot downloaded."""

    def fail_every(self, number: int) -> None:
        """Answer each n-th call of the bot with a server error, without effect; 0 ends that."""

    def limit_next(self, seconds: float) -> None:
        """Answer the next delivery with the platform's rate limit (429 with its wait)."""
