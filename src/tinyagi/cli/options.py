"""Options and arguments that many commands have, with the completion of names."""

import json
from collections.abc import Mapping
from typing import Annotated

import typer

from tinyagi.cli.context import Place, place_of


def _complete_agents(ctx: typer.Context, incomplete: str) -> list[str]:
    return _names(place_of(ctx), ("agents",), incomplete)


def _complete_teams(ctx: typer.Context, incomplete: str) -> list[str]:
    return _names(place_of(ctx), ("teams",), incomplete)


def _complete_both(ctx: typer.Context, incomplete: str) -> list[str]:
    return _names(place_of(ctx), ("agents", "teams"), incomplete)


def _complete_providers(ctx: typer.Context, incomplete: str) -> list[str]:
    return _names(place_of(ctx), ("custom_providers",), incomplete)


def _names(place: Place, sections: tuple[str, ...], incomplete: str) -> list[str]:
    """Names from the settings file: completion must not wait for a daemon, and never complains."""
    try:
        settings = json.loads(place.home.settings_file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return []
    found = (settings.get(section) for section in sections) if isinstance(settings, dict) else ()
    return [name for names in found if isinstance(names, Mapping) for name in names if name.startswith(incomplete)]


Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many at most.")]
Agent = Annotated[str, typer.Argument(help="The agent's id.", autocompletion=_complete_agents)]
AgentOption = Annotated[
    str | None, typer.Option("--agent", "-a", help="An agent or a team.", autocompletion=_complete_both)
]
Team = Annotated[str, typer.Argument(help="The team's id.", autocompletion=_complete_teams)]
CustomProvider = Annotated[str, typer.Argument(help="The provider's id.", autocompletion=_complete_providers)]


def examples(*lines: str) -> str:
    """The epilog of a command's help."""
    return "Examples:  " + "   ".join(f"[cyan]{line}[/]" for line in lines)
