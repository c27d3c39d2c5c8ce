"""`tinyagi team`: who works together, and who leads."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from tinyagi.cli.asking import answer, confirm, new_id
from tinyagi.cli.context import at_desk
from tinyagi.cli.edge import WrongCall
from tinyagi.cli.options import Agent, Json, Team, Yes, examples
from tinyagi.cli.screen import print_fields, print_json, print_table, say, show

if TYPE_CHECKING:
    from rich.tree import Tree

    from tinyagi.api.agents import AgentFields
    from tinyagi.api.teams import TeamFields
    from tinyagi.cli.settings_desk import SettingsDesk

app = typer.Typer(help="Add, show, change and remove teams.", no_args_is_help=True)


@app.command("list", epilog=examples("tinyagi team list"))
def list_teams(ctx: typer.Context, as_json: Json = False) -> None:
    """List all teams."""
    teams = at_desk(ctx, lambda desk: desk.teams())
    if as_json:
        print_json(teams)
        return
    print_table(
        ("team", "name", "leader", "members"),
        [(f"#{name}", team.name, f"@{team.leader_agent}", _listed(team)) for name, team in teams.items()],
        empty="There are no teams. Add one: tinyagi team add dev --agents coder,tester --leader coder",
    )


@app.command("show", epilog=examples("tinyagi team show dev"))
def show_team(ctx: typer.Context, team: Team, as_json: Json = False) -> None:
    """Show one team."""
    fields = at_desk(ctx, lambda desk: _look_up(desk, team))
    if as_json:
        print_json({"id": team, **fields.model_dump(exclude_none=True)})
        return
    given = fields.model_dump(exclude_none=True, exclude={"agents", "leader_agent"})
    print_fields(
        [("team", f"#{team}"), *given.items(), ("leader", f"@{fields.leader_agent}"), ("members", _listed(fields))]
    )


@app.command("add", epilog=examples("tinyagi team add", "tinyagi team add dev --agents coder,tester --leader coder"))
def add_team(
    ctx: typer.Context,
    team: Annotated[str | None, typer.Argument(help="Its id: small letters, digits, - and _.")] = None,
    name: Annotated[str | None, typer.Option(help="What people call it.")] = None,
    agents: Annotated[str | None, typer.Option(help="Ids of its members, with commas between them.")] = None,
    leader: Annotated[str | None, typer.Option(help="The member that answers what is sent to the team.")] = None,
) -> None:
    """Add a team; asks for what the options leave open."""
    team = new_id(team, "TEAM", "Id of the new team")
    known = at_desk(ctx, lambda desk: _new(desk, team))
    name = answer(name, "--name", "Its name", default=team.replace("-", " ").replace("_", " ").title())
    members = _names(answer(agents, "--agents", f"Its members, of {', '.join(known)}"))
    fields = {"name": name, "agents": members}
    fields["leader_agent"] = answer(leader, "--leader", "Its leader", default=members[0], choices=members)
    at_desk(ctx, lambda desk: _put(desk, team, fields))
    say(f'#{team} is here. Write to it: tinyagi send "@{team} hello"')


@app.command("remove", epilog=examples("tinyagi team remove dev --yes"))
def remove_team(ctx: typer.Context, team: Team, yes: Yes = False) -> None:
    """Remove a team; its agents stay."""

    async def remove(desk: "SettingsDesk") -> None:
        await _look_up(desk, team)
        await desk.delete_team(team)

    confirm(f"Remove the team #{team}?", yes=yes)
    at_desk(ctx, remove)
    say(f"#{team} is removed; its agents are still here.")


@app.command(
    "add-agent", epilog=examples("tinyagi team add-agent dev writer", "tinyagi team add-agent dev writer --leader")
)
def add_member(
    ctx: typer.Context,
    team: Team,
    agent: Agent,
    leader: Annotated[bool, typer.Option("--leader", help="It leads the team from now on.")] = False,
) -> None:
    """Add an agent to a team."""

    async def add(desk: "SettingsDesk") -> None:
        members = (await _look_up(desk, team)).agents or ()
        fields: dict[str, object] = {"agents": list(dict.fromkeys([*members, agent]))}
        await _put(desk, team, fields | ({"leader_agent": agent} if leader else {}))

    at_desk(ctx, add)
    say(f"@{agent} {'leads' if leader else 'is in'} #{team}.")


@app.command("remove-agent", epilog=examples("tinyagi team remove-agent dev writer"))
def remove_member(
    ctx: typer.Context,
    team: Team,
    agent: Agent,
    leader: Annotated[str | None, typer.Option(help="Who leads from now on, when the leader goes.")] = None,
) -> None:
    """Take an agent out of a team; the agent itself stays."""

    async def remove(desk: "SettingsDesk") -> None:
        fields = await _look_up(desk, team)
        members = [member for member in fields.agents or () if member != agent]
        if len(members) == len(fields.agents or ()):
            raise WrongCall(f"@{agent} is not in #{team}. There are: {_listed(fields)}.")
        if not members:
            raise WrongCall(f"@{agent} is the last one in #{team}. Remove the team: tinyagi team remove {team}")
        leads = leader or (members[0] if fields.leader_agent == agent else fields.leader_agent)
        await _put(desk, team, {"agents": members, "leader_agent": leads})

    at_desk(ctx, remove)
    say(f"@{agent} is no longer in #{team}.")


@app.command("visualize", epilog=examples("tinyagi team visualize", "tinyagi team visualize dev"))
def visualize(
    ctx: typer.Context,
    team: Annotated[str | None, typer.Argument(help="The team's id; without one, all teams.")] = None,
    as_json: Json = False,
) -> None:
    """Draw teams as trees: the leader, and whom it hands work to."""
    agents, teams = at_desk(ctx, lambda desk: _everything(desk, team))
    if as_json:
        print_json({"agents": agents, "teams": teams})
        return
    if not teams:
        say("There are no teams. Add one: tinyagi team add dev --agents coder,tester --leader coder")
    for name, fields in teams.items():
        show(_tree(name, fields, agents))


def _tree(name: str, team: "TeamFields", agents: "Mapping[str, AgentFields]") -> "Tree":
    from rich.text import Text  # noqa: PLC0415 - see cli.context
    from rich.tree import Tree  # noqa: PLC0415

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


async def _look_up(desk: "SettingsDesk", team: str) -> "TeamFields":
    teams = await desk.teams()
    if team not in teams:
        raise WrongCall(f"There is no team {team!r}. There are: {', '.join(teams) or 'none'}.")
    return teams[team]


async def _everything(
    desk: "SettingsDesk", team: str | None
) -> "tuple[Mapping[str, AgentFields], Mapping[str, TeamFields]]":
    agents = await desk.agents()
    return agents, await desk.teams() if team is None else {team: await _look_up(desk, team)}


async def _new(desk: "SettingsDesk", team: str) -> list[str]:
    """The agents that may be its members; raise WrongCall when the id is taken."""
    agents = await desk.agents()
    if team in agents:
        raise WrongCall(f"There is an agent {team!r}: give the team another id.")
    if team in await desk.teams():
        raise WrongCall(f"There is a team {team!r} already. See it: tinyagi team show {team}")
    return list(agents)


async def _put(desk: "SettingsDesk", team: str, fields: Mapping[str, object]) -> None:
    from pydantic import ValidationError  # noqa: PLC0415

    from tinyagi.api.teams import TeamFields  # noqa: PLC0415

    try:
        given = TeamFields.model_validate(fields)
    except ValidationError:
        raise WrongCall(
            f"Some of {fields['agents']} cannot be agents: ids have small letters, digits, - and _."
        ) from None
    await desk.put_team(team, given)


def _names(text: str) -> list[str]:
    names = [name.strip().removeprefix("@") for name in text.replace(",", " ").split()]
    if not names:
        raise WrongCall("--agents: a team needs at least one member.")
    return list(dict.fromkeys(names))


def _listed(team: "TeamFields") -> str:
    return ", ".join(f"@{member}" for member in team.agents or ())
