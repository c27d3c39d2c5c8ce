"""The settings as types. What is not known here is kept: each section holds it as an extra field."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from tinyagi.domain.batching import Batching
from tinyagi.domain.sessions import SessionScope
from tinyagi.providers.base import Permissions, Wire
from tinyagi.settings.pipeline import PipelineSettings
from tinyagi.settings.queue import LimitsSettings, QueueSettings
from tinyagi.settings.section import DAY, Names, Period, Seconds, Section
from tinyagi.settings.server import ServerSettings

DEFAULT_AGENT: Final = "tinyagi"
PROVIDERS: Final = ("anthropic", "openai", "opencode", "api", "scripted")
CUSTOM: Final = "custom:"
"""What the name of a provider from `custom_providers` begins with."""


class WhileRunning(StrEnum):
    """What becomes of a person's further message while the earlier one runs."""

    QUEUE = "queue"
    INTERRUPT = "interrupt"


class Harness(StrEnum):
    """What speaks to a custom provider."""

    CLAUDE = "claude"
    CODEX = "codex"
    API = "api"


class WorkspaceSettings(Section):
    path: str = "~/tinyagi-workspace"
    name: str | None = None


class BotSettings(Section):
    bot_token: str | None = None


def _bare_agent(value: object) -> object:
    """The original writes an object around the id."""
    return value.get("agentId", value) if isinstance(value, Mapping) else value


class ChannelsSettings(Section):
    enabled: Names = ()
    discord: BotSettings = BotSettings()
    telegram: BotSettings = BotSettings()
    whatsapp: Section = Section()
    defaults: Mapping[str, Annotated[str, BeforeValidator(_bare_agent)]] = Field(default_factory=dict)
    """The agent that a chat sticks to."""


class AnthropicSettings(Section):
    model: str | None = "sonnet"
    api_key: str | None = None
    oauth_token: str | None = None


class OpenAISettings(Section):
    model: str | None = None
    api_key: str | None = None


class OpenCodeSettings(Section):
    model: str | None = None


class ModelsSettings(Section):
    provider: str = "anthropic"
    anthropic: AnthropicSettings = AnthropicSettings()
    openai: OpenAISettings = OpenAISettings()
    opencode: OpenCodeSettings = OpenCodeSettings()
    aliases: Mapping[str, str] = Field(default_factory=dict)


class HeartbeatSettings(Section):
    enabled: bool = True
    interval: Seconds | None = None
    """Seconds; None is `monitoring.heartbeat_interval`."""


class AgentSettings(Section):
    name: str | None = None
    """None is the id."""
    provider: str | None = None
    """None is `models.provider`."""
    model: str | None = None
    """None is the provider's model of `models`."""
    working_directory: str | None = None
    system_prompt: str | None = None
    prompt_file: str | None = None
    heartbeat: HeartbeatSettings = HeartbeatSettings()
    batching: Annotated[Batching, Field(strict=False)] = Batching.THREAD
    while_running: Annotated[WhileRunning, Field(strict=False)] = WhileRunning.QUEUE
    timeout_seconds: Annotated[float, Field(gt=0, le=7 * DAY, allow_inf_nan=False)] = 1800
    idle_timeout_seconds: Annotated[float, Field(ge=0, le=7 * DAY, allow_inf_nan=False)] | None = None
    """0 is off; None is 600 for HTTP endpoints and off for programs."""
    permissions: Annotated[Permissions, Field(strict=False)] = Permissions.BYPASS
    session_scope: Annotated[SessionScope, Field(strict=False)] = SessionScope.AGENT
    history_tokens: Annotated[int, Field(ge=0, le=10_000_000)] = 16_000
    answer_tokens: Annotated[int, Field(ge=1, le=10_000_000)] = 8_192
    pass_environment: Names = ()


class CustomProviderSettings(Section):
    name: str | None = None
    harness: Annotated[Harness, Field(strict=False)]
    base_url: Annotated[str, Field(pattern=r"^https?://[^\s/@]+(?:/[^\s]*)?$")]
    """Without a password in it: the key has a field of its own, which is never shown."""
    api_key: str | None = None
    model: str | None = None
    wire: Annotated[Wire, Field(strict=False)] = Wire.OPENAI


class TeamSettings(Section):
    name: str | None = None
    agents: Names
    leader_agent: str
    chatroom: Literal["wake", "passive"] = "wake"


class ResponsesSettings(Section):
    suffix: bool = True
    long_answer_characters: Annotated[int, Field(ge=1, le=1_000_000_000)] = 4_000


class PluginsSettings(Section):
    enabled: bool = True
    disabled: Names = ()
    timeout_seconds: Period = 5


class MonitoringSettings(Section):
    heartbeat_interval: Seconds = 3_600
    """Seconds; 0 is off for all agents that set none."""


class Settings(Section):
    """Everything of settings.json; made by `parse`, which also checks what refers to what."""

    default_agent: str | None = None
    workspace: WorkspaceSettings = WorkspaceSettings()
    channels: ChannelsSettings = ChannelsSettings()
    models: ModelsSettings = ModelsSettings()
    agents: Mapping[str, AgentSettings] = Field(default_factory=dict)
    custom_providers: Mapping[str, CustomProviderSettings] = Field(default_factory=dict)
    teams: Mapping[str, TeamSettings] = Field(default_factory=dict)
    queue: QueueSettings = QueueSettings()
    limits: LimitsSettings = LimitsSettings()
    responses: ResponsesSettings = ResponsesSettings()
    plugins: PluginsSettings = PluginsSettings()
    monitoring: MonitoringSettings = MonitoringSettings()
    server: ServerSettings = ServerSettings()
    pipeline: PipelineSettings = PipelineSettings()
