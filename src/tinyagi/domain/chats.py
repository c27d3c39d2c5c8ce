"""Chats on platforms: a person, and the place where they write."""

from dataclasses import dataclass
from typing import Final

from tinyagi.domain.messages import PLATFORM_CHANNELS

_SIGN: Final = "#"


@dataclass(frozen=True, slots=True)
class Chat:
    """A person's chat with the bot; its address is the `senderId` of messages and responses.

    Two people in one group have two chats: each gets their own answers in order.
    """

    person: str
    """The platform's id of the person: what pairing approves."""
    place: str = ""
    """The group, channel or topic in the platform's form; empty in a direct chat."""

    def __post_init__(self) -> None:
        if not self.person or _SIGN in self.person:
            raise ValueError(f"{self.person!r} is not the id of a person: it is empty or contains {_SIGN}.")

    @property
    def address(self) -> str:
        return f"{self.person}{_SIGN}{self.place}" if self.place else self.person

    @property
    def is_direct(self) -> bool:
        return not self.place

    @classmethod
    def at(cls, address: str) -> "Chat":
        """The chat with this address; raise ValueError for an address without a person."""
        person, _, place = address.partition(_SIGN)
        return cls(person, place)


def person_of(channel: str | None, sender_id: str | None) -> str | None:
    """The person behind a sender id: on a platform the address without its place, elsewhere the id itself."""
    if sender_id is None or channel not in PLATFORM_CHANNELS:
        return sender_id
    return sender_id.partition(_SIGN)[0]
