"""The API token of one agent. It is derived from the server's token: it is not stored, and changes with it."""

import hmac

from tinyagi.domain.ids import AgentId, is_valid_id

_KIND = "agent"


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
