"""The environment of a child process."""

from pathlib import Path

from tests.support.programs import a_run
from tinyagi.providers.cli_program import EnvAllowlist, child_environment

DAEMON = {
    "PATH": "/bin",
    "HOME": "/home/ada",
    "LC_ALL": "C.UTF-8",
    "XDG_CONFIG_HOME": "/home/ada/.config",
    "https_proxy": "http://proxy:3128",
    "TINYAGI_HOME": "/home/ada/.tinyagi",
    "TINYAGI_API_PORT": "3777",
    "TINYAGI_API_TOKEN": "of the API that its skills call",
    "TELEGRAM_BOT_TOKEN": "secret",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "TINYAGI_TOKEN": "secret",
    "OPENAI_API_KEY": "another program's",
    "ACME_KEY": "its own",
    "ACME_SESSION": "of the program that started the daemon",
    "LD_PRELOAD": "evil.so",
}
ACME = EnvAllowlist(prefixes=("ACME_",), excluded=frozenset({"ACME_SESSION"}))


def test_a_child_gets_only_allowed_variables(tmp_path: Path) -> None:
    request = a_run(tmp_path, environment=DAEMON, run_id="home:claim")
    assert child_environment(request, ACME, {}) == {
        "PATH": "/bin",
        "HOME": "/home/ada",
        "LC_ALL": "C.UTF-8",
        "XDG_CONFIG_HOME": "/home/ada/.config",
        "https_proxy": "http://proxy:3128",
        "TINYAGI_HOME": "/home/ada/.tinyagi",
        "TINYAGI_API_PORT": "3777",
        "TINYAGI_API_TOKEN": "of the API that its skills call",
        "ACME_KEY": "its own",
        "TINYAGI_RUN": "home:claim",
        "TINYAGI_AGENT_ID": "coder",
    }


def test_pass_environment_adds_variables(tmp_path: Path) -> None:
    names = ("AWS_SECRET_ACCESS_KEY", "MISSING", "ACME_SESSION")
    environment = child_environment(a_run(tmp_path, environment=DAEMON, pass_environment=names), ACME, {})
    assert environment[names[0]] == DAEMON[names[0]]
    assert "MISSING" not in environment
    assert "ACME_SESSION" not in environment


def test_variables_of_the_run_win_over_own_values_and_the_daemons(tmp_path: Path) -> None:
    request = a_run(tmp_path, environment={**DAEMON, "TINYAGI_RUN": "other:run"}, pass_environment=("TINYAGI_RUN",))
    own = {"ACME_KEY": "set", "TINYAGI_RUN": "forged:run"}
    environment = child_environment(request, ACME, own, without=frozenset({"https_proxy"}))
    assert (environment["ACME_KEY"], environment["TINYAGI_RUN"]) == ("set", request.run_id)
    assert "https_proxy" not in environment
