"""Replay: messages that people once sent are sent again. Planned from the lake, without Java; sent by whoever can.

A replayed message begins a conversation of its own, on the channel `api` and from the sender `replay`, so no answer
goes to the person who wrote the original.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow.compute as pc

from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.messages import ROOM_CHANNEL, Status
from tinyagi.pipeline.forget.erasures import erasures_of, is_erased
from tinyagi.pipeline.forget.files import paths_in
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.tables.silver import MESSAGES
from tinyagi.store.erasing import PREFIX, Erasure

MOST: Final = 100
"""Messages of one replay, unless more are asked for."""
CHANNEL: Final = "api"
SENDER: Final = "replay"

_COLUMNS: Final = (
    *("id", "message_id", "conversation_id", "channel", "sender", "agent", "from_agent", "team", "hop", "message"),
    *("files", "status", "last_error", "error_kind", "created_at"),
)
_DONE: Final = (Status.COMPLETED.value, Status.DEAD.value)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which messages: those that meet everything that is named. Hand-offs and room posts only where asked for."""

    ids: tuple[int, ...] = ()
    conversation: str | None = None
    agent: str | None = None
    status: Status | None = None
    """Completed or dead; both by default. What waits or runs is not replayed."""
    error_kind: str | None = None
    fingerprint: str | None = None
    """Of the error, as gold.dead_letters has it."""
    since: int | None = None
    until: int | None = None
    """Milliseconds: they came at `since` or later, and before `until`."""
    handed_on: bool = False
    """Also what agents handed to each other."""

    def check(self) -> None:
        plain = Selection(handed_on=self.handed_on)
        if self == plain:
            raise InvalidInput("Say which messages to replay: by id, conversation, agent, status, error or time.")
        if self.status is not None and self.status not in _DONE:
            raise InvalidInput(f"Messages that are {self.status} are not replayed: choose completed or dead.")

    def name(self, agent: str | None) -> str:
        """The same for the same request, so that to repeat it sends nothing twice."""
        return hashlib.sha256(json.dumps([asdict(self), agent]).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Letter:
    """One message to be sent again."""

    original: int
    """`messages.id` of what it repeats."""
    message_id: str
    to: str
    """The team that it was sent to, or the agent."""
    text: str
    files: tuple[str, ...] = ()
    channel: str = CHANNEL
    sender: str = SENDER

    @property
    def sender_id(self) -> str:
        """Its own: so it has a thread of its own, and one that fails holds back no other."""
        return self.message_id


@dataclass(frozen=True, slots=True)
class Replay:
    """What would be sent, and what cannot be."""

    replay_id: str
    letters: tuple[Letter, ...]
    refused: Mapping[int, str]
    """`messages.id` and why."""


@dataclass(frozen=True, slots=True)
class Replayed:
    sent: int
    already: int
    """Those that an earlier go had sent."""


class Sender(Protocol):
    """The way into the queue: the API's client, or the inbox of a home whose daemon rests."""

    async def send(self, letter: Letter) -> bool:
        """Store the message under its id; False when one of this id is there already."""


def plan_replay(
    lake: Lake, selection: Selection, *, agent: str | None = None, replay_id: str | None = None, most: int = MOST
) -> Replay:
    """Choose the originals, in the order in which they came; raise InvalidInput for none named or too many."""
    selection.check()
    rows = _originals(lake, selection)
    if len(rows) > most:
        raise InvalidInput(f"{len(rows)} messages match, and {most} is the limit. Choose fewer or raise the limit.")
    name = replay_id or selection.name(agent)
    erasures = erasures_of(lake)
    refused = {row["id"]: why for row in rows if (why := _refusal(row, erasures)) is not None}
    letters = [_letter(row, name, agent) for row in rows if row["id"] not in refused]
    return Replay(name, tuple(letters), refused)


async def send_replay(replay: Replay, sender: Sender) -> Replayed:
    """Send it all. Cut off and begun again, it sends what is missing."""
    stored = [await sender.send(letter) for letter in replay.letters]
    return Replayed(stored.count(True), stored.count(False))


def replayed_id(original: int, replay_id: str) -> str:
    return f"replay-{hashlib.sha256(f'{replay_id}/{original}'.encode()).hexdigest()[:32]}"


def fingerprint_of(error: str | None) -> str:
    """What gold.dead_letters calls this error, told without Spark."""
    # The one list of what varies stands beside the column function, whose import takes a moment.
    from tinyagi.pipeline.gold.dead_letters import EXCERPT, VARYING  # noqa: PLC0415

    shape = (error or "").strip(" ").partition("\n")[0][:EXCERPT].lower()
    for varying, stand_in in VARYING:
        shape = re.sub(varying, stand_in, shape, flags=re.ASCII)
    return hashlib.sha256(shape.strip(" ").encode()).hexdigest()[:12]


def _originals(lake: Lake, selection: Selection) -> list[dict[str, Any]]:
    where = pc.field("status").isin([selection.status] if selection.status else list(_DONE))
    if not selection.handed_on:
        where &= (pc.field("hop") == 0) & pc.field("from_agent").is_null() & (pc.field("channel") != ROOM_CHANNEL)
    if selection.ids:
        where &= pc.field("id").isin(list(selection.ids))
    if selection.since is not None:
        where &= pc.field("created_at") >= selection.since
    if selection.until is not None:
        where &= pc.field("created_at") < selection.until
    named = {
        "conversation_id": selection.conversation,
        "agent": selection.agent,
        "error_kind": selection.error_kind,
    }
    for column, value in named.items():
        if value is not None:
            where &= pc.field(column) == value
    rows: list[dict[str, Any]] = lake.rows(MESSAGES.name, columns=_COLUMNS, where=where).to_pylist()
    if selection.fingerprint is not None:
        rows = [row for row in rows if row["last_error"] and fingerprint_of(row["last_error"]) == selection.fingerprint]
    return sorted(rows, key=lambda row: int(row["id"]))


def _refusal(row: Mapping[str, Any], erasures: tuple[Erasure, ...]) -> str | None:
    """Why a message cannot be sent again, or None."""
    gone = [path for path in paths_in(row["files"] or "[]") if not Path(path).is_file()]
    if gone:
        return f"its attachment {gone[0]} is gone"
    if row["message"] or row["files"]:
        return None
    was_erased = str(row["sender"]).startswith(PREFIX) or is_erased(erasures, row["message_id"], row["conversation_id"])
    return "it was erased" if was_erased else "it has no text"


def _letter(row: Mapping[str, Any], replay_id: str, agent: str | None) -> Letter:
    return Letter(
        original=row["id"],
        message_id=replayed_id(row["id"], replay_id),
        to=agent or row["team"] or row["agent"],
        text=row["message"] or "",
        files=tuple(paths_in(row["files"] or "[]")),
    )
