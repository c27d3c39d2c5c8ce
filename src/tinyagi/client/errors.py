"""What can go wrong between a client and the daemon. The words are the server's where it has any."""

from tinyagi.domain.errors import TinyAGIError


class ClientError(TinyAGIError):
    """The daemon was not reached, or did not do what it was asked."""


class NotRunning(ClientError):
    """Nobody listens at the address; nothing was sent."""

    def __init__(self, url: str) -> None:
        super().__init__(f"TinyAGI is not running at {url}. Start it with: tinyagi start")
        self.url = url


class ConnectionLost(ClientError):
    """The connection broke after the request: what was asked may or may not be done."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"TinyAGI at {url} did not answer ({reason}). See what it is doing: tinyagi logs daemon")


class NotTinyAGI(ClientError):
    """Somebody else, or a daemon of another version, answers at the address."""

    def __init__(self, url: str, sign: str) -> None:
        super().__init__(
            f"What answers at {url} does not speak as this TinyAGI does ({sign}). "
            "Another program may have the port: choose one with TINYAGI_API_PORT. "
            "After an update restart the daemon: tinyagi restart"
        )


class Unauthorized(ClientError):
    """401: the token is missing or wrong."""

    def __init__(self, sentence: str) -> None:
        super().__init__(
            f"{sentence} Set TINYAGI_API_TOKEN to the daemon's token; it is `server.token` of its settings."
        )


class Rejected(ClientError):
    """400, 403, 413, 415: it cannot be done as asked; nothing was changed."""


class NotFoundError(ClientError):
    """404: there is no such thing."""


class ConflictError(ClientError):
    """409: it is there already, or still in use."""


class TooManyRequests(ClientError):
    """429: try again after the pause."""

    def __init__(self, sentence: str, retry_after: float) -> None:
        super().__init__(sentence)
        self.retry_after = retry_after
        """Seconds."""


class ServerFault(ClientError):
    """5xx: the daemon could not do it."""
