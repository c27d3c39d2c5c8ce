"""Agents, and the texts in their workspaces."""

from typing import Annotated

from pydantic import Field

from tinyagi.api.base import Model, Ok
from tinyagi.api.settings import Stored

LONGEST_INTERVAL = 86_400
MessagesOfDeleted = Annotated[str | None, Field(pattern=r"^(dead|move:[a-z0-9][a-z0-9_-]{0,63})$")]
"""What becomes of the messages that wait for an agent which is deleted."""


class HeartbeatOfAgent(Stored):
    enabled: bool | None = None
    interval: Annotated[int | float | None, Field(description="Seconds.")] = None


class AgentFields(Stored):
    """An agent as settings.json has it: besides these, every setting of `agents.<id>`. A new one needs a name and a
    provider; of one that is there, what is left out stays as it is."""

    name: str | None = None
    provider: Annotated[str | None, Field(description="anthropic, openai, opencode, api, scripted or custom:<id>.")] = (
        None
    )
    model: Annotated[str | None, Field(description="Without one, the provider's.")] = None
    working_directory: Annotated[str | None, Field(description="Without one, a folder of the workspace.")] = None
    system_prompt: Annotated[str | None, Field(description="Said after AGENTS.md.")] = None
    prompt_file: Annotated[str | None, Field(description="A file whose text goes before system_prompt.")] = None
    heartbeat: HeartbeatOfAgent | None = None


class AgentSaved(Ok):
    agent: AgentFields
    provisioned: Annotated[bool, Field(description="True when its workspace was made now.")]


class AgentDeleted(Ok):
    """Its workspace stays where it is."""

    messages: Annotated[int, Field(description="How many waiting messages are dead or have moved.")]
    default_agent: Annotated[str, Field(description="Who takes what names nobody.")]
    leaders: Annotated[dict[str, str], Field(description="Teams that have another leader now, and whom.")]


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


class Memory(Model):
    """What an agent remembers: Markdown files in its workspace."""

    index: Annotated[str, Field(description="As the agent sees it: a line for each file.")]
    files: tuple[MemoryFile, ...]
    memory_dir: str


class Heartbeat(Model):
    """What an agent is asked by itself, and how often."""

    content: Annotated[str, Field(description="The text of heartbeat.md; empty when there is no such file.")]
    path: str
    enabled: bool
    interval: Annotated[
        int | float | None, Field(description="Seconds; null is monitoring.heartbeat_interval, and 0 is never.")
    ] = None
    every: Annotated[
        int | float | None, Field(description="Seconds between two heartbeats as it is now; null is never.")
    ] = None


class HeartbeatSaved(Heartbeat):
    ok: bool = True


class NewHeartbeat(Model):
    """What is left out stays as it is; an interval of null goes back to monitoring.heartbeat_interval."""

    content: str | None = None
    enabled: bool | None = None
    interval: Annotated[int | float | None, Field(ge=0, le=LONGEST_INTERVAL)] = None
