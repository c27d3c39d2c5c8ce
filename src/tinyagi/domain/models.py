"""Model names: the table of aliases, the default models, and which names a provider knows."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tinyagi.domain.runs import Wire

_CLAUDE: Final = {
    "opus": "claude-opus-5-5",
    "sonnet": "claude-sonnet-5-5",
    "haiku": "claude-haiku-5-5",
    "fable": "claude-fable-5-2",
}
_GPT: Final = {
    "gpt": "gpt-6.1-sol",
    "astra": "gpt-6-astra",
    "sol": "gpt-6.1-sol",
    "terra": "gpt-6.1-terra",
    "luna": "gpt-6-luna",
}

ALIASES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        # The claude program knows the short names itself and keeps them on the newest model it can use.
        "anthropic": {},
        "openai": _GPT,
        "opencode": {
            **{alias: f"anthropic/{model}" for alias, model in _CLAUDE.items()},
            **{alias: f"openai/{model}" for alias, model in _GPT.items()},
        },
        "api": {**_CLAUDE, **_GPT},
    }
)
"""By provider. Providers that are not listed, such as custom ones, have no aliases."""

DEFAULT_MODELS: Final[Mapping[Wire, str]] = MappingProxyType(
    {Wire.OPENAI: _GPT["gpt"], Wire.ANTHROPIC: _CLAUDE["sonnet"]}
)
"""Models for the official endpoints, which have no default model."""

_FAMILIES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "anthropic": ("claude",),
        "openai": ("gpt", "codex", "o1", "o3", "o4"),
        "api": ("claude", "gpt", "chatgpt", "o1", "o3", "o4"),
    }
)
"""Prefixes of each provider's model names."""


def knows_model(provider: str, name: str, extra: Mapping[str, str]) -> bool:
    """True when this provider knows the model's name; custom providers know only the owner's aliases (`extra`)."""
    name = name.strip().lower()
    if provider == "scripted":
        return False
    if name in extra or name in ALIASES.get(provider, {}) or (provider == "anthropic" and name in _CLAUDE):
        return True
    return "/" in name if provider == "opencode" else name.startswith(_FAMILIES.get(provider, ("\0",)))


def resolve_model(provider: str, name: str, extra: Mapping[str, str]) -> str:
    """Return the provider's own name for a model: the owner's alias, else the table's, else the name unchanged."""
    name = name.strip()
    if name in extra:
        return extra[name]
    return ALIASES.get(provider, {}).get(name.lower(), name)
