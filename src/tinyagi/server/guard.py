"""Checks every request before its route: Host, Origin, token, content type and size."""

import logging
import os
from functools import lru_cache
from typing import Final, NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tinyagi.domain.texts import one_line
from tinyagi.server.access import AllowedNames, RateLimit, Token
from tinyagi.server.agent_scope import check_call
from tinyagi.server.errors import HttpRefusal, parts_of, send_json
from tinyagi.server.http_protocol import PEER_USER
from tinyagi.settings.live import LiveSettings

log = logging.getLogger(__name__)

LOGIN: Final = "/api/login"
"""The only path that needs no token header: the body has the token."""
WRONG_TOKENS_PER_MINUTE: Final = 30
UPLOAD: Final = ("POST", "/api/files")
"""The only write whose body is not JSON; its route streams it to the disk."""
MAX_HEADERS: Final = 100
LOGGED_ORIGINS: Final = 100
"""Refused origins to log, each once. The limit keeps made-up origins from filling the log."""

_PAGES: Final = frozenset({"/", "/docs"})
"""Paths that a link on another site may open; they show only the documentation."""
_OWN_SITES: Final = frozenset({None, b"none", b"same-origin"})
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_JSON: Final = b"application/json"
_BYTES: Final = b"application/octet-stream"
_CLOSE: Final = (b"connection", b"close")
"""Added to a refusal when the request's body stays unread."""
_PREFLIGHT: Final = (
    (b"access-control-allow-methods", b"GET, POST, PUT, DELETE"),
    (b"access-control-allow-headers", b"authorization, content-type, last-event-id, x-tinyagi-client"),
    (b"access-control-max-age", b"600"),
)


class _Headers(NamedTuple):
    """The headers that the guard checks. A repeated one is ambiguous, so the request is refused."""

    host: bytes = b""
    origin: bytes | None = None
    authorization: bytes | None = None
    cookie: bytes | None = None
    content_type: bytes = b""
    content_length: bytes | None = None
    transfer_encoding: bytes | None = None
    site: bytes | None = None
    mode: bytes = b""
    client: bytes = b""


_FIELDS: Final = {
    b"host": "host",
    b"origin": "origin",
    b"authorization": "authorization",
    b"cookie": "cookie",
    b"content-type": "content_type",
    b"content-length": "content_length",
    b"transfer-encoding": "transfer_encoding",
    b"sec-fetch-site": "site",
    b"sec-fetch-mode": "mode",
    b"x-tinyagi-client": "client",
}


class Guard:
    """ASGI middleware in front of every route: lets a request through, or answers with a refusal."""

    def __init__(
        self, app: ASGIApp, *, names: AllowedNames, token: Token | None, max_body: int, settings: LiveSettings
    ) -> None:
        self._app = app
        self._names = names
        self._token = token
        self._max_body = max_body
        self._settings = settings
        self._wrong_tokens = RateLimit(WRONG_TOKENS_PER_MINUTE)
        self._refused_origins: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = None
        try:
            headers = _headers(scope)
            origin = self._check_origin(scope, headers)
            if origin is not None:
                # Refusals carry the CORS headers, too: without them a page cannot read the reason.
                send = _with_cors(send, origin)
                if scope["method"] == "OPTIONS":
                    await send_json(send, 204, b"", _PREFLIGHT)
                    return
            scope.setdefault("state", {})
            scope["state"]["actor"] = self._actor_of(scope, headers)
            self._check_body(scope, headers)
            if headers.transfer_encoding is not None:
                receive = await _read_bounded(receive, self._max_body)
        except HttpRefusal as error:
            status, body, extra = parts_of(error)
            if headers is None or _has_body(headers):
                extra = [*extra, _CLOSE]
            await send_json(send, status, body, extra)
            return
        await self._app(scope, receive, send)

    def _check_origin(self, scope: Scope, headers: _Headers) -> bytes | None:
        """Check Host and Origin; return the Origin if it is an allowed one of another site."""
        host = headers.host.decode("latin-1").lower()
        if host not in self._names.hosts:
            raise HttpRefusal(
                403,
                f"{one_line(host, 100)!r} is not a name of this daemon. To allow it, add it to server.allowed_hosts.",
            )
        if headers.origin is None:
            _check_site(scope, headers)
            return None
        origin = headers.origin.decode("latin-1").lower()
        if self._names.is_own(origin, host):
            return None
        if origin in self._names.origins:
            return headers.origin
        if origin == "null":
            raise HttpRefusal(403, "A page without an origin may not call this API.")
        refusal = (
            f"Pages from {one_line(origin, 100)!r} may not call this API. To allow them, add the origin to "
            "server.allowed_origins."
        )
        if origin not in self._refused_origins and len(self._refused_origins) < LOGGED_ORIGINS:
            self._refused_origins.add(origin)
            log.warning("%s", refusal)
        raise HttpRefusal(403, refusal)

    def _actor_of(self, scope: Scope, headers: _Headers) -> str:
        """Return the caller for the audit log: how it authenticated, its address, and its client name."""
        address = scope["client"][0] if scope["client"] else "unknown"
        agent = None if self._token is None else self._token.agent(headers.authorization)
        if agent is not None:
            check_call(self._settings.current, agent, scope["method"], scope["path"])
            scope["state"]["agent"] = agent
            return _actor(f"agent @{agent}", address, headers.client)
        if scope["path"] == LOGIN:
            scope["state"]["count_wrong_token"] = lambda: _refuse_for(self._wrong_tokens.take(address))
        if self._token is None:
            _check_peer(scope)
        by = self._authenticate(scope["path"], headers, address)
        return _actor(by, address, headers.client)

    def _authenticate(self, path: str, headers: _Headers, address: str) -> str:
        if self._token is None:
            return "no token"
        if path == LOGIN:
            return "login"
        # Check the token before the lock-out: wrong tokens from a shared address must not lock out the right one.
        by = self._token.caller(headers.authorization, headers.cookie)
        if by is not None:
            return by
        is_guess = Token.has_credential(headers.authorization, headers.cookie)
        _refuse_for(self._wrong_tokens.take(address) if is_guess else self._wrong_tokens.wait(address))
        raise HttpRefusal(
            401,
            "The token is missing or wrong. Send server.token as `Authorization: Bearer <token>`.",
            {"www-authenticate": "Bearer"},
        )

    def _check_body(self, scope: Scope, headers: _Headers) -> None:
        method = scope["method"]
        if method in _SAFE:
            return
        if (method, scope["path"]) == UPLOAD:
            self._check_upload(headers)
            return
        is_json = headers.content_type.partition(b";")[0].strip().lower() == _JSON
        # A write without a body needs no content type: browsers send a page's Origin or site with every write.
        if not is_json and (headers.content_type or _has_body(headers)):
            raise HttpRefusal(415, "A write with a body needs the header `Content-Type: application/json`.")
        if headers.content_length is not None and int(headers.content_length) > self._max_body:
            raise too_large(self._max_body)

    def _check_upload(self, headers: _Headers) -> None:
        # Like JSON, a web form cannot send this type to another site.
        if headers.content_type != _BYTES:
            raise HttpRefusal(415, "A file needs the header `Content-Type: application/octet-stream`.")
        if headers.content_length is None:
            raise HttpRefusal(411, "A file needs the header `Content-Length`.")
        largest = self._settings.current.responses.max_file_bytes
        if int(headers.content_length) > largest:
            raise file_too_large(largest)


def _has_body(headers: _Headers) -> bool:
    return headers.transfer_encoding is not None or headers.content_length not in {None, b"0"}


def _check_site(scope: Scope, headers: _Headers) -> None:
    """Raise HttpRefusal for a request without Origin that a browser marks as coming from another site.

    `same-site` is refused, too: another port of this machine is the same site and may belong to another program.
    """
    if headers.site in _OWN_SITES:
        return
    is_link = scope["method"] == "GET" and headers.mode == b"navigate" and scope["path"] in _PAGES
    if not is_link:
        raise HttpRefusal(
            403,
            "This request comes from a page of another site. Type the address instead of following a link. "
            "To let a page call the API, add its origin to server.allowed_origins; the page must send its Origin.",
        )


def _check_peer(scope: Scope) -> None:
    """Raise HttpRefusal when another user of this machine calls a daemon without a token."""
    extensions = scope.get("extensions", {})
    if PEER_USER not in extensions:
        return
    user = extensions[PEER_USER]
    if user not in {os.geteuid(), 0}:
        found = "your user is unknown" if user is None else f"your user id is {user}"
        raise HttpRefusal(
            403,
            f"This daemon has no token, so only its own user and root may call it, and {found}. Create a token "
            "with `tinyagi token` and send it, server.token, as `Authorization: Bearer <token>`. "
            "To allow every user of this machine, set server.check_peer_user to false.",
        )


def _refuse_for(seconds: int) -> None:
    """Raise HttpRefusal if an address must wait before it tries another token."""
    if seconds:
        raise HttpRefusal(
            429,
            f"Too many wrong tokens from this address. Wait {seconds} s, or send the right token (server.token).",
            {"retry-after": str(seconds)},
        )


@lru_cache(maxsize=256)
def _actor(by: str, address: str, client: bytes) -> str:
    name = one_line(client.decode("latin-1"), 64)
    return f"{name} ({by}, {address})" if name else f"{by}, {address}"


def file_too_large(limit: int) -> HttpRefusal:
    return HttpRefusal(
        413,
        f"The file is larger than {limit / 1_000_000:g} MB. Send a smaller one, or raise responses.max_file_megabytes.",
    )


def too_large(limit: int) -> HttpRefusal:
    return HttpRefusal(413, f"The body is larger than {limit:,} bytes. Send less, or raise server.max_body_bytes.")


async def _read_bounded(receive: Receive, limit: int) -> Receive:
    """Read a body of unknown length, up to the limit, and return a `receive` that yields it in one piece."""
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return receive
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > limit:
            raise too_large(limit)
    pending: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay


def _headers(scope: Scope) -> _Headers:
    headers = scope["headers"]
    if len(headers) > MAX_HEADERS:
        raise HttpRefusal(400, f"The request has {len(headers)} headers; the limit is {MAX_HEADERS}.")
    found: dict[str, bytes] = {}
    for name, value in headers:
        field = _FIELDS.get(name)
        if field is not None:
            if field in found and field != "cookie":
                raise HttpRefusal(400, f"The request repeats the header {name.decode('latin-1')}; send it once.")
            found[field] = value
    return _Headers(**found)


def _with_cors(send: Send, origin: bytes) -> Send:
    async def send_with_cors(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [
                *message.get("headers", ()),
                (b"access-control-allow-origin", origin),
                (b"access-control-allow-credentials", b"true"),
                (b"vary", b"origin"),
            ]
        await send(message)

    return send_with_cors
