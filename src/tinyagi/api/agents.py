"""Models of agents: settings, skills, system prompt, memory and heartbeat."""

from typing import Annotated

from pydantic import Field

from tinyagi.api.base import Model, Ok
from tinyagi.api.settings import StoredObject

LONGEST_INTERVAL = 86_400
MessagesOfDeleted = Annotated[str | None, Field(pattern=r"^(dead|move:[a-z0-9][a-z0-9_-]{0,63})$")]
"""What happens to the waiting messages of a deleted agent."""


class HeartbeatOfAgent(StoredObject):
    enabled: bool | None = None
    interval: Annotated[int | float | None, Field(description="Seconds.")] = None


class AgentFields(StoredObject):
    """An agent as in settings.json, which may have every other setting of `agents.<id>`. A new agent needs a name and a
    provider; in a change, omitted fields keep their values."""

    name: str | None = None
    provider: Annotated[str | None, Field(description="anthropic, openai, opencode, api, scripted or custom:<id>.")] = (
        None
    )
    model: Annotated[str | None, Field(description="Defaults to the provider's.")] = None
    working_directory: Annotated[str | None, Field(description="Defaults to a folder in the workspace.")] = None
    system_prompt: Annotated[str | None, Field(description="Follows AGENTS.md in the prompt.")] = None
    prompt_file: Annotated[str | None, Field(description="A file whose text precedes system_prompt.")] = None
    heartbeat: HeartbeatOfAgent | None = None


class AgentSaved(Ok):
    agent: AgentFields
    provisioned: Annotated[bool, Field(description="True when this call created its workspace.")]


class AgentDeleted(Ok):
    """The agent is deleted; its workspace stays."""

    messages: Annotated[int, Field(description="Waiting messages that died or moved.")]
    default_agent: Annotated[str, Field(description="The agent that gets messages without a recipient.")]
    leaders: Annotated[dict[str, str], Field(description="The new leader of each team that the agent led.")]


class Skill(Model):
    id: str
    name: str
    description: str


class SystemPrompt(Model):
    """The owner's part of an agent's prompt: AGENTS.md in its workspace."""

    content: Annotated[str, Field(description="Empty when there is no such file.")]
    path: str


class SystemPromptSaved(SystemPrompt):
    ok: bool = True


class NewSystemPrompt(Model):
    content: str


class MemoryFile(Model):
    name: str
    path: str


class AgentMemory(Model):
    """An agent's memory: Markdown files in its workspace."""

    index: Annotated[str, Field(description="As in the agent's prompt: a line for each file.")]
    files: tuple[MemoryFile, ...]
    memory_dir: str


class AgentHeartbeat(Model):
    """An agent's heartbeat: a prompt that it gets at an interval."""

    content: Annotated[str, Field(description="The text of heartbeat.md; empty when there is no such file.")]
    path: str
    enabled: bool
    interval: Annotated[
        int | float | None,
        Field(description="Seconds; null: monitoring.heartbeat_interval, or 3600 without it; 0: never."),
    ] = None
    every: Annotated[
        int | float | None, Field(description="Effective seconds between two heartbeats; null: never.")
    ] = None


class HeartbeatSaved(AgentHeartbeat):
    ok: bool = True


class NewHeartbeat(Model):
    """Omitted fields keep their values; an interval of null means monitoring.heartbeat_interval."""

    content: str | None = None
    enabled: bool | None = None
    interval: Annotated[int | float | None, Field(ge=0, le=LONGEST_INTERVAL)] = None
