"""Who may call: the token and its cookie, the names the daemon answers to, and the origins whose pages may ask."""

import hashlib
import hmac
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import urlsplit

from tinyagi.domain.errors import InvalidInput
from tinyagi.settings.server import LOOPBACK, SHORTEST_TOKEN, ServerSettings, is_loopback

COOKIE: Final = "tinyagi"
_LOOPBACK_NAMES: Final = ("localhost", LOOPBACK, "[::1]")
_EVERYWHERE: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared with, never bound to


class Token:
    """The secret that every request shows, as a header or, after a login, as a cookie that does not contain it."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()
        self._cookie = hmac.new(self._secret, b"tinyagi office cookie", hashlib.sha256).hexdigest().encode()

    @property
    def cookie(self) -> str:
        return self._cookie.decode()

    def matches(self, shown: bytes) -> bool:
        return hmac.compare_digest(shown, self._secret)

    def caller(self, authorization: bytes | None, cookies: bytes | None) -> str | None:
        """How the caller has shown the token, or None."""
        if authorization is not None:
            kind, _, shown = authorization.partition(b" ")
            return "token" if kind.lower() == b"bearer" and self.matches(shown.strip()) else None
        if cookies is not None and hmac.compare_digest(_cookie_of(cookies), self._cookie):
            return "office"
        return None

    @staticmethod
    def is_shown(authorization: bytes | None, cookies: bytes | None) -> bool:
        """True when the request has a credential, right or wrong."""
        return authorization is not None or (cookies is not None and bool(_cookie_of(cookies)))


class Names:
    """The Host headers and Origins that are ours. A name that is not on the list may be another site's, rebound."""

    def __init__(self, settings: ServerSettings, port: int) -> None:
        own = [*_LOOPBACK_NAMES, *([] if settings.host in _EVERYWHERE else [_bracketed(settings.host)])]
        self.hosts = frozenset(_with_port(own, port) | _with_port(settings.allowed_hosts, port))
        self.origins = frozenset(origin.rstrip("/").lower() for origin in settings.allowed_origins)

    def is_own(self, origin: str, host: str) -> bool:
        """True when a page of this daemon itself asks."""
        return origin in {f"http://{host}", f"https://{host}"}


def check(settings: ServerSettings, token: str | None) -> None:
    """Raise InvalidInput, with the remedy, for what must not be started."""
    if token is None and not is_loopback(settings.host):
        raise InvalidInput(
            f"server.host is {settings.host}, which others can reach, and there is no token. "
            "Set server.token (or TINYAGI_API_TOKEN) to a long random text, or server.host to 127.0.0.1."
        )
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise InvalidInput(
            f"The token has {len(token)} characters, which can be guessed. Use {SHORTEST_TOKEN} or more, "
            "in server.token or TINYAGI_API_TOKEN."
        )
    for origin in settings.allowed_origins:
        parts = urlsplit(origin)
        if parts.scheme not in {"http", "https"} or not parts.netloc or "*" in origin or parts.path not in {"", "/"}:
            raise InvalidInput(
                f"server.allowed_origins has {origin!r}, which is no origin: use one such as https://office.example."
            )
    for name in settings.allowed_hosts:
        if not name or "*" in name or "/" in name:
            raise InvalidInput(f"server.allowed_hosts has {name!r}: use an exact name such as office.example.")


def _with_port(names: Iterable[str], port: int) -> set[str]:
    lowered = {name.lower() for name in names}
    return lowered | {f"{name}:{port}" for name in lowered}


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _cookie_of(header: bytes) -> bytes:
    try:
        found = SimpleCookie(header.decode("latin-1")).get(COOKIE)
    except CookieError:
        return b""
    return b"" if found is None else found.value.encode("latin-1", "replace")
