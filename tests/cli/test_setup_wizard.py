"""`tinyagi setup` at a terminal: its questions, and its reaction to wrong answers."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.conftest import KEY
from tests.cli.test_local_commands import at_terminal
from tests.support.fake_llm import FakeLlm
from tinyagi.settings.home import Home

pytestmark = pytest.mark.usefixtures("machine_without_providers")


async def test_the_wizard_asks_for_provider_key_model_and_team(llm: FakeLlm, tmp_path: Path) -> None:
    llm.models = ("alpha", "beta")
    home = Home(tmp_path / "home")
    answers = {
        "Number or name": "custom",
        "Address of the endpoint": llm.url,
        "Its API format": "openai",
        "Enter for none): ": KEY,
        "Model [alpha]": "2",
        "Add the sample team": "y",
    }

    code, shown = await asyncio.to_thread(at_terminal, home, "setup", answers=answers)

    assert code == 0, shown
    assert KEY not in shown
    settings = json.loads(home.settings_file.read_text())
    assert settings["custom_providers"]["own"]["model"] == "beta"
    assert settings["custom_providers"]["own"]["api_key"] == KEY
    assert list(settings["teams"]) == ["crew"]


def own_endpoint(url: str, **more: str) -> dict[str, str]:
    return {"Number or name": "custom", "Address of the endpoint": url, "Its API format": "openai", **more}


async def test_a_refused_key_is_asked_for_again(llm: FakeLlm, tmp_path: Path) -> None:
    llm.models = ("alpha", "beta")
    home = Home(tmp_path / "home")
    keys = {"Enter for none): ": "sk-wrong-12345", "refused this key. Try another (Enter stops): ": KEY}
    answers = own_endpoint(llm.url, **keys, **{"Model [alpha]": "", "Add the sample team": "n"})

    code, shown = await asyncio.to_thread(at_terminal, home, "setup", answers=answers)

    assert code == 0, shown
    assert "settings.json" not in shown
    assert json.loads(home.settings_file.read_text())["custom_providers"]["own"]["api_key"] == KEY


async def test_a_key_refused_by_the_model_call_is_asked_for_again(llm: FakeLlm, tmp_path: Path) -> None:
    """The list of models is skipped when one is given, and some endpoints list them without a key."""
    home = Home(tmp_path / "home")
    keys = {"Enter for none): ": "sk-wrong-12345", "Try another (Enter stops): ": KEY}
    options = ("setup", "--provider", "custom", "--base-url", llm.url, "--model", "m")

    code, shown = await asyncio.to_thread(at_terminal, home, *options, answers=keys)

    assert code == 0, shown
    assert json.loads(home.settings_file.read_text())["custom_providers"]["own"]["api_key"] == KEY


async def test_an_empty_key_after_a_refusal_stores_nothing(llm: FakeLlm, tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    answers = own_endpoint(llm.url, **{"Enter for none): ": "", "wants a key. Type it (Enter stops): ": ""})

    code, shown = await asyncio.to_thread(at_terminal, home, "setup", answers=answers)

    assert code == 1
    assert "refused the key (401: wrong key)." in shown
    assert "Nothing was changed" in shown
    assert "settings.json" not in shown
    assert "Model" not in shown
    assert "custom_providers" not in json.loads(home.settings_file.read_text())


@pytest.mark.parametrize("wrong", ["ftp://models.example", "http://me:secret@models.example", "http://h:99999", "no"])
async def test_a_wrong_address_is_refused_when_it_is_entered(wrong: str, llm: FakeLlm, tmp_path: Path) -> None:
    llm.key, llm.models = None, ("alpha",)
    home = Home(tmp_path / "home")
    answers = {
        **own_endpoint(wrong),
        "This is not an address; use http(s)://host/path": llm.url,
        "Enter for none): ": "",
        "Model [alpha]": "",
        "Add the sample team": "n",
    }

    code, shown = await asyncio.to_thread(at_terminal, home, "setup", answers=answers)

    assert code == 0, shown
    assert json.loads(home.settings_file.read_text())["custom_providers"]["own"]["base_url"] == llm.url


@pytest.mark.parametrize("stores", [False, True])
async def test_a_host_that_cannot_be_reached_is_reported_once(stores: bool, tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    answers = own_endpoint("http://127.0.0.1:9", **{"Enter for none): ": "", "Store this": "y" if stores else "n"})
    if stores:
        answers |= {"Model: ": "m", "Add the sample team": "n"}

    code, shown = await asyncio.to_thread(at_terminal, home, "setup", answers=answers)

    assert code == (0 if stores else 1), shown
    before_storing = shown.partition("Not working yet")[0]
    assert before_storing.count("cannot be reached") == 1
    assert ("Nothing was changed." in shown) != stores
    assert "[]" not in shown
    assert ("custom_providers" in json.loads(home.settings_file.read_text())) == stores


@pytest.mark.parametrize(
    "answers", [{"Number or name": "\x03"}, {"Number or name": "anthropic", "API key": "\x03"}], ids=["name", "key"]
)
async def test_ctrl_c_at_a_question_exits_as_interrupted(answers: dict[str, str], tmp_path: Path) -> None:
    code, shown = await asyncio.to_thread(at_terminal, Home(tmp_path / "home"), "setup", answers=answers)

    assert code == 130, shown
    assert "Traceback" not in shown


async def test_setup_for_one_agent_asks_for_its_provider(llm: FakeLlm, tmp_path: Path) -> None:
    """The hint for a held agent contains only --agent."""
    llm.models = ("alpha",)
    home = Home(tmp_path / "home")
    home.prepare()
    home.settings_file.write_text('{"models": {"provider": "anthropic"}, "agents": {"boss": {}, "coder": {}}}')
    answers = own_endpoint(llm.url, **{"Enter for none): ": KEY, "Model [alpha]": ""})

    code, shown = await asyncio.to_thread(at_terminal, home, "setup", "--agent", "coder", answers=answers)

    assert code == 0, shown
    settings = json.loads(home.settings_file.read_text())
    assert settings["agents"] == {"boss": {}, "coder": {"provider": "custom:own", "model": "alpha"}}
    assert settings["models"] == {"provider": "anthropic"}


async def test_the_stored_address_is_offered_again(llm: FakeLlm, tmp_path: Path) -> None:
    llm.models = ("alpha",)
    home = Home(tmp_path / "home")
    home.prepare()
    own = {"harness": "api", "base_url": llm.url, "wire": "openai", "model": "alpha", "api_key": KEY}
    stored = {"agents": {"boss": {"provider": "scripted"}}, "custom_providers": {"own": own}}
    home.settings_file.write_text(json.dumps(stored))
    kept = {"Enter keeps the stored one): ": "", "Model [alpha]": "", "Add the sample team": "n"}

    code, shown = await asyncio.to_thread(at_terminal, home, "setup", answers=own_endpoint("", **kept))

    assert code == 0, shown
    assert f"[{llm.url}]" in shown
    assert json.loads(home.settings_file.read_text())["custom_providers"] == {"own": own}
