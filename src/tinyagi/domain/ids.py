"""Typed ids, the pattern for ids that people choose, and the source of generated ids."""

import re
from functools import lru_cache
from typing import Final, NewType

AgentId = NewType("AgentId", str)
TeamId = NewType("TeamId", str)
MessageId = NewType("MessageId", str)
ConversationId = NewType("ConversationId", str)
ClaimId = NewType("ClaimId", str)

ID_PATTERN: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
MAX_MESSAGE_ID: Final = 128

_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_PAIRS: Final = tuple(high + low for high in _ALPHABET for low in _ALPHABET)
_SPAN: Final = len(_PAIRS) ** 2


@lru_cache(maxsize=1024)
def is_valid_id(text: str) -> bool:
    """True when the text may name an agent or a team."""
    return ID_PATTERN.fullmatch(text) is not None


class IdSource:
    """Makes `prefix_xxxxxxxx` ids: four characters of the second, four of a counter.

    Ids made close in time sort close together, so inserts stay on few pages of the unique index. The counter makes
    them distinct within a process. Its random start makes a clash with another process unlikely, and the database's
    UNIQUE makes a clash harmless: the store moves the counter and takes another id.
    """

    def __init__(self, start: int) -> None:
        self._counter = start

    def jump(self, start: int) -> None:
        """Continue from another number, away from a range that another process is using."""
        self._counter = start

    def new(self, prefix: str, now_ms: int) -> str:
        """Return an id that this source has not returned within the same second."""
        self._counter = count = (self._counter + 1) % _SPAN
        second = now_ms // 1000 % _SPAN
        return f"{prefix}_{_PAIRS[second // 1296]}{_PAIRS[second % 1296]}{_PAIRS[count // 1296]}{_PAIRS[count % 1296]}"
