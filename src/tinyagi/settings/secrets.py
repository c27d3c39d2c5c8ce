"""Which settings are secret, how they are shown, and how a shown value finds back to the stored one."""

import json
from collections.abc import Iterator, Mapping
from typing import Final

from tinyagi.settings.errors import InvalidSettings
from tinyagi.settings.merge import merged

MASK: Final = "••••"
_TAIL: Final = 4
_LONG_ENOUGH: Final = 12
"""A shorter secret shows nothing of itself."""
_WORTH_HIDING: Final = 6
"""Whoever removes shorter values from a log removes everyday words."""

_HARMLESS: Final = 24
"""Keys and tokens are longer than this, names are not."""

_ENDINGS: Final = (
    "apikey", "accesskey", "privatekey", "token", "secret", "password", "passphrase", "authorization", "cookie",
)  # fmt: skip


def is_secret(name: str) -> bool:
    """True when a value under this name is secret, however the name is written: bot_token, appSecret, X-Api-Key."""
    return name.lower().replace("_", "").replace("-", "").endswith(_ENDINGS)


def shown(value: object) -> str:
    """A value as an error may repeat it: whatever is long may be a secret that stands in the wrong place."""
    if isinstance(value, Mapping):
        return "this object"
    if isinstance(value, list):
        return "this list"
    text = repr(value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _HARMLESS else "this text"


def masked(raw: Mapping[str, object]) -> dict[str, object]:
    """Return a copy that may be shown: nothing is left of a secret but, when it is long enough, its last characters."""
    return {name: _masked(name, value) for name, value in raw.items()}


def merge(stored: Mapping[str, object], patch: Mapping[str, object]) -> dict[str, object]:
    """Merge the patch into what is stored; a masked value that comes back leaves the stored secret."""
    return merged(stored, {name: _unmasked(name, value, stored.get(name), name) for name, value in patch.items()})


def values(raw: Mapping[str, object], environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """Every secret text of the settings and of the environment, for those who keep secrets out of logs."""
    for name, value in (*raw.items(), *(environment or {}).items()):
        yield from _values(name, value)


def _masked(name: str, value: object) -> object:
    if isinstance(value, Mapping):
        return masked(value)
    if isinstance(value, list):
        return [_masked(name, item) for item in value]
    return _mask(value) if is_secret(name) else value


def _mask(value: object) -> object:
    # An empty text, null and a switch are not secrets: they say that there is none.
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
    """The stored item for each of the items: the only one that is shown alike, or else the one at its place.

    Places mean nothing once the list is longer or shorter, and then two secrets with the same end cannot be told apart.
    """
    looks = [_masked(name, candidate) for candidate in stored]
    in_place: list[object] = stored if len(stored) == len(items) else [None] * len(items)
    counterparts = []
    for item, there in zip(items, in_place, strict=True):
        alike = [candidate for candidate, look in zip(stored, looks, strict=True) if look == item]
        counterparts.append(alike[0] if len(alike) == 1 else there)
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
