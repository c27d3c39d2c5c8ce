"""Stands before everything else: Host, Origin, token, content type and size are checked here, for every route alike."""

from functools import lru_cache
from typing import Final, NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tinyagi.domain.texts import one_line
from tinyagi.server.access import Names, Token
from tinyagi.server.errors import Refused, parts_of, send_json
from tinyagi.server.limits import RateLimit

LOGIN: Final = "/api/login"
"""The one address that is asked without the token: its body has it."""
WRONG_TOKENS_PER_MINUTE: Final = 30
MAX_HEADERS: Final = 100

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_JSON: Final = b"application/json"
_ALLOWED_METHODS: Final = b"GET, POST, PUT, DELETE"
_ALLOWED_HEADERS: Final = b"authorization, content-type, last-event-id, x-tinyagi-client"


class _Asked(NamedTuple):
    """The headers that matter here. Which of two of a kind would count is anybody's guess, so there is only one."""

    host: bytes = b""
    origin: bytes | None = None
    authorization: bytes | None = None
    cookie: bytes | None = None
    content_type: bytes = b""
    content_length: bytes | None = None
    transfer_encoding: bytes | None = None
    client: bytes = b""


_FIELDS: Final = {
    b"host": "host",
    b"origin": "origin",
    b"authorization": "authorization",
    b"cookie": "cookie",
    b"content-type": "content_type",
    b"content-length": "content_length",
    b"transfer-encoding": "transfer_encoding",
    b"x-tinyagi-client": "client",
}


class Guard:
    def __init__(self, app: ASGIApp, *, names: Names, token: Token | None, max_body: int) -> None:
        self._app = app
        self._names = names
        self._token = token
        self._max_body = max_body
        self._wrong_tokens = RateLimit(WRONG_TOKENS_PER_MINUTE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            asked = _asked(scope)
            page = self._check_origin(asked)
            if scope["method"] == "OPTIONS" and page is not None:
                await send_json(send, 204, b"", _cors(page, preflight=True))
                return
            scope.setdefault("state", {})
            scope["state"]["actor"] = self._identify(scope, asked)
            self._check_body(scope, asked)
            if asked.transfer_encoding is not None:
                receive = await _whole(receive, self._max_body)
        except Refused as error:
            await send_json(send, *parts_of(error))
            return
        await self._app(scope, receive, send if page is None else _with_cors(send, page))

    def _check_origin(self, asked: _Asked) -> bytes | None:
        """Check Host and Origin; return the Origin when it is another one that is allowed."""
        host = asked.host.decode("latin-1").lower()
        if host not in self._names.hosts:
            raise Refused(
                403,
                f"This daemon is not called {one_line(host, 100)!r}. If it is, add the name to server.allowed_hosts.",
            )
        if asked.origin is None:
            return None
        origin = asked.origin.decode("latin-1").lower()
        if self._names.is_own(origin, host):
            return None
        if origin in self._names.origins:
            return asked.origin
        raise Refused(
            403,
            f"Pages of {one_line(origin, 100)!r} may not call this API. List it in server.allowed_origins if they may.",
        )

    def _identify(self, scope: Scope, asked: _Asked) -> str:
        """Who calls, for the audit log: how they were let in, from where, and what they call themselves."""
        address = scope["client"][0] if scope["client"] else "unknown"
        if scope["path"] == LOGIN:
            scope["state"]["count_wrong_token"] = lambda: _refuse_for(self._wrong_tokens.take(address))
        by = self._let_in(scope["path"], asked, address)
        return _actor(by, address, asked.client)

    def _let_in(self, path: str, asked: _Asked, address: str) -> str:
        if self._token is None:
            return "no token"
        if path == LOGIN:
            return "login"
        # The right token passes before the lock-out is asked: wrong ones from a shared address must not shut it out.
        by = self._token.caller(asked.authorization, asked.cookie)
        if by is not None:
            return by
        is_guess = Token.is_shown(asked.authorization, asked.cookie)
        _refuse_for(self._wrong_tokens.take(address) if is_guess else self._wrong_tokens.wait(address))
        raise Refused(
            401,
            "The token is missing or wrong. Send it as `Authorization: Bearer <token>`; it is server.token.",
            {"www-authenticate": "Bearer"},
        )

    def _check_body(self, scope: Scope, asked: _Asked) -> None:
        method = scope["method"]
        if method in _SAFE:
            return
        # No page can send a DELETE elsewhere without asking first, so one without a body needs no further mark.
        is_json = asked.content_type.partition(b";")[0].strip().lower() == _JSON
        is_bare = not asked.content_type and asked.content_length in {None, b"0"} and asked.transfer_encoding is None
        if not is_json and not (method == "DELETE" and is_bare):
            raise Refused(415, "A write needs the header `Content-Type: application/json`.")
        if asked.content_length is not None and int(asked.content_length) > self._max_body:
            raise too_large(self._max_body)


def _refuse_for(seconds: int) -> None:
    """Raise Refused when an address has to wait before it may try another token."""
    if seconds:
        raise Refused(
            429,
            f"Too many wrong tokens from this address. Wait {seconds} s or send the right one; it is server.token.",
            {"retry-after": str(seconds)},
        )


@lru_cache(maxsize=256)
def _actor(by: str, address: str, client: bytes) -> str:
    called = one_line(client.decode("latin-1"), 64)
    return f"{called} ({by}, {address})" if called else f"{by}, {address}"


def too_large(most: int) -> Refused:
    return Refused(413, f"The body is larger than {most:,} bytes, see server.max_body_bytes.", {"connection": "close"})


async def _whole(receive: Receive, most: int) -> Receive:
    """Read a body whose length was not announced, as far as it may be, and hand it on in one piece."""
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return receive
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > most:
            raise too_large(most)
    pending: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay


def _asked(scope: Scope) -> _Asked:
    headers = scope["headers"]
    if len(headers) > MAX_HEADERS:
        raise Refused(400, f"The request has {len(headers)} headers; {MAX_HEADERS} are enough.")
    found: dict[str, bytes] = {}
    for name, value in headers:
        field = _FIELDS.get(name)
        if field is not None:
            if field in found and field != "cookie":
                raise Refused(400, "A header comes twice that may come once only.")
            found[field] = value
    return _Asked(**found)


def _cors(origin: bytes, *, preflight: bool = False) -> list[tuple[bytes, bytes]]:
    headers = [
        (b"access-control-allow-origin", origin),
        (b"access-control-allow-credentials", b"true"),
        (b"vary", b"origin"),
    ]
    if preflight:
        headers += [
            (b"access-control-allow-methods", _ALLOWED_METHODS),
            (b"access-control-allow-headers", _ALLOWED_HEADERS),
            (b"access-control-max-age", b"600"),
        ]
    return headers


def _with_cors(send: Send, origin: bytes) -> Send:
    async def send_with_cors(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *_cors(origin)]
        await send(message)

    return send_with_cors
