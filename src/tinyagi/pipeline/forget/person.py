"""Finds and erases a person in the whole home: database, lake, logs, backups, chats and attachments.

After an interruption at any point, a second erasure completes it.
"""

import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from tinyagi.domain.erasure import (
    Erasure,
    Identity,
    Person,
    Redaction,
    Scope,
    SenderAlias,
    erasure_of,
    identify,
    mark,
    pseudonym_of,
)
from tinyagi.domain.errors import Conflict, NotFound
from tinyagi.engine.chat_files import belongs_to
from tinyagi.pipeline.forget.erasures import erasures_of, make_key
from tinyagi.pipeline.lake import SPARK, Lake
from tinyagi.settings.home import Home
from tinyagi.store.erase import Eraser

_ELSEWHERE: Final = (
    "The workspaces of {agents}: they may hold notes about the person. Check them yourself.",
    "Sessions and logs at the providers of {agents}. TinyAGI will not resume those sessions.",
)
_SETTINGS: Final = re.compile(r"settings-.*\.json")
_SHORTEST_NAME: Final = 3
"""Characters of a name to search for: a shorter one occurs in too many files."""
_CHUNK: Final = 1024 * 1024


class LakeErasure(Protocol):
    """The lake's part of an erasure, implemented by LakeEraser. A Protocol, so that this module needs no Spark."""

    def sightings(self, person: Person) -> frozenset[SenderAlias]: ...
    def known(self, messages: frozenset[str]) -> frozenset[str]: ...
    def scope(self, identity: Identity) -> Scope: ...
    def erase(self, redaction: Redaction) -> dict[str, int]: ...


@dataclass(frozen=True, slots=True)
class ErasurePlan:
    """The person, and everything to erase."""

    identity: Identity
    pseudonym: str
    scope: Scope
    marks: frozenset[str] = frozenset()
    """The hashes of earlier erasures of the same person."""


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """The result of an erasure."""

    pseudonym: str
    conversations: int
    rows: Mapping[str, int]
    """Rows redacted or deleted, per table; tables of the lake by their full names."""
    removed: tuple[Path, ...]
    remaining: tuple[str, ...]
    """What TinyAGI cannot erase, in sentences for the owner."""


class PersonEraser:
    """Erases people from one home, which no other process uses meanwhile. `archive` is None without a lake."""

    def __init__(self, home: Home, eraser: Eraser, archive: LakeErasure | None) -> None:
        self._home = home
        self._eraser = eraser
        self._archive = archive
        self._lake = Lake(home.lake)

    def find(self, person: Person) -> ErasurePlan:
        """Raise NotFound for no match, Conflict for several people or for messages that are still open."""
        person.check()
        key = make_key(self._home)
        identity, pseudonym = self._identified(person, key)
        former = [erasure for erasure in self._erasures() if erasure.pseudonym == pseudonym]
        scope = self._eraser.scope(identity, self._known_scope(identity, former))
        waiting = self._eraser.open_messages(scope)
        if waiting:
            raise Conflict(
                f"{waiting} messages of these conversations are pending or running. Wait for them, or end them with "
                "`tinyagi queue`, then forget again."
            )
        return ErasurePlan(identity, pseudonym, scope, frozenset[str]().union(*(erasure.marks for erasure in former)))

    def erase(self, found: ErasurePlan, *, now: int, who: str = "cli") -> ErasureReport:
        """Erase the plan's scope. Files go first: the database still finds the person after an interruption."""
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
        return ErasureReport(
            erasure.pseudonym,
            len(scope.conversations),
            rows,
            (*removed, *attachments),
            tuple(self._remaining(found, left)),
        )

    def _known_scope(self, identity: Identity, former: Sequence[Erasure]) -> Scope:
        """The scope of earlier erasures, the lake's scope, and messages assigned by name only."""
        scope = Scope()
        for erasure in former:
            scope |= Scope(erasure.conversations, erasure.messages, agents=erasure.agents)
        unknown = self._eraser.unknown(identity)
        if self._archive is not None:
            scope |= self._archive.scope(identity)
            unknown -= self._archive.known(unknown)
        return scope | Scope(messages=unknown)

    def _identified(self, person: Person, key: bytes) -> tuple[Identity, str]:
        """The person, and their pseudonym."""
        try:
            identity = identify(person, self._sightings(person))
        except NotFound:
            again = self._erased_before(person, key)
            if again is None:
                raise
            return again
        if person.sender_id is None and identity.sender_id is not None:
            # Include other names that the same person has used.
            same = Person(identity.channel, sender_id=identity.sender_id)
            known = identify(same, self._sightings(same))
            identity = Identity(identity.channel, identity.sender_id, identity.names | known.names)
        return identity, pseudonym_of(key, identity)

    def _sightings(self, person: Person) -> frozenset[SenderAlias]:
        seen = self._eraser.sightings(person)
        return seen if self._archive is None else seen | self._archive.sightings(person)

    def _erased_before(self, person: Person, key: bytes) -> tuple[Identity, str] | None:
        """Find an erasure that was interrupted after the names were gone, so that it can be completed."""
        kind, value = ("name", person.sender or "") if person.sender_id is None else ("id", person.sender_id)
        names = frozenset({person.sender}) if person.sender else frozenset()
        for erasure in reversed(self._erasures()):
            if person.channel in {None, erasure.channel} and mark(key, erasure.channel, kind, value) in erasure.marks:
                return Identity(erasure.channel, person.sender_id, names), erasure.pseudonym
        # Without a lake, only the database has a record: the pseudonyms.
        former = self._eraser.former()
        channels = [person.channel] if person.channel else sorted(self._eraser.channels())
        people = [Identity(channel, person.sender_id, names) for channel in channels]
        known = ((identity, pseudonym_of(key, identity)) for identity in people)
        return next(((identity, pseudonym) for identity, pseudonym in known if pseudonym in former), None)

    def _erasures(self) -> tuple[Erasure, ...]:
        return () if self._archive is None else erasures_of(self._lake)

    def _remaining(self, found: ErasurePlan, left: list[Path]) -> list[str]:
        agents = ", ".join(f"@{agent}" for agent in sorted(found.scope.agents)) or "the agents"
        sentences = [sentence.format(agents=agents) for sentence in _ELSEWHERE]
        sentences += [f"An attachment outside the home: {path}" for path in left]
        named = [name for name in found.scope.messages if any(word in name for word in found.identity.words)]
        if named:
            sentences.append(
                f"{len(named)} message ids contain a name of the person, such as {named[0]}. Ids do not change."
            )
        sentences += [f"{path} still names the person." for path in file_mentions(self._home, found.identity.words)]
        if self._archive is None:
            sentences.append("Lines that agents wrote in chat rooms before the oldest event in the log.")
        return sentences


def remove_copies(home: Home) -> list[Path]:
    """Delete logs and copies of the database, because any line or page of them may hold personal data.

    Copies of the settings stay; `file_mentions` searches them.
    """
    copies = [path for path in _entries(home.backups) if not _SETTINGS.fullmatch(path.name)]
    return [_remove(path) for path in (*_entries(home.logs), *copies)]


def remove_chats(home: Home, conversations: Collection[str]) -> list[Path]:
    """Delete the Markdown files of these conversations."""
    return [_remove(path) for path in sorted(home.chats.glob("*/*.md")) if belongs_to(path, conversations)]


def remove_attachments(home: Home, files: Collection[str]) -> tuple[list[Path], list[Path]]:
    """Delete attachments in the home's folder; return them, and the attachments elsewhere that stay."""
    folder = home.files.resolve()
    removed, left = [], []
    for path in sorted(Path(file) for file in files):
        if not path.is_file():
            continue
        if path.resolve().is_relative_to(folder):
            removed.append(_remove(path))
        else:
            left.append(path)
    return removed, left


def file_mentions(home: Home, words: Collection[str]) -> list[Path]:
    """Files of the home that contain one of these words; compressed content is not searched."""
    wanted = [word.encode() for word in words if len(word) >= _SHORTEST_NAME]
    if not wanted:
        return []
    files = (path for path in sorted(home.path.rglob("*")) if path.is_file() and not path.is_symlink())
    # Spark's temporary files are deleted with its session; the cache holds Java classes.
    lasting = (path for path in files if not any(map(path.is_relative_to, (home.lake / SPARK, home.cache))))
    return [path for path in lasting if _holds(path, wanted)]


def _entries(folder: Path) -> Iterator[Path]:
    return iter(sorted(folder.iterdir())) if folder.is_dir() else iter(())


def _remove(path: Path) -> Path:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    return path


def _holds(path: Path, words: Collection[bytes]) -> bool:
    """Read in pieces: a database may be larger than memory."""
    overlap = max(map(len, words)) - 1
    before = b""
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            if any(word in before + piece for word in words):
                return True
            before = (before + piece)[-overlap:] if overlap else b""
    return False
