"""The `tinyagi` command. Heavy imports happen inside the commands, so that `--help` is instant."""

import sys
from pathlib import Path
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


@app.command(epilog="Examples:  [cyan]tinyagi demo[/]   [cyan]tinyagi demo --json[/]")
def demo(
    as_json: Annotated[bool, typer.Option("--json", help="Print the totals as one JSON object.")] = False,
) -> None:
    """Let a company of five scripted agents work, kill its engine with -9 in the middle, and show what became of it."""
    from tinyagi.cli.demo import run_demo  # noqa: PLC0415 - see the module's first line

    raise typer.Exit(run_demo(as_json=as_json))


@app.command(epilog="Examples:  [cyan]tinyagi run[/]   [cyan]tinyagi run --home ./company[/]")
def run(
    home: Annotated[
        Path | None, typer.Option(help="The folder of this installation; TINYAGI_HOME or ~/.tinyagi by default.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log warnings and errors only.")] = False,
) -> None:
    """Run the engine in the foreground until Ctrl-C; a second Ctrl-C does not wait for what is running."""
    from tinyagi.cli.run import run_engine  # noqa: PLC0415

    run_engine(home, quiet=quiet)


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
