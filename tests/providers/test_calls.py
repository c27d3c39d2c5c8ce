"""Requests to the official endpoints, without sending them."""

import pytest

from tests.support.runs import a_request
from tinyagi.domain.models import DEFAULT_MODELS
from tinyagi.domain.runs import Endpoint, Wire
from tinyagi.providers.api import FORMATS, call_of


def test_the_official_addresses_are_the_default() -> None:
    openai, _ = call_of(a_request(endpoint=Endpoint(api_key="k")), FORMATS[Wire.OPENAI])
    anthropic, _ = call_of(a_request(endpoint=Endpoint(api_key="k", wire=Wire.ANTHROPIC)), FORMATS[Wire.ANTHROPIC])
    assert str(openai.url) == "https://api.openai.com/v1/chat/completions"
    assert str(anthropic.url) == "https://api.anthropic.com/v1/messages"


@pytest.mark.parametrize("wire", Wire)
def test_an_agent_without_a_model_gets_the_official_default(wire: Wire) -> None:
    call, _ = call_of(a_request(endpoint=Endpoint(api_key="k", wire=wire)), FORMATS[wire])
    assert call.body["model"] == DEFAULT_MODELS[wire]


@pytest.mark.parametrize("wire", Wire)
def test_a_custom_endpoint_chooses_its_model(wire: Wire) -> None:
    call, _ = call_of(a_request(endpoint=Endpoint("http://127.0.0.1:1", wire=wire)), FORMATS[wire])
    assert "model" not in call.body


def test_the_official_endpoint_gets_max_completion_tokens() -> None:
    call, _ = call_of(a_request(endpoint=Endpoint(api_key="k")), FORMATS[Wire.OPENAI])
    assert call.body["max_completion_tokens"] == 8_192
    assert "max_tokens" not in call.body


@pytest.mark.parametrize("wire", Wire)
def test_the_official_endpoint_uses_the_key_of_the_environment(wire: Wire) -> None:
    environment = {"OPENAI_API_KEY": "from-environment", "ANTHROPIC_API_KEY": "from-environment"}
    call, _ = call_of(a_request(endpoint=Endpoint(wire=wire), environment=environment), FORMATS[wire])
    assert "from-environment" in " ".join(call.headers.values())
    call, _ = call_of(a_request(endpoint=Endpoint(api_key="set", wire=wire), environment=environment), FORMATS[wire])
    assert "from-environment" not in " ".join(call.headers.values())


def test_an_anthropic_key_is_sent_in_both_headers_to_custom_endpoints() -> None:
    form = FORMATS[Wire.ANTHROPIC]
    official, _ = call_of(a_request(endpoint=Endpoint(api_key="k", wire=Wire.ANTHROPIC)), form)
    elsewhere, _ = call_of(a_request(endpoint=Endpoint("http://127.0.0.1:1", "k", wire=Wire.ANTHROPIC)), form)
    assert "authorization" not in official.headers
    assert (elsewhere.headers["x-api-key"], elsewhere.headers["authorization"]) == ("k", "Bearer k")


def test_the_repr_of_a_call_shows_no_key() -> None:
    call, target = call_of(a_request(endpoint=Endpoint(api_key="very-secret")), FORMATS[Wire.OPENAI])
    assert "very-secret" not in f"{call!r} {target!r}"
