"""The settings as types. Each section keeps unknown names as extra fields."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from tinyagi.domain.messages import Batching
from tinyagi.domain.runs import Permissions, SessionScope, Wire
from tinyagi.settings.environment import LOOPBACK

PROVIDERS: Final = ("anthropic", "openai", "opencode", "api", "scripted")
CUSTOM: Final = "custom:"
"""Prefix of a provider from `custom_providers`."""
ADDRESS: Final = r"^https?://[^\s/@]+(?:/[^\s]*)?$"

DAY = 86_400

Seconds = Annotated[float, Field(ge=0, le=DAY, allow_inf_nan=False)]
Period = Annotated[float, Field(gt=0, le=DAY, allow_inf_nan=False)]
"""Seconds between two repetitions; never zero."""
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Names = Annotated[tuple[str, ...], Field(strict=False)]
"""Not strict, because JSON has only lists and the field is a tuple."""

Attempts = Annotated[int, Field(ge=1, le=1000)]
Hours = Annotated[float, Field(ge=0, le=24 * 3660, allow_inf_nan=False)]
Days = Annotated[float, Field(ge=0, le=3660, allow_inf_nan=False)]

SHORTEST_TOKEN: Final = 16

LEAST_MEMORY: Final = 512
"""Megabytes: with less, Spark refuses to start."""


class WhileRunning(StrEnum):
    """How a person's next message is treated while the previous one runs."""

    QUEUE = "queue"
    INTERRUPT = "interrupt"


class ApiAccess(StrEnum):
    """The API calls that an agent's own token allows."""

    SKILLS = "skills"
    """The calls that the default skills need."""
    ALL = "all"


class Harness(StrEnum):
    """The program or client that calls a custom provider."""

    CLAUDE = "claude"
    CODEX = "codex"
    API = "api"


class Section(BaseModel):
    """An object of the settings file."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _null_is_not_set(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        return {name: value for name, value in data.items() if value is not None or name not in cls.model_fields}

    def __repr_args__(self) -> Iterator[tuple[str | None, object]]:
        # Names only: sections end up in logs and tracebacks, and values may be secrets.
        return ((None, name) for name in sorted(self.model_fields_set))


class WorkspaceSettings(Section):
    path: str = "~/tinyagi-workspace"
    name: str | None = None


class ChannelSettings(Section):
    """A chat channel. The names and their meaning are those of the channel's manifest."""

    progress: Literal["off", "typing", "edits"] = "typing"
    """What a waiting person sees: nothing, the typing sign, or also one message that follows the output."""
    api_url: str | None = None


class DiscordSettings(ChannelSettings):
    bot_token: str | None = None
    guild_channels: str | None = None


class TelegramSettings(ChannelSettings):
    bot_token: str | None = None


class WhatsAppSettings(ChannelSettings):
    mode: str = "cloud"
    """`cloud` or `linked`; the channel refuses others, so that an old home with another word still opens."""
    phone_number_id: str | None = None
    access_token: str | None = None
    app_secret: str | None = None
    verify_token: str | None = None
    listen_host: str | None = None
    listen_port: str | None = None


class WebhookSettings(ChannelSettings):
    secret: str | None = None
    url: str | None = None
    listen_host: str | None = None
    listen_port: str | None = None


def _agent_id(value: object) -> object:
    """The id itself; the original wraps it in an object."""
    return value.get("agentId", value) if isinstance(value, Mapping) else value


class ChannelsSettings(Section):
    enabled: Names = ()
    discord: DiscordSettings = DiscordSettings()
    telegram: TelegramSettings = TelegramSettings()
    webhook: WebhookSettings = WebhookSettings()
    whatsapp: WhatsAppSettings = WhatsAppSettings()
    defaults: Mapping[str, Annotated[str, BeforeValidator(_agent_id)]] = Field(default_factory=dict)
    """The default agent of a chat, by `channel:sender`."""

    def values_of(self, channel: str) -> dict[str, str]:
        """The settings of a channel that are set, by name."""
        return {name: str(value) for name, value in getattr(self, channel) if value is not None}


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
    enabled: bool | None = None
    """None means on if an interval is set, here or for all agents. A heartbeat costs a run, so it is off by default."""
    interval: Seconds | None = None
    """Seconds; None means `monitoring.heartbeat_interval`."""


class AgentSettings(Section):
    name: str | None = None
    """None means the id."""
    provider: str | None = None
    """None means `models.provider`."""
    model: str | None = None
    """None means the provider's model of `models`."""
    working_directory: str | None = None
    system_prompt: str | None = None
    prompt_file: str | None = None
    heartbeat: HeartbeatSettings = HeartbeatSettings()
    batching: Annotated[Batching, Field(strict=False)] = Batching.THREAD
    while_running: Annotated[WhileRunning, Field(strict=False)] = WhileRunning.QUEUE
    timeout_seconds: Annotated[float, Field(gt=0, le=7 * DAY, allow_inf_nan=False)] = 1800
    idle_timeout_seconds: Annotated[float, Field(ge=0, le=7 * DAY, allow_inf_nan=False)] | None = None
    """0 means off; None means 600 for HTTP endpoints and off for programs."""
    permissions: Annotated[Permissions, Field(strict=False)] = Permissions.BYPASS
    api_access: Annotated[ApiAccess, Field(strict=False)] = ApiAccess.SKILLS
    session_scope: Annotated[SessionScope, Field(strict=False)] = SessionScope.AGENT
    history_tokens: Annotated[int, Field(ge=0, le=10_000_000)] = 16_000
    answer_tokens: Annotated[int, Field(ge=1, le=10_000_000)] = 8_192
    pass_environment: Names = ()


class CustomProviderSettings(Section):
    name: str | None = None
    harness: Annotated[Harness, Field(strict=False)]
    base_url: Annotated[str, Field(pattern=ADDRESS)]
    """Must not contain a password: `api_key` is masked wherever settings are shown, the address is not."""
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
    max_file_megabytes: Annotated[int, Field(ge=1, le=1_000_000)] = 100

    @property
    def max_file_bytes(self) -> int:
        return self.max_file_megabytes * 1_000_000


class PluginsSettings(Section):
    enabled: bool = True
    disabled: Names = ()
    timeout_seconds: Period = 5


class MonitoringSettings(Section):
    heartbeat_interval: Seconds | None = None
    """Seconds; switches on the heartbeat of all agents that do not set their own. 0 means off."""


class QueueSettings(Section):
    max_runs: Annotated[int, Field(ge=1, le=1000)] = 8
    lease_seconds: Annotated[float, Field(ge=1, le=3600, allow_inf_nan=False)] = 60
    attempts: Attempts = 5
    timeout_attempts: Attempts = 2
    retry_base_seconds: Seconds = 2
    retry_factor: Annotated[int, Field(ge=1, le=100)] = 4
    retry_jitter: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.2
    hold_base_seconds: Period = 15
    hold_cap_seconds: Period = 900
    delivery_attempts: Attempts = 10
    delivery_cap_seconds: Period = 900
    recover_seconds: Period = 5
    maintenance_seconds: Period = 60
    shutdown_grace_seconds: Seconds = 20
    kill_grace_seconds: Seconds = 5
    interrupt_debounce_seconds: Seconds = 2
    interrupt_max: Annotated[int, Field(ge=0, le=1000)] = 3
    max_answer_characters: Annotated[int, Field(ge=1, le=1_000_000_000)] = 4_000_000
    keep_completed_hours: Hours = 24
    keep_acked_hours: Hours = 24
    keep_events_days: Days = 7
    unfetched_days: Days = 7
    keep_history_days: Days = 30
    """For histories and rooms, once they are in the lake."""
    keep_dead_days: Days = 90
    """For dead messages and failed responses, once they are in the lake."""


class BudgetSettings(Section):
    """Per day; None means no limit."""

    daily_cost: Amount | None = None
    daily_tokens: Annotated[int, Field(ge=0)] | None = None


class PriceSettings(Section):
    """Per million tokens."""

    input: Amount = 0
    output: Amount = 0
    cache: Amount = 0


class LimitsSettings(BudgetSettings):
    """Loop brakes, and budgets overall, per agent and per team."""

    hops: Annotated[int, Field(ge=0, le=1000)] = 10
    conversation_messages: Annotated[int, Field(ge=1, le=1_000_000)] = 50
    agent_messages_per_minute: Annotated[int, Field(ge=1, le=1_000_000)] = 30
    agents: Mapping[str, BudgetSettings] = Field(default_factory=dict)
    teams: Mapping[str, BudgetSettings] = Field(default_factory=dict)
    prices: Mapping[str, PriceSettings] = Field(default_factory=dict)


class ServerSettings(Section):
    host: Annotated[str, Field(min_length=1, max_length=253)] = LOOPBACK
    """An address other than loopback needs a token."""
    port: Annotated[int, Field(ge=0, le=65_535)] | None = None
    """None means `TINYAGI_API_PORT`, else 3777; 0 means any free port."""
    token: Annotated[str, Field(min_length=SHORTEST_TOKEN, max_length=512, pattern=r"^[!-~]+$")] | None = None
    """Every request needs it; None requires none. `TINYAGI_API_TOKEN` overrides it."""
    check_peer_user: bool = True
    """Without a token, refuse other users of this machine; Linux only. Switch off where a container hides the user."""
    allowed_hosts: Names = ()
    """Further host names of the daemon, without a port."""
    allowed_origins: Names = ()
    """Further web origins whose pages may call the API, such as `https://office.example`."""
    max_body_bytes: Annotated[int, Field(ge=1_024, le=1_073_741_824)] = 1_048_576
    messages_per_minute: Annotated[int, Field(ge=0, le=1_000_000)] = 120
    """Per sender on a chat channel or from another machine; 0 means no limit."""
    max_streams: Annotated[int, Field(ge=1, le=100_000)] = 1_000
    """Concurrent readers of live events."""


def _enough(memory: str) -> str:
    megabytes = int(memory[:-1]) * (1024 if memory[-1] == "g" else 1)
    if megabytes < LEAST_MEMORY:
        raise ValueError(f"Spark does not start with less than {LEAST_MEMORY}m")
    return memory


Memory = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,6}[mg]$"), AfterValidator(_enough)]
"""In the JVM's notation: 512m, 2g."""


class AlertSettings(Section):
    """The receiver of notices about unusual figures of a day in the lake."""

    enabled: bool = True
    channel: Annotated[str, Field(min_length=1, max_length=64)] = "web"
    sender: Annotated[str, Field(min_length=1, max_length=256)] = "owner"
    sender_id: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """The chat on that channel, if the channel needs one."""


class PipelineSettings(Section):
    enabled: bool = True
    """Whether the daemon runs the pipeline automatically; running it by hand always works."""
    master: Annotated[str, Field(min_length=1, max_length=1_000, pattern=r"^\S+$")] = "local[*]"
    driver_memory: Memory = "2g"
    min_events: Annotated[int, Field(ge=1, le=1_000_000_000)] = 500
    max_age_minutes: Annotated[float, Field(gt=0, le=7 * 24 * 60, allow_inf_nan=False)] = 15
    check_seconds: Period = 30
    batch_events: Annotated[int, Field(ge=1, le=100_000_000)] = 500_000
    warn_hours: Annotated[float, Field(gt=0, le=24 * 366, allow_inf_nan=False)] = 24
    nice: Annotated[int, Field(ge=0, le=19)] = 10
    class_archive: bool = True
    """Whether to keep Spark's classes in a file that makes its start faster."""
    event_log: Annotated[str, Field(min_length=1, max_length=4_096)] | None = None
    """The folder for Spark's event log, absolute or below the home; None writes none."""
    alerts: AlertSettings = AlertSettings()


class Settings(Section):
    """The whole of settings.json; made by `parse_settings`, which also checks references."""

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
