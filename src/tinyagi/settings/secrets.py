"""Secrets: finds and masks those in the settings, and derives the API token of each agent."""

import hmac
import json
from collections.abc import Iterator, Mapping
from typing import Final

from tinyagi.domain.ids import AgentId, is_valid_id
from tinyagi.settings.errors import InvalidSettings
from tinyagi.settings.json_tree import merged

MASK: Final = "••••"
_TAIL: Final = 4
_LONG_ENOUGH: Final = 12
"""Shorter secrets are masked entirely."""
_WORTH_HIDING: Final = 6
"""Shorter values may be everyday words, and removing those would spoil a log."""
_HARMLESS: Final = 24
"""Keys and tokens are longer than this, names are not."""
_ENDINGS: Final = (
    "apikey", "accesskey", "privatekey", "token", "secret", "password", "passphrase", "authorization", "cookie",
)  # fmt: skip
_KIND = "agent"


def is_secret(name: str) -> bool:
    """True when a value under this name is secret, in any spelling: bot_token, appSecret, X-Api-Key."""
    return name.lower().replace("_", "").replace("-", "").endswith(_ENDINGS)


def safe_repr(value: object) -> str:
    """A value as an error may quote it; long values are left out, because one may be a misplaced secret."""
    if isinstance(value, Mapping):
        return "this object"
    if isinstance(value, list):
        return "this list"
    text = repr(value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _HARMLESS else "this text"


def masked(raw: Mapping[str, object]) -> dict[str, object]:
    """Return a copy with masked secrets; a long secret keeps its last characters."""
    return {name: _masked(name, value) for name, value in raw.items()}


def without_masked(raw: Mapping[str, object]) -> dict[str, object]:
    """Return a copy without masked values."""
    return {
        name: without_masked(value) if isinstance(value, Mapping) else value
        for name, value in raw.items()
        if not (isinstance(value, str) and value.startswith(MASK))
    }


def merge(stored: Mapping[str, object], patch: Mapping[str, object]) -> dict[str, object]:
    """Merge the patch into the stored settings; a masked value keeps the stored secret."""
    return merged(stored, {name: _unmasked(name, value, stored.get(name), name) for name, value in patch.items()})


def values(raw: Mapping[str, object], environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """Every secret in the settings and the environment, so that logs can leave them out."""
    for name, value in (*raw.items(), *(environment or {}).items()):
        yield from _values(name, value)


def _masked(name: str, value: object) -> object:
    if isinstance(value, Mapping):
        return masked(value)
    if isinstance(value, list):
        return [_masked(name, item) for item in value]
    return _mask(value) if is_secret(name) else value


def _mask(value: object) -> object:
    # An empty text, null or a boolean is not a secret.
    if value in {None, ""} or isinstance(value, bool):
        return value
    text = str(value)
    return MASK + text[-_TAIL:] if len(text) >= _LONG_ENOUGH else MASK


def _unmasked(name: str, value: object, stored: object, where: str) -> object:
    if isinstance(value, Mapping):
        known = stored if isinstance(stored, Mapping) else {}
        return {key: _unmasked(key, item, known.get(key), f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        known_items = stored if isinstance(stored, list) else []
        return [
            _unmasked(name, item, counterpart, f"{where}[{place}]")
            for place, (item, counterpart) in enumerate(
                zip(value, _counterparts(name, value, known_items), strict=True)
            )
        ]
    if not is_secret(name) or not isinstance(value, str) or not value.startswith(MASK):
        return value
    if stored is None or _mask(stored) != value:
        raise InvalidSettings([f"{where}: this is a masked value; send the secret itself, or leave it out"])
    return stored


def _counterparts(name: str, items: list[object], stored: list[object]) -> list[object]:
    """The stored item for each item: the only one with the same mask, else the one at the same index.

    After the list has grown or shrunk an index means nothing, so two secrets with the same mask have no counterpart.
    """
    masks = [_masked(name, candidate) for candidate in stored]
    by_index: list[object] = stored if len(stored) == len(items) else [None] * len(items)
    counterparts = []
    for item, at_index in zip(items, by_index, strict=True):
        alike = [candidate for candidate, mask in zip(stored, masks, strict=True) if mask == item]
        counterparts.append(alike[0] if len(alike) == 1 else at_index)
    return counterparts


def _values(name: str, value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _values(key, item)
    elif isinstance(value, list):
        for item in value:
            yield from _values(name, item)
    elif is_secret(name) and isinstance(value, str | int) and len(str(value)) >= _WORTH_HIDING:
        yield str(value)


def agent_token(server_token: str, agent: AgentId) -> str:
    """`agent.<id>.<signature>`; ids have no dots."""
    signature = hmac.digest(server_token.encode(), f"tinyagi {_KIND} {agent}".encode(), "sha256").hex()
    return f"{_KIND}.{agent}.{signature}"


def agent_of(token: bytes, server_token: str) -> AgentId | None:
    """The agent this token belongs to, or None when it is not an agent's token; compared in constant time."""
    kind, _, rest = token.decode("latin-1").partition(".")
    agent = AgentId(rest.partition(".")[0])
    if kind != _KIND or not is_valid_id(agent):
        return None
    return agent if hmac.compare_digest(token, agent_token(server_token, agent).encode()) else None
