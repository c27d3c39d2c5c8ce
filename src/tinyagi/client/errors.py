"""Errors between a client and the daemon. The message is the server's sentence when there is one."""

from tinyagi.domain.errors import TinyAGIError


class ClientError(TinyAGIError):
    """The daemon could not be reached, or did not do what the call asked for."""


class NotRunning(ClientError):
    """The address refuses connections; nothing was sent."""

    def __init__(self, url: str) -> None:
        super().__init__(f"TinyAGI is not running at {url}. Start it with: tinyagi start")
        self.url = url


class ConnectionLost(ClientError):
    """The connection broke after the request was sent: the call may or may not have taken effect."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"TinyAGI at {url} did not answer ({reason}). See its log: tinyagi logs daemon")


class NotTinyAGI(ClientError):
    """Another program, or a daemon of another version, answers at the address."""

    def __init__(self, url: str, sign: str) -> None:
        super().__init__(
            f"The server at {url} is not this version of TinyAGI ({sign}). "
            "If another program uses the port, choose one with TINYAGI_API_PORT. "
            "After an update, restart the daemon: tinyagi restart"
        )


class Unauthorized(ClientError):
    """401: the token is missing or wrong."""

    def __init__(self, sentence: str) -> None:
        super().__init__(f"{sentence} Set TINYAGI_API_TOKEN to the daemon's token, `server.token` in its settings.")


class Rejected(ClientError):
    """400, 403, 405, 413, 415: the request is invalid or not allowed; nothing was changed."""


class NotPaired(Rejected):
    """403: the sender may not write on this channel; the code is for the owner."""

    def __init__(self, sentence: str, code: str | None, *, is_new: bool) -> None:
        super().__init__(sentence)
        self.code = code
        self.is_new = is_new


class NotFoundError(ClientError):
    """404: not found."""


class ConflictError(ClientError):
    """409: it exists already, or is still in use."""


class TooManyRequests(ClientError):
    """429: try again after the pause."""

    def __init__(self, sentence: str, retry_after: float) -> None:
        super().__init__(sentence)
        self.retry_after = retry_after
        """Seconds."""


class ServerFault(ClientError):
    """5xx: the daemon failed."""


class NoAnswer(ClientError):
    """The message ended without an answer."""

    def __init__(self, conversation: str, reason: str) -> None:
        super().__init__(f"No answer: {reason} See its trace: tinyagi trace {conversation}")
        self.reason = reason
