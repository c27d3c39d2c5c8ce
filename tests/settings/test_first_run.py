"""The first run: the chosen provider, the written settings and the printed lines."""

import pytest

from tests.settings.conftest import stored, write
from tinyagi.domain.ids import AgentId
from tinyagi.domain.runs import Wire
from tinyagi.settings.agent_setup import agent_setup
from tinyagi.settings.effective import heartbeat_of
from tinyagi.settings.errors import InvalidSettings
from tinyagi.settings.first_run import detect_provider, ensure_settings, first_settings
from tinyagi.settings.home import Home
from tinyagi.settings.parse import parse_settings
from tinyagi.settings.settings_file import SettingsFile

ANTHROPIC = {"ANTHROPIC_API_KEY": "a"}
OPENAI = {"OPENAI_API_KEY": "k"}


class Installed:
    """Programs that can be found on a machine."""

    def __init__(self, *programs: str) -> None:
        self._programs = programs

    def __call__(self, program: str) -> str | None:
        return f"/usr/bin/{program}" if program in self._programs else None


@pytest.mark.parametrize(
    ("environment", "programs", "provider", "reason"),
    [
        ({}, ("claude", "codex", "opencode"), "anthropic", "the program claude is installed"),
        (OPENAI, ("claude",), "anthropic", "claude"),
        ({}, ("codex", "opencode"), "openai", "the program codex is installed"),
        (ANTHROPIC, ("codex",), "openai", "codex"),
        ({}, ("opencode",), "opencode", "the program opencode is installed"),
        (ANTHROPIC | OPENAI, (), "api", "ANTHROPIC_API_KEY is set and no agent program is installed"),
        (OPENAI, (), "api", "OPENAI_API_KEY is set"),
        ({"OPENAI_API_KEY": ""}, (), "scripted", "none of claude, codex, opencode is installed"),
    ],
)
def test_the_best_available_provider_is_chosen(
    environment: dict[str, str], programs: tuple[str, ...], provider: str, reason: str
) -> None:
    choice = detect_provider(environment, Installed(*programs))

    assert choice.provider == provider
    assert reason in choice.reason


@pytest.mark.parametrize("environment", [{}, ANTHROPIC, OPENAI], ids=["nothing", "anthropic", "openai"])
@pytest.mark.parametrize("program", ["", "claude", "codex", "opencode"])
def test_first_settings_are_valid_and_name_the_chosen_provider(environment: dict[str, str], program: str) -> None:
    choice = detect_provider(environment, Installed(program))

    settings = parse_settings(first_settings(choice))

    assert settings.models.provider == settings.agents["tinyagi"].provider == choice.provider
    assert list(settings.agents) == ["tinyagi"]


@pytest.mark.parametrize(
    ("environment", "wire", "beginning"), [(ANTHROPIC, Wire.ANTHROPIC, "claude"), (OPENAI, Wire.OPENAI, "gpt")]
)
def test_a_key_alone_chooses_its_endpoint_for_all_agents(
    environment: dict[str, str], wire: Wire, beginning: str, home: Home
) -> None:
    raw = first_settings(detect_provider(environment, Installed()))
    agents = raw["agents"]
    assert isinstance(agents, dict)
    agents["later"] = {}

    for agent in ("tinyagi", "later"):
        setup = agent_setup(parse_settings(raw), AgentId(agent), home)
        assert setup.endpoint.wire is wire
        assert setup.endpoint.api_key is None, "a key of the environment stays there"
        assert setup.model.startswith(beginning)


def test_the_first_run_writes_settings_and_prints_the_reason(home: Home) -> None:
    lines = ensure_settings(home, {}, which=Installed("codex"))

    assert stored(home)["models"] == {"provider": "openai"}
    assert lines == (
        "First run: @tinyagi uses the provider openai, because the program codex is installed.",
        f"The settings are in {home.settings_file}.",
    )
    assert home.settings_file.stat().st_mode & 0o777 == 0o600


def test_the_first_run_creates_the_home(home: Home) -> None:
    fresh = Home(home.path / "fresh")

    ensure_settings(fresh, {}, which=Installed())

    assert fresh.is_private
    assert SettingsFile(fresh).read() is not None


def test_a_key_of_the_environment_is_not_written(home: Home) -> None:
    ensure_settings(home, {"ANTHROPIC_API_KEY": "sk-hidden"}, which=Installed())

    assert "hidden" not in home.settings_file.read_text()


def test_existing_settings_are_not_changed(home: Home) -> None:
    write(home, {"agents": {"coder": {}}})
    before = home.settings_file.read_bytes()
    home.settings_file.chmod(0o644)

    assert ensure_settings(home, {}, which=Installed("codex")) == ()

    assert home.settings_file.read_bytes() == before
    assert home.settings_file.stat().st_mode & 0o777 == 0o600


def test_a_broken_file_is_refused_and_unchanged(home: Home) -> None:
    home.settings_file.write_text("{")

    with pytest.raises(InvalidSettings):
        ensure_settings(home, {}, which=Installed())

    assert home.settings_file.read_text() == "{"


def test_scripted_answers_are_announced_at_every_start(home: Home) -> None:
    first = ensure_settings(home, {}, which=Installed())
    second = ensure_settings(home, {}, which=Installed())

    assert "ANTHROPIC_API_KEY" in first[0]
    assert first[-1:] == second == ("Scripted answers only: @tinyagi. Connect a model: tinyagi setup",)


def test_a_home_readable_by_others_is_reported(home: Home) -> None:
    write(home, {})
    home.path.chmod(0o755)

    (line,) = ensure_settings(home, {}, which=Installed())

    assert f"chmod 700 '{home.path}'" in line


def test_the_environment_and_programs_of_this_process_are_the_default(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(home.path))
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    program = home.path / "opencode"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)

    ensure_settings(home)

    assert stored(home)["models"] == {"provider": "opencode"}


def test_the_agent_of_a_new_home_has_no_heartbeat() -> None:
    settings = parse_settings(first_settings(detect_provider(ANTHROPIC, Installed("claude"))))

    assert heartbeat_of(settings, AgentId("tinyagi")) is None
