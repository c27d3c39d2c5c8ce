"""Old settings in a new home: translated, reduced to valid ones, and never replacing existing ones."""

import json
from pathlib import Path
from typing import Final, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic.fields import FieldInfo

from tests.legacy.conftest import imported, part, planned, reasons
from tests.support.old_home import KEY, SETTINGS, TOKEN, write_json
from tinyagi.legacy.old_home import OldHome
from tinyagi.legacy.old_settings import CompatibleSettings, fill_missing, translated
from tinyagi.settings.errors import InvalidSettings
from tinyagi.settings.first_run import ensure_settings
from tinyagi.settings.home import Home
from tinyagi.settings.model import Section, Settings
from tinyagi.settings.parse import parse_settings
from tinyagi.settings.settings_file import SettingsFile

_VALUES: Final[st.SearchStrategy[object]] = st.sampled_from(
    [None, True, -1, 5, 0.5, "", "x", "a", "custom:c", "api", "http://h", [], ["a"], ["a", 5], [["a"]], {}, {"a": {}}]
)
_IDS: Final = st.sampled_from(["a", "b", "c", "Bad Id"])


def _section(section: type[Section]) -> st.SearchStrategy[object]:
    """A section whose values are right or wrong by chance."""
    fields = {name: _VALUES | _inner(field) for name, field in section.model_fields.items()}
    return st.fixed_dictionaries({}, optional=fields)


def _inner(field: FieldInfo) -> st.SearchStrategy[object]:
    for candidate in (field.annotation, *get_args(field.annotation)):
        if isinstance(candidate, type) and issubclass(candidate, Section):
            inner = _section(candidate)
            return st.dictionaries(_IDS, inner, max_size=3) if get_args(field.annotation) else inner
    return _VALUES


async def settings_after(old: OldHome, home: Home) -> Settings:
    await imported(old, home)
    loaded = SettingsFile(home).read()
    assert loaded is not None
    return loaded.settings


async def test_a_new_home_gets_all_valid_settings(old: OldHome, home: Home) -> None:
    settings = await settings_after(old, home)

    assert list(settings.agents) == ["coder", "tester", "painter"]
    assert settings.agents["coder"].heartbeat.interval == 900
    assert not settings.agents["coder"].heartbeat.enabled
    assert settings.agents["painter"].provider is None
    assert settings.teams["dev"].agents == ("coder", "tester")
    assert settings.monitoring.heartbeat_interval == 1800
    assert settings.channels.enabled == ("telegram",)
    assert settings.channels.telegram.bot_token == TOKEN
    assert settings.channels.defaults == {"telegram:42": "coder"}
    assert settings.models.anthropic.api_key == KEY
    assert settings.workspace.path == "/srv/old-workspace"


async def test_unknown_settings_are_kept(old: OldHome, home: Home) -> None:
    await imported(old, home)

    raw = json.loads(home.settings_file.read_bytes())
    assert raw["house_rules"] == {"tea": ["at", "five"]}
    assert raw["pairing"] == {"enabled": True}
    assert raw["agents"]["painter"] == {"name": "Painter", "mood": "blue"}


async def test_existing_settings_win_and_conflicts_are_named_without_values(old: OldHome, home: Home) -> None:
    home.prepare()
    mine = {
        "workspace": {"path": "/srv/mine"},
        "channels": {"enabled": [], "telegram": {"bot_token": "mine"}},
        "models": {"provider": "openai"},
        "agents": {"coder": {"name": "My coder", "provider": "scripted"}},
    }
    SettingsFile(home).create(mine)

    report = await imported(old, home)

    conflicts = {"workspace.path", "channels.telegram.bot_token", "models.provider", "agents.coder"}
    assert set(report.plan.conflicts) == conflicts
    assert TOKEN not in repr(report)
    assert KEY not in repr(report)
    raw = json.loads(home.settings_file.read_bytes())
    assert raw["agents"]["coder"] == mine["agents"]["coder"]  # type: ignore[index]
    assert raw["channels"]["telegram"] == {"bot_token": "mine"}
    assert raw["channels"]["enabled"] == ["telegram"]
    assert raw["models"] == {"provider": "openai", "anthropic": {"model": "opus", "api_key": KEY}}
    assert raw["workspace"] == {"path": "/srv/mine", "name": "old-workspace"}
    # Workspaces stay where they are.
    assert raw["agents"]["tester"]["working_directory"] == "/srv/old-workspace/tester"


async def test_an_agent_and_a_team_never_share_an_id(old: OldHome, home: Home) -> None:
    home.prepare()
    SettingsFile(home).create(
        {"agents": {"dev": {}, "a": {}}, "teams": {"coder": {"agents": ["a"], "leader_agent": "a"}}}
    )

    report = await imported(old, home)

    assert "agents.coder" in reasons(report.plan, "agents")
    assert reasons(report.plan, "teams")["teams.dev"] == "the new home has this id among its agents"
    raw = json.loads(home.settings_file.read_bytes())
    assert set(raw["agents"]) == {"dev", "a", "tester", "painter"}
    assert set(raw["teams"]) == {"coder"}


async def test_settings_of_the_original_are_fixed_in_place(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = Home(tmp_path_factory.mktemp("home"))
    write_json(home.settings_file, SETTINGS)
    before = home.settings_file.read_bytes()
    with pytest.raises(InvalidSettings):
        ensure_settings(home, {}, which=lambda _: None)

    report = await imported(OldHome(home.path), home)

    assert report.backup is not None
    assert (report.backup / "old/settings.json").read_bytes() == before
    ensure_settings(home, {}, which=lambda _: None)
    assert list(json.loads(home.settings_file.read_bytes())) == list(SETTINGS)


async def test_valid_settings_in_place_are_not_rewritten(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = Home(tmp_path_factory.mktemp("home"))
    home.settings_file.write_text('{"agents": {"coder": {"name": "Coder"}},\n "note": null}')
    write_json(home.path / "pairing.json", {"approved": [{"channel": "telegram", "senderId": "1"}]})

    report = await imported(OldHome(home.path), home)

    assert part(report.plan, "pairings").taken == 1
    assert home.settings_file.read_text() == '{"agents": {"coder": {"name": "Coder"}},\n "note": null}'


async def test_broken_settings_of_the_new_home_stop_the_import(old: OldHome, home: Home) -> None:
    home.prepare()
    home.settings_file.write_text("{")

    with pytest.raises(InvalidSettings, match="line 1, column 2"):
        await planned(old, home)

    assert home.settings_file.read_text() == "{"


class TestTranslation:
    def test_tinyclaw_without_agents_gets_its_default_agent(self) -> None:
        raw = translated({"models": {"anthropic": {"model": "opus"}}}, is_tinyclaw=True)

        assert raw["agents"] == {"default": {"name": "Default"}}
        assert raw["default_agent"] == "default"
        assert raw["models"] == {"anthropic": {"model": "opus"}, "provider": "anthropic"}
        parse_settings(raw)

    @pytest.mark.parametrize("is_there", [False, True])
    def test_an_existing_tinyclaw_workspace_is_kept(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        if is_there:
            (tmp_path / "tinyclaw-workspace").mkdir()

        raw = translated({"agents": {"coder": {}}}, is_tinyclaw=True)

        assert raw.get("workspace") == ({"path": "~/tinyclaw-workspace"} if is_there else None)

    def test_the_default_agent_stays_the_same(self) -> None:
        raw = translated({"agents": {"coder": {}, "default": {}}}, is_tinyclaw=False)

        assert raw["default_agent"] == "default"

    def test_default_agents_of_chats_are_read_from_both_places(self) -> None:
        raw = translated(
            {"channel_defaults": {"a": "x", "b": "y"}, "channels": {"defaults": {"b": {"agentId": "z"}, "c": {}}}},
            is_tinyclaw=False,
        )

        assert raw == {"channels": {"defaults": {"a": "x", "b": "z"}}}

    def test_an_api_key_wins_over_an_older_auth_token(self) -> None:
        raw = translated({"models": {"openai": {"auth_token": "old", "api_key": "new"}}}, is_tinyclaw=False)

        assert raw["models"] == {"openai": {"api_key": "new"}, "provider": "openai"}

    def test_the_given_settings_are_not_modified(self) -> None:
        before = json.dumps(SETTINGS)

        CompatibleSettings(translated(SETTINGS, is_tinyclaw=True))

        assert json.dumps(SETTINGS) == before


class TestFitting:
    @pytest.mark.parametrize(
        ("raw", "kept", "left"),
        [
            ({"monitoring": {"heartbeat_interval": "often", "x": 1}}, {"monitoring": {"x": 1}}, "monitoring"),
            ({"monitoring": 5, "x": 1}, {"x": 1}, "monitoring"),
            ({"agents": ["coder"]}, {}, "agents"),
            ({"agents": {"coder": "x"}}, {"agents": {}}, "agents.coder"),
            ({"agents": {"a": {"model": 5, "name": "A"}}}, {"agents": {"a": {"name": "A"}}}, "agents.a.model"),
            ({"models": {"provider": "google"}}, {"models": {}}, "models.provider"),
            ({"models": {"openai": {"model": 7, "x": 1}}}, {"models": {"openai": {"x": 1}}}, "models.openai.model"),
            ({"custom_providers": {"c": {"harness": "x"}}}, {"custom_providers": {}}, "custom_providers.c"),
            ({"default_agent": "gone"}, {}, "default_agent"),
            ({"default_agent": ["a"]}, {}, "default_agent"),
            ({"monitoring": {"heartbeat_interval": {"every": "hour"}}}, {"monitoring": {}}, "monitoring.heartbeat_"),
            ({"channels": {"enabled": ["telegram", 5]}}, {"channels": {}}, "channels.enabled"),
            ({"limits": {"agents": {"a": {"daily_cost": -1}, "b": {}}}}, {"limits": {"agents": {"b": {}}}}, "limits.a"),
            (
                {"agents": {"Bad Id": {"provider": "google", "model": 5}, "a": {}}},
                {"agents": {"a": {}}},
                "agents.Bad Id",
            ),
            ({"agents": {"a": {"heartbeat": {"interval": -1}}}}, {"agents": {"a": {}}}, "agents.a.heartbeat"),
            ({"teams": {"dev": {"agents": [["a"]], "leader_agent": "a"}}}, {"teams": {}}, "teams.dev"),
            (
                {"agents": {"a": {}}, "teams": {"dev": {"agents": ["a", ["a"]], "leader_agent": "a"}}},
                {"agents": {"a": {}}, "teams": {"dev": {"agents": ["a"], "leader_agent": "a"}}},
                "teams.dev.agents",
            ),
            (
                {"agents": {"a": {}}, "teams": {"dev": {"agents": ["a"], "leader_agent": "a", "chatroom": "loud"}}},
                {"agents": {"a": {}}, "teams": {}},
                "teams.dev",
            ),
            (
                {"agents": {"a": {}}, "teams": {"a": {"agents": ["a"], "leader_agent": "a"}}},
                {"agents": {"a": {}}, "teams": {}},
                "teams.a",
            ),
        ],
    )
    def test_only_invalid_settings_are_skipped(
        self, raw: dict[str, object], kept: dict[str, object], left: str
    ) -> None:
        fitting = CompatibleSettings(raw)

        assert fitting.raw == kept
        (one,) = fitting.skipped
        assert one.name.startswith(left)
        parse_settings(fitting.raw)

    def test_every_reason_is_a_sentence_about_the_value_that_is_left(self) -> None:
        fitting = CompatibleSettings(
            {
                "custom_providers": {"c": {"harness": "x", "base_url": "ftp://x"}, "d": {"harness": []}, "E": {}},
                "agents": {
                    "a": {"provider": "custom:c", "model": "m", "batching": "some"},
                    "b": {"provider": 5, "model": 5},
                    "c": None,
                },
                "teams": {"dev": {"agents": ["b", "gone"], "leader_agent": "gone"}, "ops": {"agents": ["gone"]}},
                "models": {"provider": "custom:d", "openai": {"api_key": 12345678}},
                "server": {"port": "http"},
                "default_agent": "c",
            }
        )

        harness = "is not known; use 'claude', 'codex' or 'api'"
        providers = "anthropic, openai, opencode, api, scripted"
        assert {one.name: one.reason for one in fitting.skipped} == {
            "custom_providers.E": "this is not an id; use up to 64 lowercase letters, digits, - and _, "
            "a letter or digit first",
            "custom_providers.c": f"'x' {harness}; this is not an address; use http(s)://host/path without a password",
            "custom_providers.d": f"this list {harness}; is missing",
            "agents.c": "this is not an object",
            "agents.a.provider": f"'custom:c' is not in custom_providers; add it there or use {providers}",
            "agents.a.model": "it belongs to the provider that is left out",
            "agents.a.batching": "'some' is not known; use 'thread', 'all' or 'none'",
            "agents.b.provider": "5 is not text: put it in quotation marks",
            "agents.b.model": "5 is not text: put it in quotation marks",
            "teams.dev.agents": "there is no agent 'gone'",
            "teams.dev.leader_agent": "it is not a member; @b leads instead",
            "teams.ops": "none of its members is an agent",
            "models.provider": f"'custom:d' is not in custom_providers; add it there or use {providers}",
            "models.openai.api_key": "this is not text: put it in quotation marks",
            "server.port": "'http' is not a whole number",
            "default_agent": "there is no agent 'c'; use one of a, b",
        }
        assert len(fitting.skipped) == 16
        parse_settings(fitting.raw)

    @given(_section(Settings))
    def test_what_is_left_over_is_always_valid_and_only_what_is_named_is_gone(self, raw: dict[str, object]) -> None:
        fitting = CompatibleSettings(raw)

        parse_settings(fitting.raw)
        again = CompatibleSettings(fitting.raw)
        assert (again.raw, again.skipped) == (fitting.raw, [])
        assert (fitting.raw == raw) is not bool(fitting.skipped)

    def test_a_custom_provider_and_its_agent_stay_together(self) -> None:
        custom = {"harness": "claude", "base_url": "http://localhost:1", "api_key": "k"}
        raw = {"custom_providers": {"c": custom}, "agents": {"a": {"provider": "custom:c", "model": "m"}}}

        fitting = CompatibleSettings({**raw, "models": {"provider": "custom:c"}})

        assert fitting.raw == {**raw, "models": {"provider": "custom:c"}}
        assert not fitting.skipped


def test_fill_missing_adds_whole_named_entries() -> None:
    result, taken, conflicts = fill_missing(
        {"agents": {"a": {"name": "A"}}, "x": "", "y": 1},
        {"agents": {"a": {"model": "m"}, "b": {}, "c": {"n": 1}}, "x": 2, "y": 1},
    )

    assert result == {"agents": {"a": {"name": "A"}, "b": {}, "c": {"n": 1}}, "x": 2, "y": 1}
    assert taken == ["agents.b", "agents.c", "x"]
    assert conflicts == ["agents.a"]
