"""Checks an HTTP endpoint outside of any run: whether the key works and the model is known, and which models exist."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final

import httpx

from tinyagi.domain.ids import AgentId
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.runs import Endpoint, RunLimits
from tinyagi.providers.api import FORMATS, Api, call_of
from tinyagi.providers.base import RunFailed, RunRequest
from tinyagi.providers.failures import UNKNOWN_MODEL, EndpointInfo, endpoint_failure, refusal_of_body
from tinyagi.providers.json_fields import NotJson, json_at, parse_json, text_at

PATIENCE: Final = timedelta(seconds=30)
"""Time for a short answer; a local model may have to be loaded first."""
LIST_PATIENCE: Final = timedelta(seconds=5)
_MOST_LISTED: Final = 12
_LONGEST_LIST: Final = 8_000_000
_WITHOUT_LIST: Final = frozenset({404, 405, 501})
_ANSWER_TOKENS: Final = 16


async def check_endpoint(
    endpoint: Endpoint, model: str, environment: Mapping[str, str], patience: timedelta = PATIENCE
) -> None:
    """Ask the model for one word; raise RunFailed with a sentence that names the problem and the remedy."""
    request = _request(endpoint, model, environment)
    _, target = call_of(request, FORMATS[endpoint.wire])
    api = Api(pauses=())
    try:
        async with asyncio.timeout(patience.total_seconds()):
            await api.probe(request)
    except TimeoutError:
        raise _slow(target, patience) from None
    except RunFailed as error:
        if UNKNOWN_MODEL not in error.failure.reason:
            raise
        raise await _with_models(error, endpoint, environment) from None
    finally:
        await api.aclose()


async def list_models(
    endpoint: Endpoint, environment: Mapping[str, str], patience: timedelta = LIST_PATIENCE
) -> tuple[str, ...]:
    """The models that the endpoint lists, if any; raise RunFailed when the request fails."""
    call, target = call_of(_request(endpoint, "", environment), FORMATS[endpoint.wire])
    path = call.url.path.removesuffix("/chat/completions").removesuffix("/messages")
    headers = {**call.headers, "accept": "application/json"}
    try:
        async with (
            asyncio.timeout(patience.total_seconds()),
            httpx.AsyncClient(trust_env=False) as client,
            client.stream("GET", call.url.copy_with(path=f"{path}/models"), headers=headers) as answer,
        ):
            body = await _bounded(answer)
    except TimeoutError:
        raise _slow(target, patience) from None
    except httpx.RequestError as error:
        detail = target.masked(str(error)) or type(error).__name__
        reason = f"{target.address} cannot be reached ({detail})"
        raise RunFailed(Failure(FailureKind.UNAVAILABLE, reason)) from None
    if answer.status_code in _WITHOUT_LIST:
        return ()
    if answer.status_code != httpx.codes.OK:
        raise RunFailed(endpoint_failure(refusal_of_body(answer.status_code, body), target))
    return _ids(body)


async def _bounded(answer: httpx.Response) -> str:
    body = bytearray()
    async for chunk in answer.aiter_bytes():
        body += chunk
        if len(body) > _LONGEST_LIST:
            break
    return body.decode("utf-8", "replace")


def _ids(text: str) -> tuple[str, ...]:
    try:
        listed = json_at(parse_json(text), "data")
    except NotJson:
        return ()
    return tuple(found for one in listed if (found := text_at(one, "id"))) if isinstance(listed, list) else ()


async def _with_models(error: RunFailed, endpoint: Endpoint, environment: Mapping[str, str]) -> RunFailed:
    """The same failure with the names of available models."""
    try:
        models = await list_models(endpoint, environment)
    except RunFailed:
        models = ()
    if not models:
        return error
    more = f" and {len(models) - _MOST_LISTED} more" if len(models) > _MOST_LISTED else ""
    return RunFailed(
        Failure(error.failure.kind, f"{error.failure.reason}. It has: {', '.join(models[:_MOST_LISTED])}{more}")
    )


def _slow(target: EndpointInfo, patience: timedelta) -> RunFailed:
    reason = f"{target.address} did not answer within {patience.total_seconds():g} s"
    return RunFailed(Failure(FailureKind.UNAVAILABLE, reason))


def _request(endpoint: Endpoint, model: str, environment: Mapping[str, str]) -> RunRequest:
    return RunRequest(
        agent=AgentId("check"),
        prompt="Reply with OK.",
        system_prompt="",
        model=model,
        workspace=Path(),
        run_id="check",
        endpoint=endpoint,
        limits=RunLimits(answer_tokens=_ANSWER_TOKENS),
        environment=environment,
    )
