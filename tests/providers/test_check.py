"""The check of an endpoint outside a run: success and errors."""

from datetime import timedelta

import pytest

from tests.support.fake_llm import fake_llm
from tests.support.llm_server import answering, openai_events, serving, silent, sse, streaming
from tinyagi.domain.runs import Endpoint, Wire
from tinyagi.providers.base import RunFailed
from tinyagi.providers.check import check_endpoint, list_models

SOON = timedelta(milliseconds=300)


def endpoint(url: str, wire: Wire = Wire.OPENAI, key: str | None = "sk-0123456789") -> Endpoint:
    return Endpoint(base_url=url, api_key=key, wire=wire)


async def reason(url: str, model: str = "m", **more: timedelta) -> str:
    with pytest.raises(RunFailed) as caught:
        await check_endpoint(endpoint(url), model, {}, **more)
    return str(caught.value)


@pytest.mark.parametrize("wire", list(Wire))
async def test_a_working_endpoint_gets_one_short_request(wire: Wire) -> None:
    async with fake_llm() as llm:
        await check_endpoint(endpoint(llm.url, wire), "m", {})

    assert [(one.model, one.prompt) for one in llm.asked] == [("m", "Reply with OK.")]


async def test_an_empty_answer_is_accepted() -> None:
    """A model that thinks first may have no token left for a text."""
    async with serving(streaming(sse(openai_events(stop="length")))) as llm:
        await check_endpoint(endpoint(llm.url), "m", {})

    assert llm.last.body["max_tokens"] == 16


async def test_a_silent_endpoint_times_out() -> None:
    async with serving(silent) as llm:
        assert await reason(llm.url, patience=SOON) == f"{llm.url} did not answer within 0.3 s"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "refused the key (401: no)"),
        (402, "requires payment"),
        (429, "is not available now"),
        (500, "not available"),
    ],
)
async def test_a_refusal_is_reported_without_a_retry(status: int, words: str) -> None:
    async with serving(answering(status, {"error": {"message": "no"}})) as llm:
        assert words in await reason(llm.url)
        assert len(llm.received) == 1


async def test_the_error_for_an_unknown_model_lists_known_models() -> None:
    async with fake_llm() as llm:
        llm.models = tuple(f"model-{number}" for number in range(20))
        failure_text = await reason(llm.url, "nonsense")

    assert "does not know the model nonsense" in failure_text
    assert failure_text.endswith("model-11 and 8 more")


@pytest.mark.parametrize(("wire", "path"), [(Wire.OPENAI, "/v1"), (Wire.ANTHROPIC, ""), (Wire.ANTHROPIC, "/v1")])
async def test_models_are_listed_from_v1_models(wire: Wire, path: str) -> None:
    async with fake_llm() as llm:
        llm.models = ("a", "b")

        assert await list_models(endpoint(f"{llm.url}{path}", wire), {}) == ("a", "b")

    assert [one.path for one in llm.seen] == ["/v1/models"]


async def test_an_endpoint_without_a_list_lists_nothing() -> None:
    async with fake_llm() as llm:
        assert await list_models(endpoint(llm.url), {}) == ()


async def test_a_failed_model_list_is_reported() -> None:
    async with fake_llm() as llm:
        llm.key = "another"
        with pytest.raises(RunFailed, match="refused the key"):
            await list_models(endpoint(llm.url), {})
    with pytest.raises(RunFailed, match="cannot be reached"):
        await list_models(endpoint("http://127.0.0.1:9"), {})
