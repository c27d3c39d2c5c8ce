"""Options and arguments shared by commands, with shell completion of names."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinyagi.cli.context import Installation, installation
from tinyagi.cli.terminal import WrongCall

if TYPE_CHECKING:
    from tinyagi.client.client import AsyncClient

Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="Show at most this many.")]

HomeOption = Annotated[
    Path | None, typer.Option(help="The folder of this installation; TINYAGI_HOME or ~/.tinyagi by default.")
]


def _complete_agents(ctx: typer.Context, incomplete: str) -> list[str]:
    return _names(installation(ctx), ("agents",), incomplete)


def _complete_teams(ctx: typer.Context, incomplete: str) -> list[str]:
    return _names(installation(ctx), ("teams",), incomplete)


def _complete_both(ctx: typer.Context, incomplete: str) -> list[str]:
    return _names(installation(ctx), ("agents", "teams"), incomplete)


def _complete_providers(ctx: typer.Context, incomplete: str) -> list[str]:
    return _names(installation(ctx), ("custom_providers",), incomplete)


def _names(place: Installation, sections: tuple[str, ...], incomplete: str) -> list[str]:
    """Names from the settings file: completion must not wait for a daemon and must not fail."""
    try:
        settings = json.loads(place.home.settings_file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return []
    found = (settings.get(section) for section in sections) if isinstance(settings, dict) else ()
    return [name for names in found if isinstance(names, Mapping) for name in names if name.startswith(incomplete)]


AgentArgument = Annotated[str, typer.Argument(help="The agent's id.", autocompletion=_complete_agents)]
AgentOption = Annotated[
    str | None, typer.Option("--agent", "-a", help="An agent or a team.", autocompletion=_complete_both)
]
LaneOption = Annotated[
    str | None, typer.Option("--agent", "-a", help="Only for this agent.", autocompletion=_complete_agents)
]
RecipientOption = Annotated[str, typer.Option("--to", help="The new recipient.", autocompletion=_complete_agents)]
TeamArgument = Annotated[str, typer.Argument(help="The team's id.", autocompletion=_complete_teams)]
CustomProvider = Annotated[str, typer.Argument(help="The provider's id.", autocompletion=_complete_providers)]


async def check_agent(client: "AsyncClient", agent: str) -> None:
    """Raise WrongCall for a name without agent and lane; a removed agent may still have messages."""
    agents = list(await client.agents.all())
    if agent not in agents and agent not in {lane.agent for lane in await client.queue.lanes()}:
        raise WrongCall(f"There is no agent @{agent}. There are: {', '.join(agents) or 'none'}.")


def examples(*lines: str) -> str:
    """The epilog of a command's help, one example per line."""
    return "\n  ".join(("Examples:", *(f"[cyan]{line}[/]" for line in lines)))
