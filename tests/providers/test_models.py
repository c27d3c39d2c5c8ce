"""Names of models."""

import pytest

from tinyagi.domain.models import ALIASES, DEFAULT_MODELS, resolve_model
from tinyagi.domain.runs import Wire


def test_a_short_name_becomes_the_model_name_of_the_endpoint() -> None:
    assert resolve_model("api", "sonnet", {}) == "claude-sonnet-5-5"
    assert resolve_model("api", "Opus", {}) == "claude-opus-5-5"
    assert resolve_model("openai", "gpt", {}) == "gpt-6.1-sol"


def test_opencode_models_have_a_vendor_prefix() -> None:
    assert resolve_model("opencode", "haiku", {}) == "anthropic/claude-haiku-5-5"
    assert all("/" in model for model in ALIASES["opencode"].values())


def test_the_claude_program_gets_short_names_unchanged() -> None:
    assert resolve_model("anthropic", "opus", {}) == "opus"


@pytest.mark.parametrize("provider", ["anthropic", "openai", "opencode", "api", "custom:mine", "scripted"])
@pytest.mark.parametrize("name", ["my-own-model", "Qwen/Qwen3-8B", "gpt-4.1"])
def test_an_unknown_name_stays_unchanged(provider: str, name: str) -> None:
    assert resolve_model(provider, name, {}) == name


def test_a_custom_provider_has_only_the_owners_aliases() -> None:
    assert resolve_model("custom:mine", "sonnet", {}) == "sonnet"
    assert resolve_model("custom:mine", "sonnet", {"sonnet": "glm"}) == "glm"


def test_the_owners_alias_wins_and_is_final() -> None:
    assert resolve_model("api", "sonnet", {"sonnet": "opus"}) == "opus"


@pytest.mark.parametrize("name", ["", "  "])
def test_an_empty_name_stays_empty(name: str) -> None:
    assert resolve_model("api", name, {}) == ""


def test_every_wire_has_a_known_default_model() -> None:
    assert set(DEFAULT_MODELS) == set(Wire)
    assert set(DEFAULT_MODELS.values()) <= set(ALIASES["api"].values())
