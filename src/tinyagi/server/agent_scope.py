"""What an agent may call with its own token, and what it may say about itself.

The list holds what the default skills need. A route that is not listed is closed to agents.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from fastapi import Request
from starlette.types import Scope

from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import CHAT_CHANNELS
from tinyagi.domain.texts import one_line
from tinyagi.server.errors import HttpRefusal
from tinyagi.settings.model import ApiAccess, Settings

SKILLS: Final = (
    ("POST", "/api/message"),
    ("GET", "/api/responses"),
    ("POST", "/api/responses"),
    ("GET", "/api/tasks"),
    ("POST", "/api/tasks"),
    ("PUT", "/api/tasks/reorder"),
    ("GET", "/api/tasks/*"),
    ("PUT", "/api/tasks/*"),
    ("DELETE", "/api/tasks/*"),
    ("GET", "/api/tasks/*/comments"),
    ("POST", "/api/tasks/*/comments"),
    ("DELETE", "/api/comments/*"),
    ("GET", "/api/projects"),
    ("POST", "/api/projects"),
    ("GET", "/api/projects/*"),
    ("PUT", "/api/projects/*"),
    ("GET", "/api/schedules"),
    ("POST", "/api/schedules"),
    ("PUT", "/api/schedules/**"),
    ("DELETE", "/api/schedules/**"),
    ("GET", "/api/recall"),
    ("GET", "/api/agents/{self}/messages"),
    ("GET", "/api/agents/{self}/skills"),
    ("GET", "/api/agents/{self}/system-prompt"),
    ("GET", "/api/agents/{self}/memory"),
    ("GET", "/api/agents/{self}/heartbeat"),
    ("GET", "/api/chatroom/*"),
    ("POST", "/api/chatroom/*"),
    ("GET", "/api/traces/**"),
    ("GET", "/api/pairing"),
    ("GET", "/api/status"),
    ("GET", "/api/queue/status"),
    ("GET", "/api/queue/agents"),
)
"""Method and path: `*` is one step of the path, `**` the rest of it, `{self}` the caller's own id."""

_STEPS: Final[Mapping[str, str]] = {"**": ".+", "*": "[^/]+", "{self}": "(?P<self>[^/]+)"}


def _compiled(path: str) -> re.Pattern[str]:
    return re.compile("/".join(_STEPS.get(step, re.escape(step)) for step in path.split("/")))


_LISTED: Final = tuple((method, _compiled(path)) for method, path in SKILLS)


def check_call(settings: Settings, agent: AgentId, method: str, path: str) -> None:
    """Raise Refused unless the agent exists and may make this call."""
    if agent not in settings.agents:
        raise HttpRefusal(401, f"This token belongs to @{agent}, and there is no such agent any more.")
    if not _is_listed(agent, method, path):
        _check_wide(settings, agent, f"call {method} {one_line(path, 100)}")


def check_own(settings: Settings, request: Request, agent: str) -> None:
    """Raise Refused when an agent asks for what belongs to another one."""
    caller = caller_of(request.scope)
    if caller is not None and caller != agent:
        _check_wide(settings, caller, f"read what belongs to @{agent}")


def check_part(settings: Settings, request: Request, agents: Collection[str]) -> None:
    """Raise HttpRefusal when an agent asks for a conversation in which it has no part."""
    caller = caller_of(request.scope)
    if caller is not None and caller not in agents:
        _check_wide(settings, caller, "read a conversation of others")


def caller_of(scope: Scope) -> AgentId | None:
    """The agent whose token the request shows; None for people and their programs."""
    state: Mapping[str, Any] = scope["state"]
    return state.get("agent")


def narrow_caller_of(settings: Settings, request: Request) -> AgentId | None:
    """The agent that calls, unless its access is wide."""
    caller = caller_of(request.scope)
    is_wide = caller is not None and settings.agents[caller].api_access is ApiAccess.ALL
    return None if is_wide else caller


def own_name(request: Request, claimed: str | None) -> str | None:
    """The id to store for the caller: what it claims, or its own when it is an agent; raise Refused if they differ."""
    caller = caller_of(request.scope)
    if caller is None:
        return claimed
    if claimed not in {None, caller}:
        raise HttpRefusal(
            403, f"This token belongs to @{caller}. Use {caller!r} instead of {one_line(claimed or '', 64)!r}."
        )
    return caller


def check_channel(scope: Scope, channel: str) -> str:
    """The channel; raise Refused when an agent would write on a chat channel, whose messages are people's words."""
    agent = caller_of(scope)
    if agent is not None and channel in CHAT_CHANNELS:
        raise HttpRefusal(403, f"@{agent} may not send as a person on {channel}. Leave `channel` out.")
    return channel


def _is_listed(agent: AgentId, method: str, path: str) -> bool:
    for listed, pattern in _LISTED:
        found = pattern.fullmatch(path) if listed == method else None
        if found is not None:
            return found.groupdict().get("self", agent) == agent
    return False


def _check_wide(settings: Settings, agent: AgentId, what: str) -> None:
    if settings.agents[agent].api_access is not ApiAccess.ALL:
        raise HttpRefusal(
            403,
            f"@{agent} may not {what}: its token reaches only what its skills need. "
            f"To let it call everything, set agents.{agent}.api_access to `all`.",
        )
