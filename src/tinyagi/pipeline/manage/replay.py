"""Replay: selects old messages from the lake, without Java, and sends them again.

A replayed message starts its own conversation on the channel `api`, from the sender `replay`, so no answer goes to the
person who wrote the original.
"""

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow.compute as pc

from tinyagi.domain.erasure import PREFIX, Erasure
from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.messages import ROOM_CHANNEL, Status
from tinyagi.domain.responses import paths_in
from tinyagi.pipeline.forget.erasures import erasures_of, is_erased
from tinyagi.pipeline.instants import During
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.tables.gold import ERROR_EXCERPT, ERROR_VARIABLE_PARTS
from tinyagi.pipeline.tables.silver import MESSAGES

MOST_REPLAYED: Final = 100
"""The default limit of one replay."""
REPLAY_CHANNEL: Final = "api"
REPLAY_SENDER: Final = "replay"

_COLUMNS: Final = (
    *("id", "message_id", "conversation_id", "channel", "sender", "agent", "from_agent", "team", "hop", "message"),
    *("files", "status", "last_error", "error_kind", "created_at"),
)
_DONE: Final = (Status.COMPLETED.value, Status.DEAD.value)


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters that are combined with AND. Hand-offs and room posts only with `handed_on`."""

    ids: tuple[int, ...] = ()
    conversation: str | None = None
    agent: str | None = None
    status: Status | None = None
    """Completed or dead; both by default. Pending and running messages are not replayed."""
    error_kind: str | None = None
    fingerprint: str | None = None
    """Of the error, as in gold.dead_letters."""
    since: int | None = None
    until: int | None = None
    """Arrival in milliseconds, from `since` up to but excluding `until`."""
    handed_on: bool = False
    """Include hand-offs and room posts."""

    def check(self) -> None:
        if self == Selection(handed_on=self.handed_on):
            raise InvalidInput("Choose the messages to replay: by id, conversation, agent, status, error or time.")
        if self.status is not None and self.status not in _DONE:
            raise InvalidInput(f"Messages that are {self.status} cannot be replayed. Choose completed or dead.")

    def name(self, agent: str | None) -> str:
        """The same for the same request, so that repeating it sends nothing twice."""
        return hashlib.sha256(json.dumps([asdict(self), agent]).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class ReplayMessage:
    """One message to send again."""

    original: int
    """`messages.id` of the original."""
    message_id: str
    to: str
    """The original team, or the agent."""
    text: str
    files: tuple[str, ...] = ()
    channel: str = REPLAY_CHANNEL
    sender: str = REPLAY_SENDER

    @property
    def sender_id(self) -> str:
        """Unique, so that each message has its own thread and a failing one does not hold back the others."""
        return self.message_id


@dataclass(frozen=True, slots=True)
class Replay:
    """The plan of a replay."""

    replay_id: str
    letters: tuple[ReplayMessage, ...]
    refused: Mapping[int, str]
    """The reason for each message that cannot be sent, by `messages.id`."""


@dataclass(frozen=True, slots=True)
class Replayed:
    sent: int
    already: int
    """Messages that an earlier attempt had sent."""


SendReplayMessage = Callable[[ReplayMessage], Awaitable[bool]]
"""Stores a message in the queue; False when a message with its id exists already."""


def plan_replay(
    lake: Lake,
    selection: Selection,
    *,
    agent: str | None = None,
    replay_id: str | None = None,
    most: int = MOST_REPLAYED,
) -> Replay:
    """Select the originals in order of arrival; raise InvalidInput for no filter or too many matches."""
    selection.check()
    rows = _originals(lake, selection)
    if len(rows) > most:
        raise InvalidInput(f"{len(rows)} messages match, but the limit is {most}. Select fewer or raise the limit.")
    name = replay_id or selection.name(agent)
    erasures = erasures_of(lake)
    refused = {row["id"]: reason for row in rows if (reason := _refusal(row, erasures)) is not None}
    messages = [_message(row, name, agent) for row in rows if row["id"] not in refused]
    return Replay(name, tuple(messages), refused)


async def send_replay(replay: Replay, send: SendReplayMessage) -> Replayed:
    """Send all messages. After an interruption, a second call sends only the missing ones."""
    stored = [await send(message) for message in replay.letters]
    return Replayed(stored.count(True), stored.count(False))


def replayed_id(original: int, replay_id: str) -> str:
    return f"replay-{hashlib.sha256(f'{replay_id}/{original}'.encode()).hexdigest()[:32]}"


def fingerprint_of(error: str | None) -> str:
    """The fingerprint that gold.dead_letters gives this error, without Spark."""
    shape = (error or "").strip(" ").partition("\n")[0][:ERROR_EXCERPT].lower()
    for pattern, placeholder in ERROR_VARIABLE_PARTS:
        shape = re.sub(pattern, placeholder, shape, flags=re.ASCII)
    return hashlib.sha256(shape.strip(" ").encode()).hexdigest()[:12]


def _originals(lake: Lake, selection: Selection) -> list[dict[str, Any]]:
    where = pc.field("status").isin([selection.status] if selection.status else list(_DONE))
    if not selection.handed_on:
        where &= (pc.field("hop") == 0) & pc.field("from_agent").is_null() & (pc.field("channel") != ROOM_CHANNEL)
    if selection.ids:
        where &= pc.field("id").isin(list(selection.ids))
    arrived = During("created_at", selection.since, None if selection.until is None else selection.until - 1)
    exact = {
        "conversation_id": selection.conversation,
        "agent": selection.agent,
        "error_kind": selection.error_kind,
    }
    for column, value in exact.items():
        if value is not None:
            where &= pc.field(column) == value
    rows: list[dict[str, Any]] = lake.rows(MESSAGES.name, columns=_COLUMNS, where=where, during=arrived).to_pylist()
    if selection.fingerprint is not None:
        rows = [row for row in rows if row["last_error"] and fingerprint_of(row["last_error"]) == selection.fingerprint]
    return sorted(rows, key=lambda row: int(row["id"]))


def _refusal(row: Mapping[str, Any], erasures: tuple[Erasure, ...]) -> str | None:
    """Why a message cannot be sent again, or None."""
    missing = [path for path in paths_in(row["files"] or "[]") if not Path(path).is_file()]
    if missing:
        return f"its attachment {missing[0]} is gone"
    if row["message"] or row["files"]:
        return None
    was_erased = str(row["sender"]).startswith(PREFIX) or is_erased(erasures, row["message_id"], row["conversation_id"])
    return "it was erased" if was_erased else "it has no text"


def _message(row: Mapping[str, Any], replay_id: str, agent: str | None) -> ReplayMessage:
    return ReplayMessage(
        original=row["id"],
        message_id=replayed_id(row["id"], replay_id),
        to=agent or row["team"] or row["agent"],
        text=row["message"] or "",
        files=tuple(paths_in(row["files"] or "[]")),
    )
