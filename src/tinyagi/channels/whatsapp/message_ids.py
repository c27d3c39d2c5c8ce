"""WhatsApp's message ids as ids of a ChannelMessage, and back, so that an answer can quote what it answers."""

import hashlib
import re
from collections import OrderedDict
from typing import Final, Generic, TypeVar

_PREFIX: Final = "wamid."
_SHORT: Final = re.compile(r"[A-Za-z0-9_-]{1,90}")
_TO_URL: Final = str.maketrans("+/", "-_")
_FROM_URL: Final = str.maketrans("-_", "+/")

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """A table of limited size that forgets what was not set for longest."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[str, Value] = OrderedDict()

    def set(self, key: str, value: Value) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._size:
            self._values.popitem(last=False)

    def get(self, key: str) -> Value | None:
        return self._values.get(key)


class MessageIds:
    """Most ids can be turned back; the others are remembered while the process lives."""

    def __init__(self) -> None:
        self._long = Recent[str](1_000)

    def encode(self, wamid: str) -> str:
        """At most 90 letters, digits, `-` and `_`; always the same for the same message."""
        short = wamid.removeprefix(_PREFIX).translate(_TO_URL).rstrip("=")
        if _SHORT.fullmatch(short) and _restored(short) == wamid:
            return short
        hashed = "h." + hashlib.sha256(wamid.encode()).hexdigest()
        self._long.set(hashed, wamid)
        return hashed

    def decode(self, message_id: str) -> str | None:
        """The id on WhatsApp, or None when it is not known any more."""
        return _restored(message_id) if _SHORT.fullmatch(message_id) else self._long.get(message_id)


def _restored(short: str) -> str:
    return _PREFIX + short.translate(_FROM_URL) + "=" * (-len(short) % 4)
