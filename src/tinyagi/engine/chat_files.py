"""Chat files: every team conversation as Markdown under `chats/<team>/`, written from the event log."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncGenerator, Collection
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from tinyagi.domain.events import RecordedEvent
from tinyagi.domain.ids import is_valid_id
from tinyagi.domain.tags import render_for_people
from tinyagi.store.store import Store
from tinyagi.system.files import append, sync

CONSUMER: Final = "chats"
PERIOD: Final = timedelta(seconds=1)
_MARK: Final = re.compile(rb'<!-- event (\d+)(?: of (".*"))? -->')
_FORGED: Final = re.compile(r"^<!-- event \d", re.MULTILINE)
"""A line of an answer that looks like a mark."""
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_TAIL: Final = 4096


class ChatFileWriter:
    """A durable reader of the log: writes each answer of a team conversation once, even after a crash."""

    def __init__(self, store: Store, folder: Path) -> None:
        self._store = store
        self._folder = folder

    async def keep_writing(self) -> AsyncGenerator[None, None]:
        while True:
            seen = self._store.changes.version
            await self.catch_up()
            yield
            # These files are not urgent: writing once a second keeps the load off busy lanes.
            await asyncio.sleep(PERIOD.total_seconds())
            await self._store.changes.beyond(seen)

    async def catch_up(self) -> None:
        """Write all events since the last call."""
        events, head = self._store.events, (await self._store.events.bounds()).head
        cursor = await events.cursor(CONSUMER)
        # The first call writes nothing: events from before the chat files stay in the archive.
        reached = head if cursor is None else cursor
        while reached < head and (page := await events.read_after(reached, event_type="chain_step_done", limit=100)):
            written = {path for event in page if (path := await self._write(event)) is not None}
            await asyncio.to_thread(_sync, written)
            reached = page[-1].id
        if cursor is None or max(reached, head) > cursor:
            await events.acknowledge(CONSUMER, max(reached, head))

    async def _write(self, event: RecordedEvent) -> Path | None:
        """Return the event's file, also when it held the event before: a killed process may not have flushed it."""
        team: str | None = event.payload["team_id"]
        if team is None or event.conversation_id is None or not is_valid_id(team):
            return None
        message = await self._store.queue.message(event.payload["ids"][0])
        question = "" if message is None else message.message
        path = self._folder / team / f"{_file_name(event)}.md"
        await asyncio.to_thread(_append, path, event, question)
        return path


def _file_name(event: RecordedEvent) -> str:
    """Time and conversation; clients choose conversation ids, so unsafe characters are replaced."""
    started = datetime.fromtimestamp((event.conversation_started_at or event.created_at) / 1000).astimezone()
    return f"{started:%Y-%m-%d_%H-%M-%S}_{_UNSAFE.sub('-', event.conversation_id or '')[:80]}"


def _append(path: Path, event: RecordedEvent, question: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if _last_event(path) >= event.id:
        return
    answer, agent = event.payload["content"], event.agent or ""
    answered_at = datetime.fromtimestamp(event.created_at / 1000).astimezone()
    parts = [] if path.exists() else [f"{_heading(event.conversation_id or '', event.payload['team_id'])}\n"]
    if question:
        parts.append("\n".join(f"> {line}" for line in f"{event.payload['sender']}: {question}".splitlines()) + "\n")
    text = _FORGED.sub(lambda line: f"\\{line[0]}", render_for_people(answer, agent))
    parts.append(f"**@{agent}**, {answered_at:%H:%M:%S}\n\n{text}\n")
    # The mark comes last: a section that a crash cut off has none and is written again.
    parts.append(f"<!-- event {event.id} of {_quoted(event.conversation_id or '')} -->\n")
    append(path, ("\n".join(parts) + "\n").encode())


def belongs_to(path: Path, conversations: Collection[str]) -> bool:
    """True when the file holds a record of one of these conversations.

    Records of earlier versions name no conversation. For those the start of the file is compared with whole headings,
    because an id may hold line breaks.
    """
    content = path.read_bytes()
    records = {mark[2] for mark in map(_MARK.fullmatch, content.splitlines()) if mark}
    if any(_quoted(one).encode() in records for one in conversations):
        return True
    return any(content.startswith(f"{_heading(one, path.parent.name)}\n".encode()) for one in conversations)


def _quoted(conversation: str) -> str:
    """The id on one line and without `>`, which would end the comment; an id may hold any character."""
    return json.dumps(conversation).replace(">", "\\u003e")


def _heading(conversation: str, team: str) -> str:
    return f"# Conversation {conversation} of team {team}"


def _sync(files: set[Path]) -> None:
    """Flush the files and their folders, each once, before the cursor moves past them."""
    folders = {file.parent for file in files}
    for path in [*files, *folders, *{folder.parent for folder in folders}]:
        sync(path)


def _last_event(path: Path) -> int:
    """The newest event in the file; answers may contain marks, so only the last line counts."""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        file.seek(max(0, file.seek(0, 2) - _TAIL))
        lines = file.read().rstrip().splitlines()
        mark = _MARK.fullmatch(lines[-1]) if lines else None
        return int(mark[1]) if mark else 0
    return 0
