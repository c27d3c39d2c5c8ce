"""Short names of models: the one table of aliases, and the model that is asked when an agent names none."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tinyagi.providers.base import Wire

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
"""By provider; a provider that is not listed, such as a custom one, has names of its own."""

DEFAULT_MODELS: Final[Mapping[Wire, str]] = MappingProxyType(
    {Wire.OPENAI: _GPT["gpt"], Wire.ANTHROPIC: _CLAUDE["sonnet"]}
)
"""What `api` asks the official endpoints for, which have no default of their own."""


def resolve(provider: str, name: str, extra: Mapping[str, str]) -> str:
    """Return the provider's own name for a model: the owner's alias first, then the table's, else the name as it is."""
    name = name.strip()
    if name in extra:
        return extra[name]
    return ALIASES.get(provider, {}).get(name.lower(), name)
