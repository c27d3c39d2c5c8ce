"""`tinyagi team` and `tinyagi chatroom`: lists, adds, changes, draws and removes teams, and opens their rooms."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tinyagi.cli.context import call_daemon, edit_settings
from tinyagi.cli.options import AgentArgument, Json, LimitOption, TeamArgument, Yes, examples
from tinyagi.cli.terminal import (
    WrongCall,
    confirm,
    new_id,
    option_or_prompt,
    print_fields,
    print_json,
    print_table,
    readable,
    say,
    show,
    when,
)
from tinyagi.settings.environment import snapshot

if TYPE_CHECKING:
    from rich.tree import Tree

    from tinyagi.api.agents import AgentFields
    from tinyagi.api.teams import RoomLine, TeamFields
    from tinyagi.cli.settings_backend import SettingsBackend
    from tinyagi.client.client import AsyncClient

app = typer.Typer(help="Add, show, change and remove teams.", no_args_is_help=True)
MAX_NEW_LINES: Final = 1_000
"""Lines per request while following."""


@app.command("list", epilog=examples("tinyagi team list"))
def list_teams(ctx: typer.Context, as_json: Json = False) -> None:
    """List all teams."""
    teams = edit_settings(ctx, lambda backend: backend.teams())
    if as_json:
        print_json(teams)
        return
    print_table(
        ("team!", "name", "leader!", "members"),
        [(f"#{name}", team.name, f"@{team.leader_agent}", _listed(team)) for name, team in teams.items()],
        empty="There are no teams. Add one: tinyagi team add dev --agents coder,tester --leader coder",
    )


@app.command("show", epilog=examples("tinyagi team show dev"))
def show_team(ctx: typer.Context, team: TeamArgument, as_json: Json = False) -> None:
    """Show one team."""
    fields = edit_settings(ctx, lambda backend: _look_up(backend, team))
    if as_json:
        print_json({"id": team, **fields.model_dump(exclude_none=True)})
        return
    stored = fields.model_dump(exclude_none=True, exclude={"agents", "leader_agent"})
    print_fields(
        [("team", f"#{team}"), *stored.items(), ("leader", f"@{fields.leader_agent}"), ("members", _listed(fields))]
    )


@app.command("add", epilog=examples("tinyagi team add", "tinyagi team add dev --agents coder,tester --leader coder"))
def add_team(
    ctx: typer.Context,
    team: Annotated[str | None, typer.Argument(help="Its id: lowercase letters, digits, - and _.")] = None,
    name: Annotated[str | None, typer.Option(help="What people call it.")] = None,
    agents: Annotated[str | None, typer.Option(help="Ids of its members, separated by commas.")] = None,
    leader: Annotated[str | None, typer.Option(help="The member that answers messages to the team.")] = None,
) -> None:
    """Add a team; asks for missing options."""
    team = new_id(team, "TEAM", "Id of the new team")
    known = edit_settings(ctx, lambda backend: _check_new(backend, team))
    name = option_or_prompt(name, "--name", "Its name", default=team.replace("-", " ").replace("_", " ").title())
    members = _names(option_or_prompt(agents, "--agents", f"Its members, of {', '.join(known)}"))
    fields = {"name": name, "agents": members}
    fields["leader_agent"] = option_or_prompt(leader, "--leader", "Its leader", default=members[0], choices=members)
    edit_settings(ctx, lambda backend: _put(backend, team, fields))
    say(f'Added team #{team}. Try: tinyagi send "@{team} hello" --wait')


@app.command("remove", epilog=examples("tinyagi team remove dev --yes"))
def remove_team(ctx: typer.Context, team: TeamArgument, yes: Yes = False) -> None:
    """Remove a team; its agents are kept."""

    async def remove(backend: "SettingsBackend") -> None:
        await _look_up(backend, team)
        await backend.delete_team(team)

    confirm(f"Remove the team #{team}?", yes=yes)
    edit_settings(ctx, remove)
    say(f"Removed team #{team}. Its agents are kept.")


@app.command(
    "add-agent", epilog=examples("tinyagi team add-agent dev writer", "tinyagi team add-agent dev writer --leader")
)
def add_member(
    ctx: typer.Context,
    team: TeamArgument,
    agent: AgentArgument,
    leader: Annotated[bool, typer.Option("--leader", help="Make it the leader of the team.")] = False,
) -> None:
    """Add an agent to a team."""

    async def add(backend: "SettingsBackend") -> None:
        members = (await _look_up(backend, team)).agents or ()
        fields: dict[str, object] = {"agents": list(dict.fromkeys([*members, agent]))}
        await _put(backend, team, fields | ({"leader_agent": agent} if leader else {}))

    edit_settings(ctx, add)
    say(f"@{agent} {'leads' if leader else 'is in'} #{team}.")


@app.command("remove-agent", epilog=examples("tinyagi team remove-agent dev writer"))
def remove_member(
    ctx: typer.Context,
    team: TeamArgument,
    agent: AgentArgument,
    leader: Annotated[str | None, typer.Option(help="The new leader, when the leader is removed.")] = None,
) -> None:
    """Remove an agent from a team; the agent itself is kept."""

    async def remove(backend: "SettingsBackend") -> None:
        fields = await _look_up(backend, team)
        members = [member for member in fields.agents or () if member != agent]
        if len(members) == len(fields.agents or ()):
            raise WrongCall(f"@{agent} is not in #{team}. Its members are: {_listed(fields)}.")
        if not members:
            raise WrongCall(f"@{agent} is the last member of #{team}. Remove the team: tinyagi team remove {team}")
        leads = leader or (members[0] if fields.leader_agent == agent else fields.leader_agent)
        await _put(backend, team, {"agents": members, "leader_agent": leads})

    edit_settings(ctx, remove)
    say(f"@{agent} is no longer in #{team}.")


@app.command("visualize", epilog=examples("tinyagi team visualize", "tinyagi team visualize dev"))
def visualize(
    ctx: typer.Context,
    team: Annotated[str | None, typer.Argument(help="The team's id; without one, all teams.")] = None,
    as_json: Json = False,
) -> None:
    """Draw teams as trees: the leader, and the members it hands work to."""
    agents, teams = edit_settings(ctx, lambda backend: _agents_and_teams(backend, team))
    if as_json:
        print_json({"agents": agents, "teams": teams})
        return
    if not teams:
        say("There are no teams. Add one: tinyagi team add dev --agents coder,tester --leader coder")
    for name, fields in teams.items():
        show(_tree(name, fields, agents))


def _tree(name: str, team: "TeamFields", agents: "Mapping[str, AgentFields]") -> "Tree":
    from rich.text import Text
    from rich.tree import Tree

    def label(agent: str, style: str) -> Text:
        fields = agents.get(agent)
        using = "" if fields is None else " ".join(filter(None, (fields.provider, fields.model)))
        return Text.assemble((f"@{agent}", style), (f"  {using}" if using else "", "dim"))

    tree = Tree(Text(f"#{name}  {team.name or ''}".rstrip(), style="bold cyan"), guide_style="dim")
    leader = tree.add(Text.assemble(label(team.leader_agent or "", "bold"), ("  leads", "yellow")))
    for member in team.agents or ():
        if member != team.leader_agent:
            leader.add(label(member, ""))
    return tree


async def _look_up(backend: "SettingsBackend", team: str) -> "TeamFields":
    teams = await backend.teams()
    if team not in teams:
        raise WrongCall(f"There is no team {team!r}. There are: {', '.join(teams) or 'none'}.")
    return teams[team]


async def _agents_and_teams(
    backend: "SettingsBackend", team: str | None
) -> "tuple[Mapping[str, AgentFields], Mapping[str, TeamFields]]":
    agents = await backend.agents()
    return agents, await backend.teams() if team is None else {team: await _look_up(backend, team)}


async def _check_new(backend: "SettingsBackend", team: str) -> list[str]:
    """The agents to choose members from; raise WrongCall when the id is taken."""
    agents = await backend.agents()
    if team in agents:
        raise WrongCall(f"There is an agent {team!r}: give the team another id.")
    if team in await backend.teams():
        raise WrongCall(f"There is already a team {team!r}. See it: tinyagi team show {team}")
    return list(agents)


async def _put(backend: "SettingsBackend", team: str, fields: Mapping[str, object]) -> None:
    from pydantic import ValidationError

    from tinyagi.api.teams import TeamFields

    try:
        validated = TeamFields.model_validate(fields)
    except ValidationError:
        raise WrongCall(
            f"Some of {fields['agents']} are not valid ids: use lowercase letters, digits, - and _."
        ) from None
    await backend.put_team(team, validated)


def _names(text: str) -> list[str]:
    names = [name.strip().removeprefix("@") for name in text.replace(",", " ").split()]
    if not names:
        raise WrongCall("--agents: a team needs at least one member.")
    return list(dict.fromkeys(names))


def _listed(team: "TeamFields") -> str:
    return ", ".join(f"@{member}" for member in team.agents or ())


def chatroom(
    ctx: typer.Context,
    team: TeamArgument,
    message: Annotated[str | None, typer.Argument(help="The message to post; without it, the room is shown.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep showing new messages.")] = False,
    limit: LimitOption = 50,
    sender: Annotated[str | None, typer.Option(help="The sender; your login name by default.")] = None,
    as_json: Json = False,
) -> None:
    """Show a team's chat room, or post a message in it."""
    if message is not None:
        person = sender or snapshot().get("USER") or "owner"
        posted = call_daemon(ctx, lambda client: _post(client, team, message, person))
        if as_json:
            print_json({"ok": True, "id": posted})
        elif not follow:
            say(f"Posted in #{team}. Follow it: tinyagi chatroom {team} -f")
    if follow:
        call_daemon(ctx, lambda client: _follow(client, team, limit, as_json=as_json))
    elif message is None:
        _show(team, call_daemon(ctx, lambda client: client.teams.room(team, limit=limit))[::-1], as_json=as_json)


async def _post(client: "AsyncClient", team: str, message: str, sender: str) -> int:
    from tinyagi.api.teams import PostLine

    return (await client.teams.post(team, PostLine.model_construct(message=message, sender=sender))).id


async def _follow(client: "AsyncClient", team: str, limit: int, *, as_json: bool) -> None:
    from contextlib import aclosing

    last, batch = 0, limit
    async with aclosing(client.events(types=("chat_posted",))) as events:
        async for event in events:
            # Other events are the opening of the stream, or a reset after missed lines: both need a read.
            if event.type == "chat_posted" and event.text("teamId") != team:
                continue
            # Read the lines from the room: the stream shortens long ones.
            for line in reversed(await client.teams.room(team, since=last, limit=batch)):
                typer.echo(json.dumps(line.model_dump()) if as_json else _text(line))
                last = line.id
            batch = MAX_NEW_LINES


def _show(team: str, lines: "list[RoomLine]", *, as_json: bool) -> None:
    if as_json:
        print_json(lines)
    elif not lines:
        say(f'#{team} has no messages yet. Write one: tinyagi chatroom {team} "hello"')
    for line in () if as_json else lines:
        typer.echo(_text(line))


def _text(line: "RoomLine") -> str:
    return f"{when(line.created_at)}  {typer.style(readable(line.from_agent), bold=True)}  {readable(line.message)}"
