"""Limits the requests of agents with their own tokens: the routes they may call and the names they may send.

The list holds the routes that the default skills need. All other routes are closed to agents.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from fastapi import Request
from starlette.types import Scope

from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import CHAT_CHANNELS, PLATFORM_CHANNELS
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
"""Method and path: `*` is one segment of the path, `**` the rest of it, `{self}` the caller's own id."""

_STEPS: Final[Mapping[str, str]] = {"**": ".+", "*": "[^/]+", "{self}": "(?P<self>[^/]+)"}


def _compiled(path: str) -> re.Pattern[str]:
    return re.compile("/".join(_STEPS.get(step, re.escape(step)) for step in path.split("/")))


_LISTED: Final = tuple((method, _compiled(path)) for method, path in SKILLS)


def check_call(settings: Settings, agent: AgentId, method: str, path: str) -> None:
    """Raise HttpRefusal unless the agent exists and may make this call."""
    if agent not in settings.agents:
        raise HttpRefusal(401, f"This token belongs to @{agent}, which does not exist any more.")
    if not _is_listed(agent, method, path):
        _require_full_access(settings, agent, f"call {method} {one_line(path, 100)}")


def check_own(settings: Settings, request: Request, agent: str) -> None:
    """Raise HttpRefusal when an agent asks for the data of another agent."""
    caller = caller_of(request.scope)
    if caller is not None and caller != agent:
        _require_full_access(settings, caller, f"read the data of @{agent}")


def check_part(settings: Settings, request: Request, agents: Collection[str]) -> None:
    """Raise HttpRefusal when an agent asks for a conversation that it is not part of."""
    caller = caller_of(request.scope)
    if caller is not None and caller not in agents:
        _require_full_access(settings, caller, "read a conversation that it is not part of")


def caller_of(scope: Scope) -> AgentId | None:
    """The agent whose token the request has; None for every other caller."""
    state: Mapping[str, Any] = scope["state"]
    return state.get("agent")


def restricted_caller_of(settings: Settings, request: Request) -> AgentId | None:
    """The calling agent, unless it may call every route."""
    caller = caller_of(request.scope)
    has_full_access = caller is not None and settings.agents[caller].api_access is ApiAccess.ALL
    return None if has_full_access else caller


def own_name(request: Request, claimed: str | None) -> str | None:
    """The sender to store: an agent's own id, else the claimed one; raise HttpRefusal when an agent claims another."""
    caller = caller_of(request.scope)
    if caller is None:
        return claimed
    if claimed not in {None, caller}:
        raise HttpRefusal(
            403, f"This token belongs to @{caller}. Use {caller!r} instead of {one_line(claimed or '', 64)!r}."
        )
    return caller


def check_channel(scope: Scope, channel: str) -> str:
    """Return the channel; raise HttpRefusal when an agent names a chat channel, where only people write."""
    agent = caller_of(scope)
    if agent is not None and channel in CHAT_CHANNELS | PLATFORM_CHANNELS:
        raise HttpRefusal(403, f"@{agent} may not send as a person on {channel}. Leave `channel` out.")
    return channel


def _is_listed(agent: AgentId, method: str, path: str) -> bool:
    for listed, pattern in _LISTED:
        found = pattern.fullmatch(path) if listed == method else None
        if found is not None:
            return found.groupdict().get("self", agent) == agent
    return False


def _require_full_access(settings: Settings, agent: AgentId, what: str) -> None:
    if settings.agents[agent].api_access is not ApiAccess.ALL:
        raise HttpRefusal(
            403,
            f"@{agent} may not {what}: its token allows only the calls that its skills need. "
            f"To let it call everything, set agents.{agent}.api_access to `all`.",
        )
