"""In-chat commands, for people who write to agents from a chat: `/help`, `/status`, `/stop`, …"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from tinyagi.api.queue import Reason, RunningMessage, WaitingMessage
from tinyagi.channels.port import COMMANDS
from tinyagi.client.client import AsyncClient
from tinyagi.client.errors import ClientError, NotFoundError
from tinyagi.domain.chats import Chat
from tinyagi.domain.instants import clock_time
from tinyagi.domain.texts import one_line

_COMMAND: Final = re.compile(r"[/!](?P<name>[a-z]+)(?:\s+(?P<rest>.*))?", re.IGNORECASE | re.DOTALL)
_NAME: Final = re.compile(r"@[a-z0-9][a-z0-9_-]{0,63}", re.IGNORECASE)
_SAME: Final[Mapping[str, str]] = {"agents": "agent", "teams": "team", "start": "help"}
_ALL: Final = 1_000
_PREVIEW: Final = 60
_DEFAULT: Final = "@default"


class Command(NamedTuple):
    name: str
    rest: str


def parse(text: str) -> Command | None:
    """The command that the whole text is; None for a message to an agent."""
    stripped = text.strip()
    if _NAME.fullmatch(stripped):
        return Command("sticky", stripped.lower())
    match = _COMMAND.fullmatch(stripped)
    if match is None:
        return None
    name = _SAME.get(match["name"].lower(), match["name"].lower())
    # Another word after the sign is text for the agent, such as a path.
    return Command(name, (match["rest"] or "").strip()) if name in COMMANDS else None


class Commands:
    """Runs the commands of one channel and returns what the person reads."""

    def __init__(self, client: AsyncClient, channel: str) -> None:
        self._client = client
        self._channel = channel
        self._actions: Mapping[str, Callable[[Chat, str], Awaitable[str]]] = {
            "help": self._help,
            "status": self._status,
            "agent": self._agents,
            "team": self._teams,
            "reset": self._reset,
            "stop": self._stop,
            "restart": self._restart,
            "sticky": self._stick,
        }

    async def run(self, command: Command, chat: Chat) -> str:
        """Run a command of a paired person; errors of the daemon become the answer."""
        try:
            return await self._actions[command.name](chat, command.rest)
        except ClientError as error:
            return str(error)

    async def _help(self, _: Chat, __: str) -> str:
        lines = [f"/{name}: {what}" for name, what in COMMANDS.items()]
        return "\n".join(
            (
                "Write a message, and the default agent answers. Start it with @agent or @team to choose who answers.",
                "An @agent alone makes it this chat's default; @default ends that.",
                "",
                *lines,
            )
        )

    async def _agents(self, _: Chat, __: str) -> str:
        agents = await self._client.agents.all()
        lines = [
            f"@{agent}: {fields.name or agent} ({fields.provider or 'default provider'})"
            for agent, fields in agents.items()
        ]
        return "\n".join(lines) or "There are no agents. Add one: tinyagi agent add"

    async def _teams(self, _: Chat, __: str) -> str:
        teams = await self._client.teams.all()
        lines = [
            f"@{team}: {', '.join(f'@{agent}' for agent in fields.agents or ())}, led by @{fields.leader_agent}"
            for team, fields in teams.items()
        ]
        return "\n".join(lines) or "There are no teams. Add one: tinyagi team add"

    async def _reset(self, _: Chat, rest: str) -> str:
        wanted = [name.removeprefix("@").lower() for name in rest.replace(",", " ").split()]
        if not wanted:
            return "Name the agents that forget their conversation: /reset @agent"
        known = await self._client.agents.all()
        unknown = [name for name in wanted if name not in known]
        if unknown:
            return f"There is no agent @{one_line(unknown[0], 64)}. There are: {_named(list(known))}."
        for name in wanted:
            await self._client.agents.reset(name)
        return f"{_named(wanted)} will start a new conversation with the next message."

    async def _restart(self, _: Chat, __: str) -> str:
        await self._client.services.restart()
        return "The daemon restarts once its current runs have finished. Messages wait meanwhile."

    async def _stick(self, chat: Chat, name: str) -> str:
        key = f"{self._channel}:{chat.address}"
        if name == _DEFAULT:
            await self._client.settings.update({"channels": {"defaults": {key: None}}})
            return "Messages without a name go to the default agent again."
        target = name.removeprefix("@")
        known = [*await self._client.agents.all(), *await self._client.teams.all()]
        if target not in known:
            return f"There is no agent or team {one_line(name, 64)}. There are: {_named(known)}."
        await self._client.settings.update({"channels": {"defaults": {key: target}}})
        return f"Messages without a name now go to {name}. To end that, write {_DEFAULT}."

    async def _stop(self, chat: Chat, _: str) -> str:
        running = [one for one in await self._own(chat) if one.status == "processing"]
        stopped: list[str] = []
        for message in running:
            # Messages that share a run end together; the second one is gone then.
            try:
                await self._client.queue.kill(message.id)
            except NotFoundError:
                continue
            stopped.append(message.agent)
        if not stopped:
            return "Nothing of yours is running."
        return f"Stopped {_named(list(dict.fromkeys(stopped)))}."

    async def _status(self, chat: Chat, _: str) -> str:
        running = [one for one in await self._own(chat) if one.status == "processing"]
        waiting = [one for one in await self._client.queue.waiting(limit=_ALL) if self._is_own(one, chat)]
        if not running and not waiting:
            return "Nothing of yours is running or waiting."
        return "\n".join([*map(_running_line, running), *map(waiting_line, waiting)])

    async def _own(self, chat: Chat) -> Sequence[RunningMessage]:
        return [one for one in await self._client.queue.processing(limit=_ALL) if self._is_own(one, chat)]

    def _is_own(self, message: RunningMessage | WaitingMessage, chat: Chat) -> bool:
        return message.channel == self._channel and message.sender_id == chat.address


def _running_line(message: RunningMessage) -> str:
    return f"@{message.agent} works on “{_short(message.message)}” for {_seconds(message.duration)}."


def waiting_line(message: WaitingMessage) -> str:
    """Why a message waits, in words for its sender."""
    return f"“{_short(message.message)}” waits for @{message.agent}: {_reason(message)}."


def _reason(message: WaitingMessage) -> str:
    at = "" if message.until is None else clock_time(message.until, message.created_at)
    held = f"the agent is held{at and f' until {at}'}: {one_line(message.detail or 'no reason given', 200).rstrip('.')}"
    reasons: Mapping[Reason, str] = {
        "next": "it is next",
        "busy": "the agent works on another message",
        "thread": "an older message of yours comes first",
        "retry": f"the last try failed, the next one starts{at and f' at {at}'}",
        "delayed": f"it was sent for later{at and f', for {at}'}",
        "team": "the team's budget of today is spent",
        "paused": "the agent is paused by a person",
        "held": held,
        "passive": "it joins the next run",
    }
    return reasons[message.reason]


def _named(names: Sequence[str]) -> str:
    return ", ".join(f"@{name}" for name in names)


def _short(text: str) -> str:
    line = one_line(text, _PREVIEW + 1)
    return line if len(line) <= _PREVIEW else f"{line[:_PREVIEW].rstrip()}…"


def _seconds(milliseconds: int) -> str:
    seconds = milliseconds // 1000
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"
