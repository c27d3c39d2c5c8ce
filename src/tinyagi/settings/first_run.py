"""The first run: which provider this machine offers, and the settings that follow from it."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tinyagi.domain.messages import PLATFORM_CHANNELS
from tinyagi.domain.routing import DEFAULT_AGENT
from tinyagi.settings.environment import snapshot
from tinyagi.settings.home import Home
from tinyagi.settings.model import AgentSettings, Settings
from tinyagi.settings.parse import unknown_settings
from tinyagi.settings.settings_file import SettingsFile

Which = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class ProviderChoice:
    """A provider, and the reason for the choice in words."""

    provider: str
    reason: str
    maker: str | None = None
    """The section of `models` for its model and key."""
    model: str | None = None
    """None leaves the choice to the provider."""


def detect_provider(environment: Mapping[str, str], which: Which = shutil.which) -> ProviderChoice:
    """Choose a provider that this machine can run at once; without a program or a key, the scripted one.

    A program is preferred to a bare key: it brings tools and perhaps its own login.
    """
    programs = {
        "claude": ProviderChoice("anthropic", "the program claude is installed", "anthropic", "sonnet"),
        "codex": ProviderChoice("openai", "the program codex is installed"),
        "opencode": ProviderChoice("opencode", "the program opencode is installed"),
    }
    keys = {
        "ANTHROPIC_API_KEY": ProviderChoice(
            "api", "ANTHROPIC_API_KEY is set and no agent program is installed", "anthropic", "sonnet"
        ),
        "OPENAI_API_KEY": ProviderChoice(
            "api", "OPENAI_API_KEY is set and no agent program is installed", "openai", "gpt"
        ),
    }
    installed = (choice for program, choice in programs.items() if which(program))
    reachable = (choice for name, choice in keys.items() if environment.get(name))
    nothing = ProviderChoice(
        "scripted",
        f"none of {', '.join(programs)} is installed and neither {' nor '.join(keys)} is set",
    )
    return next(installed, None) or next(reachable, nothing)


def first_settings(choice: ProviderChoice) -> dict[str, object]:
    """The settings of a new home: one agent, with the chosen provider."""
    agent: dict[str, object] = {"name": "TinyAGI", "provider": choice.provider}
    models: dict[str, object] = {"provider": choice.provider}
    if choice.maker is not None and choice.model is not None:
        agent["model"] = choice.model
        # Agents added later use the same model.
        models[choice.maker] = {"model": choice.model}
    return {
        "workspace": {"path": "~/tinyagi-workspace"},
        "channels": {"enabled": []},
        "models": models,
        "agents": {DEFAULT_AGENT: agent},
        "teams": {},
    }


def ensure_settings(
    home: Home, environment: Mapping[str, str] | None = None, *, which: Which = shutil.which
) -> tuple[str, ...]:
    """Create settings for a home without any, and return remarks for the person, one line each.

    An existing file is never changed; raise InvalidSettings when it cannot be used.
    """
    home.prepare()
    document = SettingsFile(home)
    loaded = document.read()
    if loaded is not None:
        document.make_private()
        return (*unknown_settings(loaded.raw), *_remarks(home, loaded.settings))
    choice = detect_provider(snapshot() if environment is None else environment, which)
    loaded = document.create(first_settings(choice))
    chosen = f"First run: @{DEFAULT_AGENT} uses the provider {choice.provider}, because {choice.reason}."
    return (chosen, f"The settings are in {home.settings_file}.", *_remarks(home, loaded.settings))


def _remarks(home: Home, settings: Settings) -> tuple[str, ...]:
    remarks = []
    scripted = [f"@{name}" for name, agent in settings.agents.items() if _provider(settings, agent) == "scripted"]
    if scripted:
        remedy = " Connect a model: tinyagi setup" if settings.models.provider == "scripted" else ""
        remarks.append(f"Scripted answers only: {', '.join(scripted)}.{remedy}")
    unknown = [name for name in settings.channels.enabled if name not in PLATFORM_CHANNELS]
    if unknown:
        known = ", ".join(sorted(PLATFORM_CHANNELS))
        remarks.append(f"channels.enabled names {', '.join(unknown)}, which does not exist; there are {known}.")
    if not home.is_private:
        remarks.append(f"Other users of this machine can read {home.path}; to change that: chmod 700 '{home.path}'")
    return tuple(remarks)


def _provider(settings: Settings, agent: AgentSettings) -> str:
    return agent.provider or settings.models.provider
