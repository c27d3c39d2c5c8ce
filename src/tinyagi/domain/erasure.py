"""Erasing a person: which rows and conversations are theirs, and how their events are redacted.

Rows, ids, instants and figures stay; texts are removed, and the person becomes a pseudonym. An erasure names no person:
it identifies them by hashes that only the home's own key can make, so its record may be kept forever.
"""

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tinyagi.domain.chats import person_of
from tinyagi.domain.errors import Conflict, InvalidInput, NotFound
from tinyagi.domain.messages import ROOM_CHANNEL

PREFIX: Final = "erased-"
"""Prefix of every pseudonym."""

_ID: Final = "id"
_NAME: Final = "name"
_ROW_FIELD: Final[Mapping[str, str]] = {"chat_posted": "post", "response_ready": "response", "row_imported": "row"}
"""The field with the row, in events that may be about a person without belonging to a conversation."""
_NULLABLE: Final = frozenset({"files", "metadata"})
"""Texts whose columns may be null; every other erased text becomes empty."""
# Texts that name things, not people. Fields that are not listed are erased, so a new field of an event is erased too.
_KEPT: Final = frozenset(
    {
        *("message_id", "message_ids", "conversation_id", "parent_message_id", "answered_by", "claim_id", "session_id"),
        *("agent", "agent_id", "agents", "agent_name", "from_agent", "to_agent", "to_agents", "leader", "claimed_by"),
        *("team", "team_id", "conversation_team", "table", "role", "status", "kind", "channel", "provider", "model"),
        *("scope", "owner"),
    }
)


@dataclass(frozen=True, slots=True)
class Person:
    """A request to forget a person, by the channel's id or by a name."""

    channel: str | None = None
    sender: str | None = None
    sender_id: str | None = None

    def check(self) -> None:
        if not self.sender and not self.sender_id:
            raise InvalidInput("Name the person to forget: give the sender's name or the sender's id on the channel.")


@dataclass(frozen=True, slots=True)
class SenderAlias:
    """One combination of channel, name and id under which rows name a sender."""

    channel: str
    sender: str
    sender_id: str | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """One person on one channel, in plain text. Never stored: it exists only while the erasure runs."""

    channel: str
    sender_id: str | None
    names: frozenset[str]

    @property
    def words(self) -> frozenset[str]:
        """Every text that names the person."""
        return self.names | ({self.sender_id} if self.sender_id else frozenset())


@dataclass(frozen=True, slots=True)
class Scope:
    """Everything in a person's conversations. Agents quote people, so it is erased as a whole."""

    conversations: frozenset[str] = frozenset()
    messages: frozenset[str] = frozenset()
    """Message ids of those conversations, and of lines and responses outside any conversation."""
    lines: frozenset[int] = frozenset()
    """`chat_messages.id` of the lines posted in those conversations."""
    agents: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    """Paths of attachments."""

    def __or__(self, other: "Scope") -> "Scope":
        return Scope(
            self.conversations | other.conversations,
            self.messages | other.messages,
            self.lines | other.lines,
            self.agents | other.agents,
            self.files | other.files,
        )


@dataclass(frozen=True, slots=True)
class Erasure:
    """The record of one erasure: enough to repeat it on events that arrive later."""

    pseudonym: str
    channel: str
    marks: frozenset[str]
    """Hashes of the person's names and ids."""
    through_id: int
    """The last event it covers; later messages of the person are not erased."""
    conversations: frozenset[str]
    messages: frozenset[str]
    agents: frozenset[str]
    erased_at: int


@dataclass(frozen=True, slots=True)
class Redaction:
    """An erasure with the key of its hashes."""

    key: bytes
    erasure: Erasure
    _known: dict[tuple[str, str, str], bool] = field(default_factory=dict, compare=False, repr=False)

    @property
    def pseudonym(self) -> str:
        return self.erasure.pseudonym

    def wrote(self, channel: str | None, sender: str | None, sender_id: str | None = None) -> bool:
        """Whether a row with this sender is the person's. The channel's id decides if the row has one."""
        if sender_id is not None:
            return self._is_marked(channel, _ID, person_of(channel, sender_id))
        return self._is_marked(channel, _NAME, sender)

    def is_poster(self, name: str | None) -> bool:
        """Whether a room line under this name is the person's: rooms know people by name only."""
        return self._is_marked(ROOM_CHANNEL, _NAME, name)

    def thread(self, thread: str) -> str:
        """The thread with the person replaced; threads of teammates and rooms name no person."""
        channel, _, partner = thread.partition(":")
        is_theirs = self._is_marked(channel, _ID, person_of(channel, partner)) or self._is_marked(
            channel, _NAME, partner
        )
        return f"{channel}:{self.pseudonym}" if is_theirs else thread

    def covers_session(self, agent: str, thread: str) -> bool:
        """Whether an agent's session for this thread may hold the person's texts."""
        if thread.startswith("@"):
            return thread.partition("/")[2] in self.erasure.conversations
        if thread == "" or thread.startswith("#"):
            return agent in self.erasure.agents
        return self.thread(thread) != thread

    def covers(
        self, number: int, kind: str, message_id: str | None, conversation_id: str | None, agent: str | None
    ) -> bool:
        """Whether to erase an event, judged by its columns without its payload."""
        erasure = self.erasure
        if number > erasure.through_id:
            return False
        if conversation_id in erasure.conversations or message_id in erasure.messages:
            return True
        # The reason of a hold quotes the failed run, and the event does not name the conversation.
        return kind == "lane_held" and agent in erasure.agents

    def redacted(
        self,
        number: int,
        kind: str,
        message_id: str | None,
        conversation_id: str | None,
        agent: str | None,
        payload: str,
    ) -> str:
        """The payload after this erasure; the same object when the event is not covered."""
        is_covered = self.covers(number, kind, message_id, conversation_id, agent)
        if not is_covered and (kind not in _ROW_FIELD or number > self.erasure.through_id):
            return payload
        try:
            event = json.loads(payload)
        except ValueError:
            # The payload is not JSON: no reader can use it, and its texts cannot be found.
            return "{}" if is_covered else payload
        if not is_covered and not self._is_about_person(kind, event):
            return payload
        return json.dumps(self._without(event), ensure_ascii=False, separators=(",", ":"))

    def _is_about_person(self, kind: str, event: Any) -> bool:
        """For events outside any conversation: a room line, or a row that is older than the event log.

        A history line has only the sender's name; `covers` decides by its message id.
        """
        row = event.get(_ROW_FIELD[kind]) if isinstance(event, dict) else None
        if not isinstance(row, dict) or event.get("table") == "agent_messages":
            return False
        if kind == "chat_posted" or event.get("table") == "chat_messages":
            return self.is_poster(row.get("from_agent"))
        return self.wrote(row.get("channel"), row.get("sender"), row.get("sender_id"))

    def _without(self, value: Any, name: str = "", *, theirs: bool = False) -> Any:
        if isinstance(value, dict):
            theirs = self.wrote(value.get("channel"), value.get("sender"), value.get("sender_id"))
            return {key: self._without(one, key, theirs=theirs) for key, one in value.items()}
        if isinstance(value, list):
            return [self._without(one, name) for one in value]
        return self._text(value, name, theirs=theirs) if isinstance(value, str) else value

    def _text(self, text: str, name: str, *, theirs: bool) -> str | None:
        match name:
            case "sender" | "sender_id":
                return self.pseudonym if theirs else text
            case "from_agent" if self.is_poster(text):
                return self.pseudonym
            case "thread":
                return self.thread(text)
            case _ if name in _NULLABLE:
                return None
        return text if name in _KEPT else ""

    def _is_marked(self, channel: str | None, kind: str, value: str | None) -> bool:
        if channel is None or value is None:
            return False
        place = (channel, kind, value)
        known = self._known.get(place)
        if known is None:
            known = self._known[place] = mark(self.key, *place) in self.erasure.marks
        return known


def mark(key: bytes, channel: str, kind: str, value: str) -> str:
    """The hash of one name or id of a person; it cannot be made without the key."""
    return hmac.digest(key, "\0".join((channel, kind, value)).encode(), hashlib.sha256).hex()[:32]


def pseudonym_of(key: bytes, identity: Identity) -> str:
    """The person's pseudonym: always the same, so an interrupted erasure can be resumed."""
    kind, value = (_NAME, min(identity.names)) if identity.sender_id is None else (_ID, identity.sender_id)
    return PREFIX + mark(key, identity.channel, f"pseudonym of {kind}", value)[:12]


def erasure_of(key: bytes, identity: Identity, scope: Scope, *, through_id: int, now: int) -> Erasure:
    marks = {mark(key, place, _NAME, name) for name in identity.names for place in (identity.channel, ROOM_CHANNEL)}
    if identity.sender_id is not None:
        marks.add(mark(key, identity.channel, _ID, identity.sender_id))
    return Erasure(
        pseudonym_of(key, identity),
        identity.channel,
        frozenset(marks),
        through_id,
        scope.conversations,
        scope.messages,
        scope.agents,
        now,
    )


def redact_event(
    redactions: Sequence[Redaction],
    number: int,
    kind: str,
    message_id: str | None,
    conversation_id: str | None,
    agent: str | None,
    payload: str,
) -> str:
    """The payload after every erasure."""
    for redaction in redactions:
        payload = redaction.redacted(number, kind, message_id, conversation_id, agent, payload)
    return payload


def identify(person: Person, aliases: Iterable[SenderAlias]) -> Identity:
    """The one person among the aliases that matches; raise NotFound for none, Conflict for several."""
    people = (replace(alias, sender_id=person_of(alias.channel, alias.sender_id)) for alias in aliases)
    matching = {alias for alias in people if _matches(person, alias)}
    chats = {alias for alias in matching if alias.channel != ROOM_CHANNEL} or matching
    with_id = {(seen.channel, seen.sender_id) for seen in chats if seen.sender_id is not None}
    names_with_id = {(seen.channel, seen.sender) for seen in chats if seen.sender_id is not None}
    # A row without the channel's id belongs to the person whose other rows have both name and id.
    without_id = {(seen.channel, seen.sender) for seen in chats if seen.sender_id is None} - names_with_id
    if not with_id and not without_id:
        raise NotFound(
            f"No messages found from {_describe(person)}. Look up the name and the channel in `tinyagi history`."
        )
    if len(with_id) + len(without_id) > 1:
        listed = sorted(f"{place} id {number}" for place, number in with_id)
        listed += sorted(f"{name!r} on {place}" for place, name in without_id)
        raise Conflict(
            f"{_describe(person)} matches {len(listed)} people: {', '.join(listed)}. Name one by channel and sender id."
        )
    channel, sender_id = next(iter(with_id), (next(iter(without_id), ("", ""))[0], None))
    return Identity(channel, sender_id, frozenset(alias.sender for alias in matching))


def _matches(person: Person, alias: SenderAlias) -> bool:
    if alias.sender.startswith(PREFIX):
        return False
    by_id = person.sender_id is not None
    same_sender = alias.sender_id == person.sender_id if by_id else alias.sender == person.sender
    same_channel = person.channel is None or alias.channel in {person.channel, ROOM_CHANNEL}
    return same_sender and same_channel


def _describe(person: Person) -> str:
    name = f"id {person.sender_id}" if person.sender_id is not None else repr(person.sender)
    return name if person.channel is None else f"{name} on {person.channel}"
