"""Authentication and allow-lists: the token, its login cookie, the allowed Host and Origin headers, rate limits."""

import asyncio
import contextlib
import hashlib
import hmac
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from datetime import timedelta
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

from fastapi import APIRouter, Request, Response
from pydantic import Field

from tinyagi.api.base import Model, Ok
from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.ids import AgentId
from tinyagi.server.errors import HttpRefusal, responses
from tinyagi.settings.environment import LOOPBACK, is_loopback
from tinyagi.settings.model import SHORTEST_TOKEN, ServerSettings
from tinyagi.settings.secrets import agent_of
from tinyagi.system.clock import wall_clock
from tinyagi.system.files import put_in_place, write_aside

_LOOPBACK_NAMES: Final = ("localhost", LOOPBACK, "[::1]")
_EVERYWHERE: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared, never bound

MAX_KEYS: Final = 10_000
"""Old keys are evicted, so memory stays bounded."""

COOKIE: Final = "tinyagi"
LIFETIME: Final = timedelta(days=30)
_LIFETIME_MS: Final = int(LIFETIME.total_seconds() * 1_000)
_MAX_LENGTH: Final = 128


class Token:
    """The API's secret. A request proves it with a bearer header or, after a login, with a cookie derived from it."""

    def __init__(self, secret: str, logout_file: Path | None = None) -> None:
        self._text = secret
        self._secret = secret.encode()
        self.cookies = LoginCookies(self._secret, logout_file)

    def matches(self, shown: bytes) -> bool:
        return hmac.compare_digest(shown, self._secret)

    def caller(self, authorization: bytes | None, cookies: bytes | None) -> str | None:
        """Return how the request authenticates, `token` or `office`; None without a valid credential."""
        if authorization is not None:
            return "token" if self.matches(_bearer(authorization)) else None
        if cookies is not None and self.cookies.is_valid(_cookie_of(cookies)):
            return "office"
        return None

    def agent(self, authorization: bytes | None) -> AgentId | None:
        """Return the agent whose token the request has, or None."""
        return None if authorization is None else agent_of(_bearer(authorization), self._text)

    @staticmethod
    def has_credential(authorization: bytes | None, cookies: bytes | None) -> bool:
        """True when the request has a credential, valid or not."""
        return authorization is not None or (cookies is not None and bool(_cookie_of(cookies)))


class AllowedNames:
    """The Host and Origin headers that the daemon accepts. Another name may come from a DNS rebinding attack."""

    def __init__(self, settings: ServerSettings, port: int) -> None:
        own = [*_LOOPBACK_NAMES, *([] if settings.host in _EVERYWHERE else [_bracketed(settings.host)])]
        self.hosts = frozenset(_with_port(own, port) | _with_port(settings.allowed_hosts, port))
        self.origins = frozenset(origin.rstrip("/").lower() for origin in settings.allowed_origins)

    def is_own(self, origin: str, host: str) -> bool:
        """True when the origin is this daemon itself."""
        return origin in {f"http://{host}", f"https://{host}"}


def check_settings(settings: ServerSettings, token: str | None) -> None:
    """Raise InvalidInput, with the remedy, when the settings are unsafe or invalid."""
    if token is None and not is_loopback(settings.host):
        raise InvalidInput(
            f"server.host is {settings.host}, which others can reach, and there is no token. "
            "Make one with `tinyagi token`, or set server.host to 127.0.0.1."
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
                f"server.allowed_origins has {origin!r}, which is not an origin: use one such as https://office.example."
            )
    for name in settings.allowed_hosts:
        if not name or "*" in name or "/" in name:
            raise InvalidInput(f"server.allowed_hosts has {name!r}: use an exact name such as office.example.")


def _with_port(names: Iterable[str], port: int) -> set[str]:
    lowered = {name.lower() for name in names}
    return lowered | {f"{name}:{port}" for name in lowered}


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _bearer(authorization: bytes) -> bytes:
    """The credential of a Bearer header; empty for another scheme."""
    kind, _, shown = authorization.partition(b" ")
    return shown.strip() if kind.lower() == b"bearer" else b""


def _cookie_of(header: bytes) -> bytes:
    try:
        found = SimpleCookie(header.decode("latin-1")).get(COOKIE)
    except CookieError:
        return b""
    return b"" if found is None else found.value.encode("latin-1", "replace")


class RateLimit:
    """Allows `per_minute` uses of each key in a minute, in a burst or spread out; 0 sets no limit."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> int:
        """Count a use and return 0, or return the seconds until the next use is allowed."""
        if self._per_minute == 0:
            return 0
        now = self._clock()
        left = self._left(key, now)
        enough = left >= 1
        self._buckets[key] = (left - 1 if enough else left, now)
        self._buckets.move_to_end(key)
        if len(self._buckets) > MAX_KEYS:
            self._buckets.popitem(last=False)
        return 0 if enough else max(1, round((1 - left) * 60 / self._per_minute))

    def wait(self, key: str) -> int:
        """Return the seconds until the next use is allowed, without counting one."""
        left = self._left(key, self._clock())
        return 0 if self._per_minute == 0 or left >= 1 else max(1, round((1 - left) * 60 / self._per_minute))

    def _left(self, key: str, now: float) -> float:
        left, since = self._buckets.get(key, (float(self._per_minute), now))
        return min(float(self._per_minute), left + (now - since) * self._per_minute / 60)


class Login(Model):
    token: Annotated[str, Field(min_length=1, max_length=512)]


def routes(token: Token | None) -> APIRouter:
    router = APIRouter(tags=["login"])

    @router.post("/api/login", responses=responses(401))
    async def log_in(login: Login, request: Request, response: Response) -> Ok:
        """Exchange the token for a login cookie; does nothing when no token is set."""
        if token is not None:
            if not token.matches(login.token.encode("utf-8", "replace")):
                request.state.count_wrong_token()
                raise HttpRefusal(401, "The token is wrong. Use server.token from the settings.")
            response.set_cookie(
                COOKIE,
                token.cookies.issue(),
                max_age=int(LIFETIME.total_seconds()),
                httponly=True,
                samesite="strict",
                secure=_is_behind_tls(request),
            )
        return Ok()

    @router.post("/api/logout")
    async def log_out(response: Response) -> Ok:
        """Log out all browsers."""
        if token is not None:
            await asyncio.to_thread(token.cookies.end_all)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return Ok()

    return router


def _is_behind_tls(request: Request) -> bool:
    """True when the login page came over TLS. A reverse proxy ends TLS, so only the page's Origin shows it."""
    return request.headers.get("origin", "").lower().startswith("https://")


class LoginCookies:
    """Login cookies: the time of the login with a keyed hash. Only the time of the last logout is stored."""

    def __init__(self, secret: bytes, file: Path | None = None, *, clock: Callable[[], int] = wall_clock) -> None:
        self._secret = secret
        self._file = file
        self._clock = clock
        self._writing = threading.Lock()
        self._ended_at = self._read()

    def issue(self) -> str:
        # Never before the last logout: the clock may have been set back.
        issued = max(self._clock(), self._ended_at + 1)
        return f"{issued}.{self._hash(str(issued).encode())}"

    def is_valid(self, cookie: bytes) -> bool:
        issued, _, digest = cookie.partition(b".")
        if (
            len(cookie) > _MAX_LENGTH
            or not issued.isdigit()
            or not hmac.compare_digest(digest, self._hash(issued).encode())
        ):
            return False
        return int(issued) > self._ended_at and self._clock() - int(issued) <= _LIFETIME_MS

    def end_all(self) -> None:
        """Invalidate all cookies issued so far, also across restarts; blocks."""
        with self._writing:
            self._ended_at = max(self._clock(), self._ended_at + 1)
            if self._file is not None:
                put_in_place(write_aside(self._file, str(self._ended_at).encode()), self._file)

    def _read(self) -> int:
        if self._file is None:
            return 0
        with contextlib.suppress(FileNotFoundError):
            try:
                return int(self._file.read_text(encoding="ascii"))
            except (ValueError, PermissionError):
                # The last logout is unknown, so no earlier cookie is valid.
                return self._clock()
        return 0

    def _hash(self, issued: bytes) -> str:
        return hmac.new(self._secret, b"tinyagi login " + issued, hashlib.sha256).hexdigest()
