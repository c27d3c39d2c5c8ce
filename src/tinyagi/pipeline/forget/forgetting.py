"""Forgetting a person: everywhere in the home, in an order that can be cut off anywhere and begun again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from tinyagi.domain.errors import Conflict, NotFound
from tinyagi.pipeline.forget.erasures import erasures_of, make_key
from tinyagi.pipeline.forget.files import mentions, remove_attachments, remove_chats, remove_copies
from tinyagi.pipeline.lake import Lake
from tinyagi.settings.home import Home
from tinyagi.store.erasing import (
    Eraser,
    Erasure,
    Identity,
    Person,
    Redaction,
    Scope,
    Sighting,
    erasure_of,
    identify,
    mark,
    pseudonym_of,
)

_ELSEWHERE: Final = (
    "The workspaces of {agents}: what they wrote down about the person is theirs to look through.",
    "What the providers of {agents} keep: their own sessions and logs. TinyAGI will not resume those sessions.",
)


class Archive(Protocol):
    """The lake's side; see LakeEraser."""

    def sightings(self, person: Person) -> frozenset[Sighting]: ...
    def known(self, messages: frozenset[str]) -> frozenset[str]: ...
    def scope(self, identity: Identity) -> Scope: ...
    def erase(self, redaction: Redaction) -> dict[str, int]: ...


@dataclass(frozen=True, slots=True)
class Found:
    """Whom it would be, and what."""

    identity: Identity
    pseudonym: str
    scope: Scope
    marks: frozenset[str] = frozenset()
    """Those of an earlier erasing of the same person, which this one goes on with."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was done."""

    pseudonym: str
    conversations: int
    rows: Mapping[str, int]
    """Rows that were redacted or deleted, per table; those of the lake by their full names."""
    removed: tuple[Path, ...]
    remaining: tuple[str, ...]
    """What could not be reached, in sentences for the person who asked for it."""


class Forgetting:
    """One home, on which nothing else works meanwhile. Without an archive the home has no lake."""

    def __init__(self, home: Home, eraser: Eraser, archive: Archive | None) -> None:
        self._home = home
        self._eraser = eraser
        self._archive = archive
        self._lake = Lake(home.lake)

    def find(self, person: Person) -> Found:
        """Raise NotFound when nobody is meant, Conflict when several are or when something of theirs is not done."""
        person.check()
        key = make_key(self._home)
        identity, pseudonym = self._identified(person, key)
        former = [one for one in self._erasures() if one.pseudonym == pseudonym]
        scope = self._eraser.scope(identity, self._known_scope(identity, former))
        waiting = self._eraser.open_messages(scope)
        if waiting:
            raise Conflict(
                f"{waiting} messages of these conversations are pending or being run. Let them end, or end them with "
                "`tinyagi queue`, and forget again."
            )
        return Found(identity, pseudonym, scope, frozenset[str]().union(*(one.marks for one in former)))

    def erase(self, found: Found, *, now: int, who: str = "cli") -> Forgotten:
        """Do it. Files go first: as long as they are there, the person can be found again."""
        scope = found.scope
        removed = [*remove_copies(self._home), *remove_chats(self._home, scope.conversations)]
        attachments, left = remove_attachments(self._home, scope.files)
        key = make_key(self._home)
        erasure = erasure_of(key, found.identity, scope, through_id=self._eraser.head(), now=now)
        erasure = replace(erasure, pseudonym=found.pseudonym, marks=erasure.marks | found.marks)
        redaction = Redaction(key, erasure)
        rows = dict(self._eraser.erase(redaction, found.identity, scope, who=who))
        if self._archive is not None:
            rows |= self._archive.erase(redaction)
        self._eraser.compact()
        return Forgotten(
            erasure.pseudonym,
            len(scope.conversations),
            rows,
            (*removed, *attachments),
            tuple(self._remaining(found, left)),
        )

    def _known_scope(self, identity: Identity, former: Sequence[Erasure]) -> Scope:
        """What earlier erasings covered, what the lake knows, and what only a name makes theirs."""
        scope = Scope()
        for one in former:
            scope |= Scope(one.conversations, one.messages, agents=one.agents)
        unknown = self._eraser.unknown(identity)
        if self._archive is not None:
            scope |= self._archive.scope(identity)
            unknown -= self._archive.known(unknown)
        return scope | Scope(messages=unknown)

    def _identified(self, person: Person, key: bytes) -> tuple[Identity, str]:
        """Who is meant, and what to call them from now on."""
        try:
            identity = identify(person, self._sightings(person))
        except NotFound:
            again = self._erased_before(person, key)
            if again is None:
                raise
            return again
        if person.sender_id is None and identity.sender_id is not None:
            # Also under the names that the same person had at other times.
            same = Person(identity.channel, sender_id=identity.sender_id)
            known = identify(same, self._sightings(same))
            identity = Identity(identity.channel, identity.sender_id, identity.names | known.names)
        return identity, pseudonym_of(key, identity)

    def _sightings(self, person: Person) -> frozenset[Sighting]:
        seen = self._eraser.sightings(person)
        return seen if self._archive is None else seen | self._archive.sightings(person)

    def _erased_before(self, person: Person, key: bytes) -> tuple[Identity, str] | None:
        """An erasing that was cut off once the names were gone: it has to be found again to be ended."""
        kind, value = ("name", person.sender or "") if person.sender_id is None else ("id", person.sender_id)
        names = frozenset({person.sender}) if person.sender else frozenset()
        for one in reversed(self._erasures()):
            if person.channel in {None, one.channel} and mark(key, one.channel, kind, value) in one.marks:
                return Identity(one.channel, person.sender_id, names), one.pseudonym
        # Without a lake the database alone remembers, and only what the person is called by now.
        former = self._eraser.former()
        channels = [person.channel] if person.channel else sorted(self._eraser.channels())
        people = [Identity(channel, person.sender_id, names) for channel in channels]
        known = ((one, pseudonym_of(key, one)) for one in people)
        return next(((one, pseudonym) for one, pseudonym in known if pseudonym in former), None)

    def _erasures(self) -> tuple[Erasure, ...]:
        return () if self._archive is None else erasures_of(self._lake)

    def _remaining(self, found: Found, left: list[Path]) -> list[str]:
        agents = ", ".join(f"@{agent}" for agent in sorted(found.scope.agents)) or "the agents"
        told = [sentence.format(agents=agents) for sentence in _ELSEWHERE]
        told += [f"An attachment outside the home: {path}" for path in left]
        named = [one for one in found.scope.messages if any(word in one for word in found.identity.words)]
        if named:
            told.append(
                f"Ids stay as they are, and {len(named)} ids of messages hold a name of the person: {named[0]}…"
            )
        told += [f"{path} still names the person." for path in mentions(self._home, found.identity.words)]
        if self._archive is None:
            told.append("Lines that agents wrote in chat rooms longer ago than the event log goes back.")
        return told
