"""The `tinyagi` command and its subcommands. Command files import heavy modules inside functions: `--help` is fast."""

from typing import Annotated

import typer

from tinyagi.cli import agents, backup, channels, pairing, pipeline, plugins, providers, queue, schedules, teams
from tinyagi.cli.board import project_app as project_commands
from tinyagi.cli.board import task_app as task_commands
from tinyagi.cli.context import Installation
from tinyagi.cli.daemon import install_service, office, restart, run, start, status, stop
from tinyagi.cli.demo import bench, demo
from tinyagi.cli.doctor import doctor
from tinyagi.cli.error_boundary import ErrorBoundary, replace_unprintable
from tinyagi.cli.logs import logs
from tinyagi.cli.migrate import migrate
from tinyagi.cli.options import HomeOption, Json, examples
from tinyagi.cli.pipeline_data import FORGET_EXAMPLES, REPLAY_EXAMPLES, REPORT_EXAMPLES, forget, replay, report
from tinyagi.cli.pipeline_query import QUERY_EXAMPLES, SHELL_EXAMPLES, query, shell
from tinyagi.cli.providers import CHECK_EXAMPLES, check_providers, model_command
from tinyagi.cli.send import send
from tinyagi.cli.settings import app as settings_commands
from tinyagi.cli.setup import setup
from tinyagi.cli.teams import chatroom
from tinyagi.cli.token import token
from tinyagi.cli.trace import RECALL_EXAMPLES, recall, trace

COMPANY = "The company"
WORK = "Work"
DAEMON = "The daemon"
MORE = "More"

app = typer.Typer(
    cls=ErrorBoundary,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples("tinyagi", 'tinyagi send "@coder hello" --wait', "tinyagi demo"),
)


def _print_version(is_set: bool) -> None:
    if is_set:
        version()
        raise typer.Exit


@app.callback(invoke_without_command=True)
def tinyagi(
    ctx: typer.Context,
    home: HomeOption = None,
    url: Annotated[
        str | None, typer.Option(help="The daemon's address; by default, that of the home's daemon.")
    ] = None,
    _: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """Run a company with teams of AI agents, coordinated through one durable queue.

    Without a command: set up what is missing, start the daemon if it is not running, and show its status.
    """
    ctx.obj = Installation(home, url)
    if ctx.invoked_subcommand is None:
        if url is None:
            start(ctx)
        status(ctx)


def version(as_json: Json = False) -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    from tinyagi.cli.terminal import print_json, say

    if as_json:
        print_json({"version": installed("tinyagi")})
    else:
        say(installed("tinyagi"))


_SEND = examples('tinyagi send "@coder fix the login" --wait', "git diff | tinyagi send - --agent reviewer -w")
_TRACE = examples("tinyagi trace", "tinyagi trace cli_k3j9x0ab", "tinyagi trace last --full")
app.command(rich_help_panel=WORK, epilog=_SEND)(send)
app.command(rich_help_panel=WORK, epilog=examples("tinyagi chatroom dev -f", 'tinyagi chatroom dev "hello"'))(chatroom)
app.command(rich_help_panel=WORK, epilog=_TRACE)(trace)
app.command(rich_help_panel=WORK, epilog=RECALL_EXAMPLES)(recall)
app.add_typer(queue.app, name="queue", rich_help_panel=WORK)
app.add_typer(task_commands, name="task", rich_help_panel=WORK)
app.add_typer(project_commands, name="project", rich_help_panel=WORK)
app.add_typer(schedules.app, name="schedule", rich_help_panel=WORK)

pipeline.app.command("report", epilog=REPORT_EXAMPLES)(report)
pipeline.app.command("query", epilog=QUERY_EXAMPLES)(query)
pipeline.app.command("shell", epilog=SHELL_EXAMPLES)(shell)
pipeline.app.command("replay", epilog=REPLAY_EXAMPLES)(replay)
pipeline.app.command("forget", epilog=FORGET_EXAMPLES)(forget)
app.add_typer(pipeline.app, name="pipeline", rich_help_panel=WORK)

_SETUP = examples("tinyagi setup", "tinyagi setup --provider anthropic --key-env MY_KEY", "tinyagi setup --sample-team")
app.command(rich_help_panel=COMPANY, epilog=_SETUP)(setup)
app.add_typer(agents.app, name="agent", rich_help_panel=COMPANY)
app.add_typer(teams.app, name="team", rich_help_panel=COMPANY)
providers.app.command("check", epilog=CHECK_EXAMPLES)(check_providers)
app.add_typer(providers.app, name="provider", rich_help_panel=COMPANY)
app.command("model", rich_help_panel=COMPANY, epilog=examples("tinyagi model", "tinyagi model opus"))(model_command)
app.add_typer(settings_commands, name="settings", rich_help_panel=COMPANY)
app.add_typer(channels.app, name="channel", rich_help_panel=COMPANY)
app.add_typer(pairing.app, name="pairing", rich_help_panel=COMPANY)
app.add_typer(plugins.app, name="plugin", rich_help_panel=COMPANY)

app.command(rich_help_panel=DAEMON, epilog=examples("tinyagi run", "tinyagi run --home ./company"))(run)
app.command(rich_help_panel=DAEMON, epilog=examples("tinyagi start"))(start)
app.command(rich_help_panel=DAEMON, epilog=examples("tinyagi stop"))(stop)
app.command(rich_help_panel=DAEMON, epilog=examples("tinyagi restart"))(restart)
app.command(rich_help_panel=DAEMON, epilog=examples("tinyagi status", "tinyagi status --json"))(status)
app.command(rich_help_panel=DAEMON, epilog=examples("tinyagi logs -f", "tinyagi logs daemon -n 20"))(logs)
app.command(rich_help_panel=DAEMON, epilog=examples("tinyagi office"))(office)
app.command(
    rich_help_panel=DAEMON,
    epilog=examples("tinyagi token", "tinyagi token show", "tinyagi token rotate --yes", "tinyagi token remove"),
)(token)
app.command("install-service", rich_help_panel=DAEMON, epilog=examples("tinyagi install-service --write"))(
    install_service
)

app.command(rich_help_panel=MORE, epilog=examples("tinyagi doctor", "tinyagi doctor --json"))(doctor)
app.add_typer(backup.app, name="backup", rich_help_panel=MORE)
app.command(rich_help_panel=MORE, epilog=examples("tinyagi demo", "tinyagi demo --json"))(demo)
app.command(rich_help_panel=MORE, epilog=examples("tinyagi bench", "tinyagi bench --seconds 10 --json"))(bench)
app.command(rich_help_panel=MORE, epilog=examples("tinyagi migrate --dry-run", "tinyagi migrate --yes"))(migrate)
app.command(rich_help_panel=MORE)(version)


def main() -> None:
    """Entry point."""
    replace_unprintable()
    app()
