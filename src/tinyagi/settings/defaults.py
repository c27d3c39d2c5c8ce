"""The first run: which provider this machine offers, and the settings that follow from it."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tinyagi.settings.document import Document
from tinyagi.settings.environment import snapshot
from tinyagi.settings.home import Home
from tinyagi.settings.model import DEFAULT_AGENT, AgentSettings, Settings

Which = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Choice:
    """A provider, and in words why it is this one."""

    provider: str
    reason: str
    maker: str | None = None
    """Whose models it asks, as `models` names them."""
    model: str | None = None
    """What it is asked for; None leaves that to the provider."""


def detect(environment: Mapping[str, str], which: Which = shutil.which) -> Choice:
    """Choose what this machine can run at once; without any program and key that is the scripted provider.

    A program goes before a bare key: it brings tools and perhaps a login of its own.
    """
    programs = {
        "claude": Choice("anthropic", "the program claude is installed", "anthropic", "sonnet"),
        "codex": Choice("openai", "the program codex is installed"),
        "opencode": Choice("opencode", "the program opencode is installed"),
    }
    keys = {
        "ANTHROPIC_API_KEY": Choice(
            "api", "ANTHROPIC_API_KEY is set and no agent program is installed", "anthropic", "sonnet"
        ),
        "OPENAI_API_KEY": Choice("api", "OPENAI_API_KEY is set and no agent program is installed", "openai", "gpt"),
    }
    installed = (choice for program, choice in programs.items() if which(program))
    reachable = (choice for name, choice in keys.items() if environment.get(name))
    nothing = Choice(
        "scripted",
        f"none of {', '.join(programs)} is installed and neither {' nor '.join(keys)} is set; "
        "once one of them is there, change `provider` in the settings",
    )
    return next(installed, None) or next(reachable, nothing)


def first_settings(choice: Choice) -> dict[str, object]:
    """The settings of a new home: one agent, with the chosen provider."""
    agent: dict[str, object] = {"name": "TinyAGI", "provider": choice.provider}
    models: dict[str, object] = {"provider": choice.provider}
    if choice.maker is not None and choice.model is not None:
        agent["model"] = choice.model
        # Agents that are added later ask for the same.
        models[choice.maker] = {"model": choice.model}
    return {
        "workspace": {"path": "~/tinyagi-workspace"},
        "channels": {"enabled": []},
        "models": models,
        "agents": {DEFAULT_AGENT: agent},
        "teams": {},
        "monitoring": {"heartbeat_interval": 3600},
    }


def ensure(home: Home, environment: Mapping[str, str] | None = None, *, which: Which = shutil.which) -> tuple[str, ...]:
    """See to it that the home has settings, and return what a person should know about them, one line each.

    A file that is there is never changed; raise InvalidSettings when it cannot be used.
    """
    home.prepare()
    document = Document(home)
    loaded = document.read()
    if loaded is not None:
        document.make_private()
        return _remarks(home, loaded.settings)
    choice = detect(snapshot() if environment is None else environment, which)
    loaded = document.create(first_settings(choice))
    chosen = f"First run: @{DEFAULT_AGENT} uses the provider {choice.provider}, because {choice.reason}."
    return (chosen, f"The settings are in {home.settings_file}.", *_remarks(home, loaded.settings))


def _remarks(home: Home, settings: Settings) -> tuple[str, ...]:
    remarks = []
    rehearsed = [f"@{name}" for name, agent in settings.agents.items() if _provider(settings, agent) == "scripted"]
    if rehearsed:
        remarks.append(f"Rehearsed answers only, from the scripted provider: {', '.join(rehearsed)}.")
    if not home.is_private:
        remarks.append(f"Others on this machine can look into {home.path}; to change that: chmod 700 '{home.path}'")
    return tuple(remarks)


def _provider(settings: Settings, agent: AgentSettings) -> str:
    return agent.provider or settings.models.provider
