"""The `tinyagi` command. Heavy imports happen inside the commands, so that `--help` is instant."""

import sys
from typing import Annotated

import typer

from tinyagi.domain.errors import TinyAGIError

app = typer.Typer(
    help="Run a company with teams of AI agents, coordinated through one durable queue.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


@app.command(
    epilog="Examples:  [cyan]tinyagi demo[/]   [cyan]tinyagi demo --messages 3000[/]   [cyan]tinyagi demo --json[/]"
)
def demo(
    messages: Annotated[int, typer.Option(min=12, max=100_000, help="How many messages to run.")] = 300,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as one JSON object.")] = False,
) -> None:
    """Run messages over three lanes, kill the worker with -9 in the middle, and count what became of them."""
    from tinyagi.cli.demo import run_demo  # noqa: PLC0415 - see the module's first line

    raise typer.Exit(run_demo(messages, as_json=as_json))


@app.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed  # noqa: PLC0415

    typer.echo(installed("tinyagi"))


def main() -> None:
    """Entry point: an error of ours is a sentence on stderr and exit code 1, never a stack trace."""
    try:
        app()
    except TinyAGIError as error:
        typer.secho(f"tinyagi: {error}", err=True, fg="red")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
