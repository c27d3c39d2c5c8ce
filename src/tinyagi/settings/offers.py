"""The models and endpoints that `tinyagi setup` offers, and the settings of each choice."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlsplit

from tinyagi.domain.models import knows_model
from tinyagi.domain.routing import DEFAULT_AGENT
from tinyagi.settings.json_tree import merged
from tinyagi.settings.model import ADDRESS, CUSTOM
from tinyagi.settings.patches import agents_of, section_of

OLLAMA_URL: Final = "http://127.0.0.1:11434/v1"
OPENROUTER_URL: Final = "https://openrouter.ai/api/v1"


@dataclass(frozen=True, slots=True)
class Offer:
    """One choice; `id` is its name on the command line."""

    id: str
    title: str
    provider: str
    """Its name in the settings."""
    maker: str | None = None
    """The section of `models` with its model and key."""
    program: str | None = None
    variable: str | None = None
    """The environment variable that may hold its key."""
    needs_key: bool = False
    base_url: str | None = None
    harness: str = "api"
    """The program or client that calls a custom provider."""
    wire: str = "openai"
    model: str | None = None
    """The model when the person names none."""

    @property
    def custom_id(self) -> str | None:
        """Its id in `custom_providers`, if it is there."""
        return self.provider.removeprefix(CUSTOM) if self.provider.startswith(CUSTOM) else None


OFFERS: Final = (
    Offer("claude", "Claude Code, the program", "anthropic", "anthropic", program="claude", model="sonnet"),
    Offer("codex", "Codex, the program", "openai", "openai", program="codex"),
    Offer("opencode", "OpenCode, the program", "opencode", "opencode", program="opencode"),
    Offer(
        *("anthropic", "Anthropic's API, with a key", "api", "anthropic"),
        variable="ANTHROPIC_API_KEY", needs_key=True, wire="anthropic", model="sonnet",
    ),
    Offer(
        *("openai", "OpenAI's API, with a key", "api", "openai"),
        variable="OPENAI_API_KEY", needs_key=True, model="gpt",
    ),
    Offer("ollama", "Ollama, models on this machine", f"{CUSTOM}ollama", base_url=OLLAMA_URL),
    Offer(
        *("openrouter", "OpenRouter, many models with one key", f"{CUSTOM}openrouter"),
        variable="OPENROUTER_API_KEY", needs_key=True, base_url=OPENROUTER_URL, model="openrouter/auto",
    ),
    Offer("custom", "another endpoint with the API of OpenAI or Anthropic", f"{CUSTOM}own"),
    Offer("scripted", "scripted answers, without a model", "scripted"),
)  # fmt: skip


def offer_of(name: str) -> Offer | None:
    """The offer with this name; `custom:<id>` is the person's own endpoint."""
    if name.startswith(CUSTOM):
        known = (offer for offer in OFFERS if offer.provider == name)
        return next(known, None) or replace(_named("custom"), provider=name)
    return next((offer for offer in OFFERS if offer.id == name), None)


def stored_offer(raw: Mapping[str, object], offer: Offer) -> Offer:
    """The offer with the address, format and model stored in `custom_providers`."""
    stored = section_of(raw, "custom_providers").get(offer.custom_id or "", {})
    found = {name: value for name, value in stored.items() if value and isinstance(value, str)}
    return replace(
        offer,
        base_url=found.get("base_url", offer.base_url),
        harness=found.get("harness", offer.harness),
        wire=found.get("wire", offer.wire),
        model=found.get("model", offer.model),
    )


def has_key(raw: Mapping[str, object], offer: Offer) -> bool:
    """True when a key is stored for the offer; a custom provider's key counts only for the same address."""
    if offer.custom_id is None:
        return bool(section_of(raw, "models").get(offer.maker or "", {}).get("api_key"))
    stored = section_of(raw, "custom_providers").get(offer.custom_id, {})
    is_there = str(stored.get("base_url")).rstrip("/") == str(offer.base_url).rstrip("/")
    return is_there and bool(stored.get("api_key"))


def is_address(text: str) -> bool:
    """True for http(s)://host/path without a user name or password."""
    try:
        parts = urlsplit(text)
        return re.fullmatch(ADDRESS, text) is not None and bool(parts.hostname) and parts.port != 0
    except ValueError:
        # The port is not a number, or too large.
        return False


def _named(name: str) -> Offer:
    return next(offer for offer in OFFERS if offer.id == name)


def default_agent_of(raw: Mapping[str, object]) -> str:
    named, agents = raw.get("default_agent"), agents_of(raw)
    if isinstance(named, str) and named in agents:
        return named
    return DEFAULT_AGENT if DEFAULT_AGENT in agents else next(iter(agents))


@dataclass(frozen=True, slots=True)
class ModelConnection:
    """An agent and the provider and model it uses."""

    offer: Offer
    agent: str
    model: str | None = None
    api_key: str | None = None
    """A key to store; None keeps the stored one."""
    agent_name: str | None = None
    """The name of a new agent."""
    agent_only: bool = False
    """True changes no other agent; otherwise agents without a provider use this one too."""

    def __str__(self) -> str:
        """The model and provider, as part of a sentence."""
        if self.offer.base_url is not None:
            return f"{self.model or 'the default model'} at {self.offer.base_url}"
        return f"{self.offer.title}, model {self.model}" if self.model else self.offer.title


def has_model(raw: Mapping[str, object]) -> bool:
    """True when an agent is connected to a model; False on a new home and while all agents are scripted."""
    models = raw.get("models")
    default = models.get("provider") if isinstance(models, Mapping) else None
    if not default and not section_of(raw, "agents"):
        return False
    return any((fields.get("provider") or default) != "scripted" for fields in agents_of(raw).values())


def users_of(raw: Mapping[str, object], provider: str) -> list[str]:
    """The agents with this provider."""
    return [name for name in agents_of(raw) if model_connection_of(raw, name).offer.provider == provider]


def model_connection_of(raw: Mapping[str, object], agent: str) -> ModelConnection:
    """The connection that the agent uses now, or would use if it were added."""
    fields = agents_of(raw).get(agent, {})
    models = raw.get("models")
    models = models if isinstance(models, Mapping) else {}
    provider, model = fields.get("provider") or models.get("provider") or "anthropic", fields.get("model")
    offer = stored_offer(raw, _offer_of_provider(str(provider), models, model))
    if offer.custom_id is not None:
        model = model or offer.model
    elif model is None and offer.maker is not None:
        made = models.get(offer.maker)
        model = made.get("model") if isinstance(made, Mapping) else None
    return ModelConnection(offer, agent, model if isinstance(model, str) else None)


def _offer_of_provider(provider: str, models: Mapping[str, object], model: object) -> Offer:
    if provider == "api":
        is_claude = isinstance(model, str) and knows_model("anthropic", model, {})
        return _named("anthropic" if is_claude or (model is None and not _uses_openai(models)) else "openai")
    known = (offer for offer in OFFERS if offer.provider == provider)
    return next(known, None) or offer_of(provider) or _named("scripted")


def _uses_openai(models: Mapping[str, object]) -> bool:
    """True when `api` without a named model uses OpenAI; `agent_setup` decides the same way."""
    openai, anthropic = (
        found if isinstance(found := models.get(maker), Mapping) else {} for maker in ("openai", "anthropic")
    )
    return bool(openai.get("api_key") or (openai.get("model") and not anthropic.get("api_key")))


def patch_of(raw: Mapping[str, object], connection: ModelConnection) -> dict[str, object]:
    """The settings patch that makes the agent use this connection; see `agent_only` for other agents."""
    offer, model = connection.offer, connection.model
    key = {"api_key": connection.api_key} if connection.api_key else {}
    patch: dict[str, object] = {}
    models: dict[str, object] = {} if connection.agent_only else {"provider": offer.provider}
    if offer.maker is not None and (key or not connection.agent_only):
        models[offer.maker] = key if connection.agent_only else {"model": model, **key}
    if models:
        patch["models"] = models
    if offer.custom_id is not None:
        stored = section_of(raw, "custom_providers").get(offer.custom_id, {})
        shared = stored.get("model") if connection.agent_only else None
        wire = offer.wire if offer.harness == "api" else None
        endpoint = {"harness": offer.harness, "base_url": offer.base_url, "wire": wire, "model": shared or model}
        name = {} if stored.get("name") else {"name": offer.title.partition(",")[0] if offer.id != "custom" else None}
        patch["custom_providers"] = {offer.custom_id: {**name, **endpoint, **key}}
    agent: dict[str, object] = {"provider": offer.provider, "model": model}
    if connection.agent not in agents_of(raw):
        agent = {"name": connection.agent_name or _title(connection.agent), **agent}
        if offer.id != "scripted" and not has_model(raw):
            # The first agent with a model takes the messages without a recipient.
            patch["default_agent"] = connection.agent
    kept = _kept_models(raw, patch) if connection.agent_only else {}
    patch["agents"] = {**kept, connection.agent: agent}
    return patch


def _kept_models(raw: Mapping[str, object], patch: Mapping[str, object]) -> dict[str, object]:
    """Models for agents that use `api` without naming one; otherwise the new key would switch them to another maker."""
    after = merged(raw, patch)
    users = [model_connection_of(raw, name) for name in agents_of(raw)]
    return {
        now.agent: {"model": now.model or now.offer.model}
        for now in users
        if now.offer.provider == "api" and model_connection_of(after, now.agent).offer != now.offer
    }


def first_team_patch(
    raw: Mapping[str, object], team: str, members: list[str], fields: Mapping[str, object]
) -> dict[str, object]:
    """A team led by its first member; missing members are added with these fields."""
    known = agents_of(raw)
    new = {member: {"name": _title(member), **fields} for member in members if member not in known}
    listed = {"name": _title(team), "agents": members, "leader_agent": members[0]}
    return {"agents": new, "teams": {team: listed}}


def _title(name: str) -> str:
    return name.replace("-", " ").replace("_", " ").title()
