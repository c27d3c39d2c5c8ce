"""Secrets are hidden in every encoding; ordinary texts are unchanged."""

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.daemon.conftest import WriteSettings
from tinyagi.daemon.redaction import Redactor
from tinyagi.domain.ids import AgentId
from tinyagi.settings.home import Home
from tinyagi.settings.secrets import agent_token

SECRET = 'ab"c\\d e/f+g=ü%41'


@pytest.mark.parametrize(
    "written",
    [
        str,
        json.dumps,
        repr,
        lambda text: json.dumps(text, ensure_ascii=False),
        lambda text: json.dumps({"error": json.dumps({"key": text})}),
        lambda text: json.dumps(repr(text)),
        quote,
        lambda text: quote(text, safe=""),
        lambda text: quote(text, safe="").lower(),
        lambda text: f"x{text}x",
    ],
    ids=["plain", "json", "repr", "json-unicode", "json-twice", "repr-in-json", "path", "query", "lower", "within"],
)
def test_a_secret_is_hidden_in_every_encoding(
    home: Home, write_settings: WriteSettings, written: Callable[[str], str]
) -> None:
    secret = SECRET.lower()
    write_settings(models={"anthropic": {"api_key": secret}})

    text = Redactor(home, {})(f"before {written(secret)} after")

    assert written(secret).strip("\"'") not in text
    assert "••••" in text
    assert text.startswith("before ")
    assert text.endswith(" after")


@given(secret=st.text(st.characters(codec="utf-8"), min_size=6, max_size=60), around=st.text(max_size=20))
def test_a_secret_of_the_environment_never_reaches_json(secret: str, around: str) -> None:
    redact = Redactor(Home(Path("/nowhere")), {"MY_TOKEN": secret})

    line = json.dumps({"text": redact(f"{around}{secret}{around}")}, ensure_ascii=False)

    assert secret not in json.loads(line)["text"] or secret in f"{around}••••{around}"


def test_a_new_key_is_hidden_and_the_old_one_stays_hidden(home: Home, write_settings: WriteSettings) -> None:
    write_settings(models={"openai": {"api_key": "first-key-of-all"}})
    redact = Redactor(home, {})
    assert redact("first-key-of-all") == "••••"

    write_settings(models={"openai": {"api_key": "second-key-of-all"}})

    assert redact("first-key-of-all second-key-of-all") == "•••• ••••"


def test_unreadable_settings_keep_the_known_secrets_hidden(home: Home, write_settings: WriteSettings) -> None:
    write_settings(server={"token": "a-token-that-is-long"})
    redact = Redactor(home, {})
    redact("")
    home.settings_file.write_text('{"server": {')

    assert redact("a-token-that-is-long") == "••••"
    home.settings_file.unlink()
    assert redact("a-token-that-is-long") == "••••"


def test_the_beginning_of_a_secret_at_a_cut_is_hidden(home: Home) -> None:
    redact = Redactor(home, {"BOT_TOKEN": "123456:abcdefghijkl"})

    assert redact("it said 123456:abcd…") == "it said ••••…"
    assert redact("it said 12345…") == "it said 12345…"
    assert redact("123456:a and 123456:ab… or 123456…") == "123456:a and ••••… or ••••…"


def test_overlapping_beginnings_are_hidden(home: Home) -> None:
    redact = Redactor(home, {"MY_TOKEN": "aaaaaaab"})

    assert redact("aaaaaaaaaaa…") == "aaaa••••…"


def test_the_longer_of_two_secrets_with_a_common_prefix_is_hidden_whole(home: Home) -> None:
    redact = Redactor(home, {"A_TOKEN": "abcdefgh", "B_TOKEN": "abcdefghijkl"})

    assert redact("abcdefghijkl abcdefgh") == "•••• ••••"


def test_a_multi_line_secret_is_hidden_in_every_form(home: Home) -> None:
    key = "-----BEGIN KEY-----\nAAAABBBBCCCC\nDDDDEEEEFFFF\n-----END KEY-----\n"
    redact = Redactor(home, {"DEPLOY_PRIVATE_KEY": key})

    for text in (key, " ".join(key.split()), repr(key), "line 2 is AAAABBBBCCCC"):
        assert "AAAABBBBCCCC" not in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer SECRETSECRET1",
        "{'authorization': 'Basic SECRETSECRET1'}",
        '"Proxy-Authorization": "SECRETSECRET1"',
        "sent bearer SECRETSECRET1.x",
        "GET /x?access_token=SECRETSECRET1&y=2",
        "GET /x?api_key=SECRETSECRET1",
        "https://me:SECRETSECRET1@example.org/",
        "the key sk-ant-SECRETSECRET1SECRET",
        "ghp_SECRETSECRET1SECRETSECRET",
    ],
)
def test_texts_that_look_like_a_secret_are_hidden(home: Home, text: str) -> None:
    assert "SECRETSECRET1" not in Redactor(home, {})(text)


def test_a_printed_agent_token_is_hidden(home: Home) -> None:
    token = agent_token("t0ken-of-the-server-0123456789", AgentId("coder"))

    assert token.rpartition(".")[2] not in Redactor(home, {})(f"TINYAGI_API_TOKEN={token} was seen")


@pytest.mark.parametrize(
    "text",
    [
        "run 01J of @coder is answered",
        "the bearer of bad news",
        "authorization failed",
        "GET /api/agents?limit=100",
        "https://example.org:8080/path",
        "a task-force-of-many-people-at-work",
    ],
)
def test_ordinary_texts_are_unchanged(home: Home, text: str) -> None:
    assert Redactor(home, {"PATH": "/usr/bin", "SHORT_TOKEN": "abc"})(text) == text
