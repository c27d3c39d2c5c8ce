"""The port of a chat platform: a channel receives messages and delivers parts of answers.

Pairing, commands, order, splitting, retries and acknowledgement are not the channel's: the relay does them for all.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from tinyagi.domain.chats import Chat
from tinyagi.domain.errors import TinyAGIError


class ChannelError(TinyAGIError):
    """A channel cannot work; the message names the remedy."""


class NotSetUp(ChannelError):
    """A setting is missing or refused by the platform; trying again does not help."""


class DeliveryError(ChannelError):
    """A part was not delivered."""

    def __init__(self, reason: str, *, retry_after: float | None = None, is_final: bool = False) -> None:
        """`retry_after` is the platform's own wait in seconds; a final error never succeeds for this chat or text."""
        super().__init__(reason)
        self.retry_after = retry_after
        self.is_final = is_final


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file of an incoming message. Nothing is downloaded before `chunks` is read."""

    name: str
    size: int | None
    """As the platform says; None when it does not."""
    chunks: Callable[[], AsyncIterator[bytes]]


@dataclass(frozen=True, slots=True)
class ChannelMessage:
    """A message that a person wrote to the bot, or that names it in a group."""

    id: str
    """The platform's id, unique within the channel: the same message always has the same id."""
    chat: Chat
    name: str
    """The person's name, as people see it."""
    text: str
    attachments: tuple[Attachment, ...] = ()
    is_from_bot: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """A text to deliver, at most as long as the channel's limit: a whole answer or a part of one, in Markdown."""

    chat: Chat
    text: str
    key: str
    """The same for every try: a platform that knows idempotency keys delivers it once."""
    reply_to: str | None = None
    """The id of the `ChannelMessage` that it answers."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file to deliver."""

    chat: Chat
    path: Path
    name: str
    key: str
    reply_to: str | None = None


Receive = Callable[[ChannelMessage], Awaitable[None]]
"""Stores a message durably; it waits while the daemon is away. Calls for one chat are made one after another."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of a channel: `channels.<channel>.<name>` in the settings file, and a flag of `channel setup`."""

    name: str
    label: str
    help: str
    is_secret: bool = False
    is_required: bool = False
    default: str | None = None
    mode: str | None = None
    """The only value of the setting `mode` that needs this one; None: every mode."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What set-up, office and docs say about a channel, and the limits that the relay keeps."""

    id: str
    name: str
    settings: tuple[Setting, ...]
    steps: tuple[str, ...]
    """How to get the required settings from the platform, a sentence each."""
    rules: tuple[str, ...] = ()
    """The platform's rules and risks, shown before set-up."""
    text_limit: int = 4_000
    """Characters of a part, counted as `count` does."""
    count: Callable[[str], int] = len
    receive_limit: int = 20_000_000
    """Bytes of an attachment that the platform hands over."""
    send_limit: int = 50_000_000
    """Bytes of a file that it accepts."""
    typing_seconds: float | None = None
    """How long the typing sign stays; None when there is none."""
    can_edit: bool = False
    """Sent texts can be changed and removed, so progress may be shown by edits of one message."""
    is_idempotent: bool = False
    """The platform drops a second delivery with the same key."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Modules that the channel needs, each with the package that installs it."""


class Channel(Protocol):
    """A connection with a chat platform. Opened by `connect`, closed by `close`."""

    @property
    def manifest(self) -> Manifest: ...

    async def connect(self) -> str:
        """Log in and return the account's name on the platform; raise NotSetUp or ChannelError."""

    async def receive(self, receive: Receive) -> None:
        """Pass on messages until cancelled or broken; raise ChannelError when the connection is lost for good.

        A message is confirmed to the platform only after `receive` has returned, so a killed process gets it again.
        """

    async def send(self, part: Part) -> str:
        """Deliver a text and return the platform's id of it; raise DeliveryError."""

    async def send_file(self, part: FilePart) -> str:
        """Deliver a file and return the platform's id of it; raise DeliveryError."""

    async def show_typing(self, chat: Chat) -> None:
        """Show that an answer is being written, for `typing_seconds`; does nothing where there is no such sign."""

    async def edit(self, chat: Chat, sent: str, text: str) -> None:
        """Replace a text that `send` delivered; raise DeliveryError. Called only when the manifest says `can_edit`."""

    async def remove(self, chat: Chat, sent: str) -> None:
        """Remove a text that `send` delivered; raise DeliveryError. Called only when the manifest says `can_edit`."""

    async def close(self) -> None:
        """Log out; closing twice is not an error."""


COMMANDS: Final[Mapping[str, str]] = {
    "help": "what I understand",
    "status": "what runs and what waits",
    "agent": "list the agents",
    "team": "list the teams",
    "reset": "forget the conversation with an agent: /reset @agent",
    "stop": "stop your running request",
    "restart": "restart the daemon",
}
"""The in-chat commands, for the platform's command menu."""
