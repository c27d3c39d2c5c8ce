"""`tinyagi run`: the daemon in the foreground, with its log on stderr."""

import sys
from pathlib import Path
from typing import Annotated

import typer

HomeOption = Annotated[
    Path | None, typer.Option(help="The folder of this installation; TINYAGI_HOME or ~/.tinyagi by default.")
]


def run(
    context: typer.Context,
    home: HomeOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log warnings and errors only.")] = False,
    detached: Annotated[bool, typer.Option("--detached", hidden=True)] = False,
) -> None:
    """Run the daemon in the foreground until Ctrl-C; a second Ctrl-C does not wait for what is running."""
    from tinyagi.cli.context import place_of  # noqa: PLC0415 - see cli.context

    run_engine(place_of(context).folder if home is None else home, quiet=quiet, detached=detached)


def run_engine(folder: Path | None, *, quiet: bool, detached: bool = False) -> None:
    """Serve the home until a signal comes; detached, only the log files tell what happens."""
    import logging  # noqa: PLC0415

    from tinyagi.cli.context import Place  # noqa: PLC0415
    from tinyagi.daemon import running  # noqa: PLC0415

    running.leave_run(sys.argv[1:])
    # The stream itself: while the daemon runs, whatever is printed goes to the log.
    stream = sys.stderr

    def tell(text: str) -> None:
        stream.write(f"{text}\n")
        stream.flush()

    def say(text: str) -> None:
        if not quiet and not detached:
            tell(text)

    level = logging.WARNING if quiet else logging.INFO
    if running.run(Place(folder).home, say, show=None if detached else tell, level=level):
        running.again(sys.argv[1:])
