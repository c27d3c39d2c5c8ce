"""What a child may see of the daemon's environment: enough to work, and no secret that is not its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tinyagi.providers.base import RunRequest
from tinyagi.providers.children import RUN_VARIABLE

AGENT_VARIABLE: Final = "TINYAGI_AGENT_ID"

_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_NAMES: Final = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "LANG", "LANGUAGE"),
        *_PROXIES,
        *(name.lower() for name in _PROXIES),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("TINYAGI_HOME", "TINYAGI_API_PORT", "TINYAGI_API_TOKEN"),
    }
)
_PREFIXES: Final = ("LC_", "XDG_")


@dataclass(frozen=True, slots=True)
class Passport:
    """Which of the daemon's variables belong to one program."""

    prefixes: tuple[str, ...]
    names: frozenset[str] = frozenset()
    never: frozenset[str] = frozenset()
    """What such a program sets for its own children: a daemon started by one must not hand it on."""


def child_environment(
    request: RunRequest, passport: Passport, own: Mapping[str, str], *, without: frozenset[str] = frozenset()
) -> dict[str, str]:
    """The child's whole environment: what it may see of the daemon's, then `own`, then the marks of the run."""
    names = _NAMES | passport.names | frozenset(request.pass_environment)
    prefixes = _PREFIXES + passport.prefixes
    hidden = passport.never | without
    seen = {
        name: value
        for name, value in request.environment.items()
        if (name in names or name.startswith(prefixes)) and name not in hidden
    }
    return {**seen, **own, RUN_VARIABLE: request.run_id, AGENT_VARIABLE: request.agent}
