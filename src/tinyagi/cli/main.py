"""The `tinyagi` command: all its commands, put together. Heavy imports happen inside them, so `--help` is instant."""

from typing import Annotated

import typer

from tinyagi.cli import agents, backup, channels, pairing, pipeline, plugins, providers, queue, schedules, teams
from tinyagi.cli.bench import bench
from tinyagi.cli.chatroom import chatroom
from tinyagi.cli.context import Place
from tinyagi.cli.daemon import install_service, office, restart, start, stop
from tinyagi.cli.doctor import doctor
from tinyagi.cli.edge import Edge
from tinyagi.cli.logs import logs
from tinyagi.cli.migrate import migrate
from tinyagi.cli.options import Json, examples
from tinyagi.cli.pipeline_people import FORGET_EXAMPLES, REPLAY_EXAMPLES, forget, replay
from tinyagi.cli.pipeline_query import QUERY_EXAMPLES, SHELL_EXAMPLES, query, shell
from tinyagi.cli.pipeline_report import REPORT_EXAMPLES, report
from tinyagi.cli.providers import model_command
from tinyagi.cli.run import HomeOption, run
from tinyagi.cli.send import send
from tinyagi.cli.status import status
from tinyagi.cli.traces import trace

COMPANY = "The company"
WORK = "Work"
DAEMON = "The daemon"
MORE = "More"

app = typer.Typer(
    cls=Edge,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    epilog=examples("tinyagi", 'tinyagi send "@coder hello" --wait', "tinyagi demo"),
)


@app.callback(invoke_without_command=True)
def tinyagi(
    ctx: typer.Context,
    home: HomeOption = None,
    url: Annotated[
        str | None, typer.Option(help="The daemon's address; that of the home's own daemon by default.")
    ] = None,
) -> None:
    """Run a company with teams of AI agents, coordinated through one durable queue.

    Without a command: set up what is missing, start the daemon if it is not running, and show how it is.
    """
    ctx.obj = Place(home, url)
    if ctx.invoked_subcommand is None:
        if url is None:
            start(ctx)
        status(ctx)


def demo(
    stay: Annotated[bool, typer.Option("--stay", help="Leave the company at work, to be looked at.")] = False,
    lake: Annotated[bool, typer.Option("--lake/--no-lake", help="End with a run of the pipeline on Spark.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the totals as one JSON object.")] = False,
) -> None:
    """Let a company of five scripted agents work, kill its engine with -9 in the middle, and show what became of it.

    At the end Spark takes every event into a lake, and the lake tells it all again.
    """
    from tinyagi.cli.demo import run_demo  # noqa: PLC0415 - see the module's first line

    raise typer.Exit(run_demo(as_json=as_json, stays=stay, with_lake=lake))


def version(as_json: Json = False) -> None:
    """Print the version."""
    from importlib.metadata import version as installed  # noqa: PLC0415

    from tinyagi.cli.screen import print_json, say  # noqa: PLC0415

    if as_json:
        print_json({"version": installed("tinyagi")})
    else:
        say(installed("tinyagi"))


_SEND = examples('tinyagi send "@coder fix the login" --wait', "git diff | tinyagi send - --agent reviewer -w")
app.command(rich_help_panel=WORK, epilog=_SEND)(send)
app.command(rich_help_panel=WORK, epilog=examples("tinyagi chatroom dev -f", 'tinyagi chatroom dev "hello"'))(chatroom)
app.command(rich_help_panel=WORK, epilog=examples("tinyagi trace", "tinyagi trace cli_k3j9x0ab"))(trace)
app.add_typer(queue.app, name="queue", rich_help_panel=WORK)
app.add_typer(schedules.app, name="schedule", rich_help_panel=WORK)

pipeline.app.command("report", epilog=REPORT_EXAMPLES)(report)
pipeline.app.command("query", epilog=QUERY_EXAMPLES)(query)
pipeline.app.command("shell", epilog=SHELL_EXAMPLES)(shell)
pipeline.app.command("replay", epilog=REPLAY_EXAMPLES)(replay)
pipeline.app.command("forget", epilog=FORGET_EXAMPLES)(forget)
app.add_typer(pipeline.app, name="pipeline", rich_help_panel=WORK)

app.add_typer(agents.app, name="agent", rich_help_panel=COMPANY)
app.add_typer(teams.app, name="team", rich_help_panel=COMPANY)
app.add_typer(providers.app, name="provider", rich_help_panel=COMPANY)
app.command("model", rich_help_panel=COMPANY, epilog=examples("tinyagi model", "tinyagi model opus"))(model_command)
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
    app()
