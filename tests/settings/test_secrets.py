"""Secrets are masked, and masked values can be sent back without changing the secrets."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagi.settings.errors import InvalidSettings
from tinyagi.settings.json_tree import changed_names, merged
from tinyagi.settings.secrets import MASK, is_secret, masked, merge, values

KEY = "sk-ant-0123456789abcdef"

names = st.sampled_from(
    ["api_key", "bot_token", "password", "apiKey", "name", "model", "agents", "daily_tokens", "x"]
) | st.text(max_size=5)
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30) | st.just(KEY)
json_values = st.recursive(
    leaves, lambda inside: st.lists(inside, max_size=4) | st.dictionaries(names, inside, max_size=4), max_leaves=30
)
json_objects = st.dictionaries(names, json_values, max_size=6)


@pytest.mark.parametrize(
    "name",
    [
        "api_key", "oauth_token", "bot_token", "token", "secret", "password", "apiKey", "X-Api-Key", "app_secret",
        "AWS_SECRET_ACCESS_KEY", "Authorization", "verify-token", "private_key",
    ],
)  # fmt: skip
def test_secret_names_are_recognised(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["model", "daily_tokens", "history_tokens", "name", "key", "tokens", "secretary", ""])
def test_other_names_are_not_secret(name: str) -> None:
    assert not is_secret(name)


def test_secrets_are_masked_at_any_depth() -> None:
    raw: dict[str, object] = {
        "models": {"anthropic": {"model": "opus", "api_key": KEY}},
        "unknown": {"list": [{"token": "short"}, [{"password": 1234}]], "secret": [KEY, "tiny"]},
        "limits": {"daily_tokens": 5},
    }

    assert masked(raw) == {
        "models": {"anthropic": {"model": "opus", "api_key": f"{MASK}cdef"}},
        "unknown": {"list": [{"token": MASK}, [{"password": MASK}]], "secret": [f"{MASK}cdef", MASK]},
        "limits": {"daily_tokens": 5},
    }


def test_empty_secrets_are_not_masked() -> None:
    raw: dict[str, object] = {"api_key": "", "token": None, "password": False}

    assert masked(raw) == raw


def test_an_agent_named_secret_is_not_masked() -> None:
    raw: dict[str, object] = {"agents": {"secret": {"name": "Agent", "model": "opus"}}}

    assert masked(raw) == raw


@given(json_objects)
def test_masked_settings_contain_no_long_secret(raw: dict[str, object]) -> None:
    raw["models"] = {"openai": {"api_key": KEY}}

    assert KEY in values(raw)
    assert KEY not in values(masked(raw))


@given(json_objects)
def test_merging_masked_settings_changes_nothing(raw: dict[str, object]) -> None:
    assert json.dumps(merge(raw, masked(raw))) == json.dumps(raw)


@given(json_objects, json_objects)
def test_merging_a_patch_is_idempotent(stored: dict[str, object], patch: dict[str, object]) -> None:
    once = merged(stored, patch)

    assert merged(once, patch) == once


@given(json_objects)
def test_an_empty_patch_changes_nothing(stored: dict[str, object]) -> None:
    assert merged(stored, {}) == stored


@given(json_objects, json_objects)
def test_a_merge_does_not_modify_its_arguments(stored: dict[str, object], patch: dict[str, object]) -> None:
    before = json.dumps([stored, patch])

    merged(stored, patch)

    assert json.dumps([stored, patch]) == before


@pytest.mark.parametrize(
    ("stored", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_patches_follow_json_merge_patch(stored: dict[str, object], patch: dict[str, object], result: object) -> None:
    assert merged(stored, patch) == result


def test_a_new_secret_replaces_the_stored_one() -> None:
    stored: dict[str, object] = {"openai": {"api_key": KEY}}

    assert merge(stored, {"openai": {"api_key": "sk-new-one"}}) == {"openai": {"api_key": "sk-new-one"}}
    assert merge(stored, {"openai": {"api_key": ""}}) == {"openai": {"api_key": ""}}
    assert merge(stored, {"openai": {"api_key": None}}) == {"openai": {}}


@pytest.mark.parametrize("sent", [MASK, f"{MASK}xxxx"])
@pytest.mark.parametrize("stored", [{}, {"openai": {"api_key": KEY}}, {"openai": "odd"}])
def test_a_mask_without_a_matching_secret_is_refused(stored: dict[str, object], sent: str) -> None:
    with pytest.raises(InvalidSettings, match=r"openai\.api_key: this is a masked value"):
        merge(stored, {"openai": {"api_key": sent}})


def test_masked_list_items_keep_their_secrets_when_the_list_changes() -> None:
    first, second = {"name": "one", "token": KEY}, {"name": "two", "token": "sk-ant-9876543210fedcba"}
    shown = [masked(first), masked(second)]
    stored: dict[str, object] = {"hooks": [first, second]}

    assert merge(stored, {"hooks": [shown[1]]}) == {"hooks": [second]}
    assert merge(stored, {"hooks": list(reversed(shown))}) == {"hooks": [second, first]}
    renamed = {**shown[0], "name": "uno"}
    assert merge(stored, {"hooks": [renamed, shown[1]]}) == {"hooks": [{**first, "name": "uno"}, second]}


def test_ambiguous_masks_in_a_list_are_refused() -> None:
    stored: dict[str, object] = {"secret": ["aaaa", "bbbb"]}

    assert merge(stored, {"secret": [MASK, MASK]}) == stored
    with pytest.raises(InvalidSettings, match=r"secret\[0\]"):
        merge(stored, {"secret": [MASK]})


def test_secrets_for_the_log_exclude_short_values() -> None:
    raw: dict[str, object] = {
        "models": {"openai": {"api_key": KEY, "model": "gpt"}},
        "hooks": [{"token": "abcdefgh"}, {"token": "abc"}],
        "password": 12345678,
        "secret": True,
    }

    assert list(values(raw, {"GITHUB_TOKEN": "gh-0123", "PATH": "/usr/bin"})) == [
        KEY,
        "abcdefgh",
        "12345678",
        "gh-0123",
    ]


def test_changed_names_are_dotted_paths() -> None:
    before = {"port": 1, "tls": {"cert": "a", "key": "b"}, "same": [1]}
    after = {"port": 2, "tls": {"cert": "a"}, "same": [1], "host": "x"}

    assert changed_names(before, after, "server") == ("server.port", "server.tls.key", "server.host")
    assert changed_names(before, before, "server") == ()
