"""Whether the daemon answers, and what it says about itself."""

from collections.abc import Mapping
from typing import Final

import httpx

from tinyagi.daemon.pidfile import Sighting

PATIENCE: Final = 2.0
"""Seconds for one answer."""


def ask(sighting: Sighting, token: str | None, path: str = "/api/status") -> object | None:
    """The daemon's answer as JSON, or None as long as there is none."""
    if sighting.url is None:
        return None
    headers: Mapping[str, str] = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        # No proxy of the environment stands between a machine and itself.
        with httpx.Client(timeout=PATIENCE, trust_env=False) as client:
            answer = client.get(f"{sighting.url}{path}", headers=headers)
            found: object = answer.json() if answer.status_code == httpx.codes.OK else None
    except (httpx.HTTPError, ValueError):
        return None
    return found
