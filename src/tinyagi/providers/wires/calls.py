"""Makes the call out of a run's request: address, key, headers, body. Refuses what can reach no endpoint."""

from typing import Final

import httpx

from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.providers.base import RunFailed, RunRequest
from tinyagi.providers.models import DEFAULT_MODELS
from tinyagi.providers.wires.format import Call, Format
from tinyagi.providers.wires.refusals import Target

_SHORTEST_SECRET: Final = 4
"""What is shorter is a placeholder such as `x`; to mask it would only garble the reason."""

_HIGHEST_PORT: Final = 65_535


def call_of(request: RunRequest, form: Format) -> tuple[Call, Target]:
    """Return what to send and how to speak of it; raise RunFailed when a person has to set something first."""
    base = _base(request.endpoint.base_url or form.official)
    official = base.host == httpx.URL(form.official).host
    variable = request.environment.get(form.key_variable, "") if official else ""
    key = (request.endpoint.api_key or variable).strip()
    key_name = form.key_name if official else "the api_key of this custom provider"
    model = request.model or (DEFAULT_MODELS[request.endpoint.wire] if official else "")
    target = Target(_shown(base), f"{key_name} in settings.json", model, (key,) if len(key) >= _SHORTEST_SECRET else ())
    if official and not key:
        raise _unset(f"there is no key for {target.address}. Set {target.key_name}, or {form.key_variable}")
    if not (key.isascii() and key.isprintable()):
        raise _unset(f"the key for {target.address} holds signs that cannot be sent. Check {target.key_name}")
    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream",
        # Packed answers arrive in lumps, and unpacking has no bound.
        "accept-encoding": "identity",
        "user-agent": "tinyagi",
        **form.headers(key, official=official),
    }
    url = base.copy_with(path=form.path(base.path))
    return Call(url, headers, form.body(request, model, official=official), form.optional()), target


def _base(address: str) -> httpx.URL:
    try:
        url = httpx.URL(address.strip())
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in {"http", "https"} or not url.host or (url.port or 0) > _HIGHEST_PORT:
        raise _unset("base_url is no http or https address. Correct it in settings.json")
    # Such an address would be told in logs, and the name and password take the place of the key.
    if url.userinfo:
        raise _unset("base_url holds a name or a password. Leave them out, and put the key into api_key")
    return url


def _shown(base: httpx.URL) -> str:
    return str(base.copy_with(query=None, fragment=None)).rstrip("/")


def _unset(reason: str) -> RunFailed:
    return RunFailed(Failure(FailureKind.UNAVAILABLE, reason, needs_person=True))
