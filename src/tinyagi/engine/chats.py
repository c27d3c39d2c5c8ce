"""Chat files: every team conversation as Markdown under `chats/<team>/`, written from the event log."""

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from tinyagi.domain.events import RecordedEvent
from tinyagi.domain.ids import is_valid_id
from tinyagi.domain.tags import render_for_people
from tinyagi.store.base import Store
from tinyagi.system.files import sync

CONSUMER: Final = "chats"
PERIOD: Final = timedelta(seconds=1)
_MARK: Final = re.compile(rb"<!-- event (\d+) -->")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_TAIL: Final = 4096


class ChatFiles:
    """A durable reader of the log: each answer of a team conversation is written once, also after a crash."""

    def __init__(self, store: Store, folder: Path) -> None:
        self._store = store
        self._folder = folder

    async def keep_writing(self) -> AsyncGenerator[None, None]:
        while True:
            seen = self._store.changes.version
            await self.catch_up()
            yield
            # Nobody waits for these files: once a second is often enough, and busy lanes are left alone.
            await asyncio.sleep(PERIOD.total_seconds())
            await self._store.changes.beyond(seen)

    async def catch_up(self) -> None:
        """Write everything that has happened since the last time."""
        events, head = self._store.events, (await self._store.events.bounds()).head
        cursor = await events.cursor(CONSUMER)
        # The first time there is nothing to write: what happened before there were chat files is left to the archive.
        reached = head if cursor is None else cursor
        while reached < head and (page := await events.read_after(reached, event_type="chain_step_done", limit=100)):
            written = {path for event in page if (path := await self._write(event)) is not None}
            await asyncio.to_thread(_sync, written)
            reached = page[-1].id
        if cursor is None or max(reached, head) > cursor:
            await events.acknowledge(CONSUMER, max(reached, head))

    async def _write(self, event: RecordedEvent) -> Path | None:
        """The file that holds the event, also when it was there already: a killed process may not have flushed it."""
        team: str | None = event.payload["team_id"]
        if team is None or event.conversation_id is None or not is_valid_id(team):
            return None
        message = await self._store.queue.message(event.payload["ids"][0])
        asked = "" if message is None else message.message
        path = self._folder / team / f"{_file_name(event)}.md"
        await asyncio.to_thread(_append, path, event, asked)
        return path


def _file_name(event: RecordedEvent) -> str:
    """By time and conversation; a client chooses the conversation's id, so what is no plain character goes."""
    started = datetime.fromtimestamp((event.conversation_started_at or event.created_at) / 1000).astimezone()
    return f"{started:%Y-%m-%d_%H-%M-%S}_{_UNSAFE.sub('-', event.conversation_id or '')[:80]}"


def _append(path: Path, event: RecordedEvent, asked: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if _last_event(path) >= event.id:
        return
    answer, agent = event.payload["content"], event.agent or ""
    said = datetime.fromtimestamp(event.created_at / 1000).astimezone()
    parts = [] if path.exists() else [f"# Conversation {event.conversation_id} of team {event.payload['team_id']}\n"]
    if asked:
        parts.append("\n".join(f"> {line}" for line in f"{event.payload['sender']}: {asked}".splitlines()) + "\n")
    parts.append(f"**@{agent}**, {said:%H:%M:%S}\n\n{render_for_people(answer, agent)}\n")
    # The mark comes last: a section that was cut off by a crash has none and is written again.
    parts.append(f"<!-- event {event.id} -->\n")
    with path.open("a", encoding="utf-8") as file:
        file.write("\n".join(parts) + "\n")


def _sync(files: set[Path]) -> None:
    """Flush the files and their folders, each once: the cursor that moves next is durable."""
    folders = {file.parent for file in files}
    for path in [*files, *folders, *{folder.parent for folder in folders}]:
        sync(path)


def _last_event(path: Path) -> int:
    """The newest event in the file; answers may hold marks too, so only the last line counts."""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        file.seek(max(0, file.seek(0, 2) - _TAIL))
        lines = file.read().rstrip().splitlines()
        mark = _MARK.fullmatch(lines[-1]) if lines else None
        return int(mark[1]) if mark else 0
    return 0
