"""Questions to the person at the terminal. Each has an option that answers it; without a terminal none is asked."""

import sys
from collections.abc import Sequence

import typer

from tinyagi.cli.edge import WrongCall
from tinyagi.domain.ids import is_valid_id
from tinyagi.domain.texts import one_line


def can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def answer(
    given: str | None,
    option: str,
    question: str,
    *,
    default: str | None = None,
    choices: Sequence[str] = (),
    hidden: bool = False,
) -> str:
    """What the option says, else what the person says, else the default; raise WrongCall when nobody can be asked."""
    if given is None and not can_ask():
        if default is None:
            raise WrongCall(f"{option} is missing: {question}? There is no terminal to ask at.")
        given = default
    if given is None:
        given = _ask(question, default, choices, hidden=hidden)
    if choices and given not in choices:
        raise WrongCall(f"{option}: {one_line(given)!r} is none of {', '.join(choices)}.")
    return given


def new_id(given: str | None, argument: str, question: str) -> str:
    """The id of something new; raise WrongCall when it cannot be one."""
    name = answer(given, argument, question).lstrip("@#")
    if not is_valid_id(name):
        raise WrongCall(f"{one_line(name)!r} is no id; use up to 64 small letters, digits, - and _.")
    return name


def confirm(question: str, *, yes: bool) -> None:
    """Go on only when the person wants it; `--yes` answers beforehand."""
    if yes:
        return
    if not can_ask():
        raise WrongCall(f"{question} There is no terminal to ask at: add --yes.")
    if not typer.confirm(question, err=True):
        typer.echo("Nothing was changed.", err=True)
        raise typer.Exit(1)


def _ask(question: str, default: str | None, choices: Sequence[str], *, hidden: bool) -> str:
    hint = f" ({', '.join(choices)})" if choices else ""
    while True:
        said: str = typer.prompt(f"{question}{hint}", default=default, hide_input=hidden, err=True)
        if not choices or said in choices:
            return said.strip()
        typer.echo(f"Please say one of {', '.join(choices)}.", err=True)
