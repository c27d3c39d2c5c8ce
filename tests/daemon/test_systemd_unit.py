"""The systemd unit: its command, its stop timeout, and the quoting of odd paths."""

import sys
from pathlib import Path

from tinyagi.daemon.systemd_unit import next_steps, unit_path, unit_text
from tinyagi.settings.home import Home
from tinyagi.settings.parse import parse_settings

SETTINGS = parse_settings({"queue": {"shutdown_grace_seconds": 60, "kill_grace_seconds": 5}})


def test_the_unit_runs_this_python_on_this_home_with_a_stop_timeout() -> None:
    text = unit_text(Home(Path("/srv/company")), SETTINGS, {"PATH": "/opt/bin:/bin"}, for_system=False)

    assert f'ExecStart="{sys.executable}" "-m" "tinyagi" "run" "--home" "/srv/company"' in text
    assert "TimeoutStopSec=80\n" in text
    assert "KillMode=mixed\n" in text
    assert "Restart=on-failure\n" in text
    assert 'Environment="PATH=/opt/bin:/bin"' in text
    assert "WantedBy=default.target" in text
    assert "User=" not in text


def test_a_system_unit_names_the_user_and_is_sandboxed() -> None:
    text = unit_text(Home(Path("/srv/company")), SETTINGS, {}, for_system=True)

    assert "User=" in text
    assert "ProtectSystem=full" in text
    assert "WantedBy=multi-user.target" in text
    # Agent programs compile at run time: they would not start.
    assert "MemoryDenyWriteExecute" not in text


def test_odd_paths_are_quoted() -> None:
    text = unit_text(Home(Path('/srv/50% "a" $HOME \\x')), SETTINGS, {}, for_system=False)

    assert r'"/srv/50%% \"a\" $$HOME \\x"' in text
    assert 'WorkingDirectory=-/srv/50%% "a" $HOME \\x' in text


def test_the_unit_path_is_in_the_search_path_of_systemd() -> None:
    assert unit_path({"XDG_CONFIG_HOME": "/cfg"}, for_system=False) == Path("/cfg/systemd/user/tinyagi.service")
    assert unit_path({}, for_system=True) == Path("/etc/systemd/system/tinyagi.service")
    assert any("enable --now" in line for line in next_steps(Path("/x"), for_system=True))
