"""Erasing a person: whom rows mean, which conversations are theirs, and what is left of a fact afterwards.

Rows, ids, instants and figures stay; texts go, and the person becomes a pseudonym. Nothing here names anybody: a person
is told by hashes that only the home's own key can make, so what is kept about an erasure can be kept for ever.
"""

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from tinyagi.domain.errors import Conflict, InvalidInput, NotFound
from tinyagi.domain.messages import ROOM_CHANNEL

PREFIX: Final = "erased-"
"""How every pseudonym begins."""

_ID: Final = "id"
_NAME: Final = "name"
_GONE: Final = frozenset({"files", "metadata"})
"""Texts that the tables let be null; every other text becomes empty, as the tables need it."""
# Texts that name things and not people. What is not listed here is erased, so a new field of a fact is erased as well.
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
    """Whom to forget, as somebody asks for it: by the channel's id, or by a name."""

    channel: str | None = None
    sender: str | None = None
    sender_id: str | None = None

    def check(self) -> None:
        if not self.sender and not self.sender_id:
            raise InvalidInput("Say whom to forget: give the sender's name or the channel's id of the sender.")


@dataclass(frozen=True, slots=True)
class Sighting:
    """A way in which rows name somebody."""

    channel: str
    sender: str
    sender_id: str | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """One person on one channel, in plain words: lives as long as the erasing of them does."""

    channel: str
    sender_id: str | None
    names: frozenset[str]

    @property
    def words(self) -> frozenset[str]:
        """All that names them."""
        return self.names | ({self.sender_id} if self.sender_id else frozenset())


@dataclass(frozen=True, slots=True)
class Scope:
    """All that is part of a person's conversations: agents quote people, so it is erased as a whole."""

    conversations: frozenset[str] = frozenset()
    messages: frozenset[str] = frozenset()
    """Message ids: of those conversations, and of lines and responses that belong to none."""
    lines: frozenset[int] = frozenset()
    """`chat_messages.id` of lines that were posted in those conversations."""
    agents: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    """Attachments, by their paths."""

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
    """What is kept about the erasing of one person: enough to do it again with facts that turn up later."""

    pseudonym: str
    channel: str
    marks: frozenset[str]
    """Hashes of the ways in which rows name them."""
    through_id: int
    """The last event it covers: what they write later is a new beginning."""
    conversations: frozenset[str]
    messages: frozenset[str]
    agents: frozenset[str]
    erased_at: int


@dataclass(frozen=True, slots=True)
class Redaction:
    """An erasure together with the key that its hashes were made with."""

    key: bytes
    erasure: Erasure
    _known: dict[tuple[str, str, str], bool] = field(default_factory=dict, compare=False, repr=False)

    @property
    def pseudonym(self) -> str:
        return self.erasure.pseudonym

    def wrote(self, channel: str | None, sender: str | None, sender_id: str | None = None) -> bool:
        """Whether a row that names its sender like this is theirs. The channel's id decides where there is one."""
        if sender_id is not None:
            return self._is_marked(channel, _ID, sender_id)
        return self._is_marked(channel, _NAME, sender)

    def posted(self, name: str | None) -> bool:
        """Whether a line of a room is theirs: rooms know people by name only."""
        return self._is_marked(ROOM_CHANNEL, _NAME, name)

    def thread(self, thread: str) -> str:
        """The thread without the person in it; threads of teammates and rooms name no person."""
        channel, _, partner = thread.partition(":")
        is_theirs = self._is_marked(channel, _ID, partner) or self._is_marked(channel, _NAME, partner)
        return f"{channel}:{self.pseudonym}" if is_theirs else thread

    def covers_session(self, agent: str, thread: str) -> bool:
        """Whether what an agent remembers in a thread may hold words of theirs."""
        if thread.startswith("@"):
            return thread.partition("/")[2] in self.erasure.conversations
        if thread == "" or thread.startswith("#"):
            return agent in self.erasure.agents
        return self.thread(thread) != thread

    def covers(
        self, number: int, kind: str, message_id: str | None, conversation_id: str | None, agent: str | None
    ) -> bool:
        """Whether a fact is to be erased by what stands beside its payload."""
        erasure = self.erasure
        if number > erasure.through_id:
            return False
        if conversation_id in erasure.conversations or message_id in erasure.messages:
            return True
        # Why a lane is held is told in the words of a run that failed, and without the conversation.
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
        """The payload as it is to be from now on; the same object when the fact is not covered."""
        is_covered = self.covers(number, kind, message_id, conversation_id, agent)
        if not is_covered and (kind not in _LONE or number > self.erasure.through_id):
            return payload
        try:
            fact = json.loads(payload)
        except ValueError:
            # No reader can make anything of it; nor can we tell what stands in it.
            return "{}" if is_covered else payload
        if not is_covered and not self._is_about_them(kind, fact):
            return payload
        return json.dumps(self._without(fact), ensure_ascii=False, separators=(",", ":"))

    def _is_about_them(self, kind: str, fact: Any) -> bool:
        """Of facts that belong to no conversation: a line in a room, or a row from before there were events.

        A line of a history knows its sender by name only; whose it is, its message tells.
        """
        row = fact.get(_LONE[kind]) if isinstance(fact, dict) else None
        if not isinstance(row, dict) or fact.get("table") == "agent_messages":
            return False
        if kind == "chat_posted" or fact.get("table") == "chat_messages":
            return self.posted(row.get("from_agent"))
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
            case "from_agent" if self.posted(text):
                return self.pseudonym
            case "thread":
                return self.thread(text)
            case _ if name in _GONE:
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


# Where the row stands in facts that may be about somebody without belonging to a conversation.
_LONE: Final[Mapping[str, str]] = {"chat_posted": "post", "response_ready": "response", "row_imported": "row"}


class Eraser(Protocol):
    """The hot side of an erasing: nobody else uses the store meanwhile."""

    def sightings(self, person: Person) -> frozenset[Sighting]:
        """Every way in which rows name somebody who may be meant."""

    def former(self) -> frozenset[str]:
        """Pseudonyms of people who were erased before."""

    def channels(self) -> frozenset[str]:
        """Where anybody ever wrote."""

    def unknown(self, identity: Identity) -> frozenset[str]:
        """Message ids of lines of history that bear one of their names, where no row or fact tells whose they are."""

    def scope(self, identity: Identity, given: Scope) -> Scope:
        """What is theirs, together with what is known to be."""

    def head(self) -> int:
        """The last event."""

    def open_messages(self, scope: Scope) -> int:
        """How many of its messages are pending or being run."""

    def erase(self, redaction: Redaction, identity: Identity, scope: Scope, *, who: str) -> Mapping[str, int]:
        """Redact it all in one transaction, told to the audit log as done by `who`; return how many rows per table."""

    def compact(self) -> None:
        """Write the file anew, so that nothing of what was erased is left in its free space."""


def mark(key: bytes, channel: str, kind: str, value: str) -> str:
    """A hash of one way to name somebody, which nobody can make without the key."""
    return hmac.digest(key, "\0".join((channel, kind, value)).encode(), hashlib.sha256).hex()[:32]


def pseudonym_of(key: bytes, identity: Identity) -> str:
    """The same whenever the same person is erased, so an erasing that was cut off goes on where it was."""
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
    """One payload after every erasure."""
    for redaction in redactions:
        payload = redaction.redacted(number, kind, message_id, conversation_id, agent, payload)
    return payload


def identify(person: Person, sightings: Iterable[Sighting]) -> Identity:
    """The one person whom these sightings show; raise NotFound for none, Conflict for several."""
    seen = {one for one in sightings if _may_be(person, one)}
    chats = {one for one in seen if one.channel != ROOM_CHANNEL} or seen
    numbered = {(one.channel, one.sender_id) for one in chats if one.sender_id is not None}
    named = {(one.channel, one.sender) for one in chats if one.sender_id is not None}
    # A row without the channel's id belongs to the person whose other rows have both.
    nameless = {(one.channel, one.sender) for one in chats if one.sender_id is None} - named
    if not numbered and not nameless:
        raise NotFound(f"Nobody wrote as {_told(person)}. Look for the name and the channel in `tinyagi history`.")
    if len(numbered) + len(nameless) > 1:
        listed = sorted(f"{place} id {number}" for place, number in numbered)
        listed += sorted(f"{name!r} on {place}" for place, name in nameless)
        raise Conflict(
            f"{_told(person)} may be {len(listed)} people: {', '.join(listed)}. Name one, by channel and sender id."
        )
    channel, sender_id = next(iter(numbered), (next(iter(nameless), ("", ""))[0], None))
    return Identity(channel, sender_id, frozenset(one.sender for one in seen))


def _may_be(person: Person, one: Sighting) -> bool:
    if one.sender.startswith(PREFIX):
        return False
    by_id = person.sender_id is not None
    is_meant = one.sender_id == person.sender_id if by_id else one.sender == person.sender
    in_place = person.channel is None or one.channel in {person.channel, ROOM_CHANNEL}
    return is_meant and in_place


def _told(person: Person) -> str:
    who = f"id {person.sender_id}" if person.sender_id is not None else repr(person.sender)
    return who if person.channel is None else f"{who} on {person.channel}"
