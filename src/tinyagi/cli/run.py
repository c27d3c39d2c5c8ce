"""Runs the engine in the foreground: what it uses at the start, then its log."""

import asyncio
import logging
from pathlib import Path

import typer

from tinyagi.settings.home import Home, find_home
from tinyagi.wiring import run_until_signal


def run_engine(folder: Path | None, *, quiet: bool) -> None:
    """Serve the home until a signal comes."""
    home = find_home() if folder is None else Home(folder.expanduser().absolute())
    logging.basicConfig(
        level=logging.WARNING if quiet else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    logging.getLogger("httpx").setLevel(logging.WARNING)

    def say(text: str) -> None:
        if not quiet:
            typer.echo(text, err=True)

    asyncio.run(run_until_signal(home, say))
