"""`tinyagi agent`: who works here, with what, and a fresh start for one of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinyagi.cli.asking import answer, confirm, new_id
from tinyagi.cli.context import ask, at_desk
from tinyagi.cli.edge import WrongCall
from tinyagi.cli.options import Agent, Json, Yes, examples
from tinyagi.cli.screen import note, print_fields, print_json, print_table, say

if TYPE_CHECKING:
    from tinyagi.api.agents import AgentFields
    from tinyagi.cli.settings_desk import SettingsDesk
    from tinyagi.client.client import Client

app = typer.Typer(help="Add, show, change and remove agents.", no_args_is_help=True)

BUILT_IN = "anthropic, openai, opencode, api, scripted or custom:<id>"

Provider = Annotated[str | None, typer.Option("--provider", "-p", help=f"{BUILT_IN}; without one, the default.")]
Model = Annotated[str | None, typer.Option("--model", "-m", help="A model or an alias such as sonnet.")]


@app.command("list", epilog=examples("tinyagi agent list", "tinyagi agent list --json"))
def list_agents(ctx: typer.Context, as_json: Json = False) -> None:
    """List all agents."""
    agents = at_desk(ctx, lambda desk: desk.agents())
    if as_json:
        print_json(agents)
        return
    print_table(
        ("agent", "name", "provider", "model"),
        [(f"@{name}", agent.name, agent.provider or "(default)", agent.model) for name, agent in agents.items()],
        empty="There are no agents. Add one: tinyagi agent add coder",
    )


@app.command("show", epilog=examples("tinyagi agent show coder"))
def show_agent(ctx: typer.Context, agent: Agent, as_json: Json = False) -> None:
    """Show one agent with its settings and its teams."""
    fields, teams = at_desk(ctx, lambda desk: _look_up(desk, agent))
    if as_json:
        print_json({"id": agent, **fields.model_dump(exclude_none=True), "teams": teams})
        return
    given = fields.model_dump(exclude_none=True)
    print_fields([("agent", f"@{agent}"), *given.items(), ("teams", ", ".join(teams))])


@app.command("add", epilog=examples("tinyagi agent add", "tinyagi agent add coder --provider anthropic --model sonnet"))
def add_agent(
    ctx: typer.Context,
    agent: Annotated[str | None, typer.Argument(help="Its id: small letters, digits, - and _.")] = None,
    name: Annotated[str | None, typer.Option(help="What people call it.")] = None,
    provider: Provider = None,
    model: Model = None,
    prompt: Annotated[str | None, typer.Option(help="Said to it before every run.")] = None,
    prompt_file: Annotated[Path | None, typer.Option(help="A file with such a text.")] = None,
    directory: Annotated[Path | None, typer.Option("--directory", "-d", help="Where it works.")] = None,
) -> None:
    """Add an agent; asks for what the options leave open."""
    agent = new_id(agent, "AGENT", "Id of the new agent")
    default_provider = at_desk(ctx, lambda desk: _new(desk, agent))
    fields: dict[str, object] = {
        "name": answer(name, "--name", "Its name", default=agent.replace("-", " ").replace("_", " ").title()),
        "provider": answer(provider, "--provider", f"Its provider: {BUILT_IN}", default=default_provider),
        "model": answer(model, "--model", "Its model; empty for the provider's own", default="") or None,
        "system_prompt": prompt,
        "prompt_file": None if prompt_file is None else str(prompt_file.expanduser().absolute()),
        "working_directory": None if directory is None else str(directory.expanduser().absolute()),
    }
    at_desk(ctx, lambda desk: _put(desk, agent, fields))
    say(f'@{agent} is here. Write to it: tinyagi send "@{agent} hello"')


@app.command(
    "remove", epilog=examples("tinyagi agent remove coder", "tinyagi agent remove coder --messages dead --yes")
)
def remove_agent(
    ctx: typer.Context,
    agent: Agent,
    messages: Annotated[
        str | None, typer.Option(help="What becomes of those that wait for it: dead, or move:<agent>.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Remove an agent from the settings and from its teams; its workspace and its history stay."""
    confirm(f"Remove @{agent}?", yes=yes)
    removed = ask(ctx, lambda client: client.agents.delete(agent, messages=messages))
    say(f"@{agent} is removed. What names nobody goes to @{removed.default_agent} now.")
    if removed.messages:
        note(f"{removed.messages} messages were waiting for it.")
    for team, leader in removed.leaders.items():
        note(f"@{leader} leads #{team} now.")


@app.command("reset", epilog=examples("tinyagi agent reset coder", "tinyagi agent reset coder writer"))
def reset_agents(ctx: typer.Context, agents: Annotated[list[str], typer.Argument(help="Ids of agents.")]) -> None:
    """Let agents start afresh: the sessions they would resume are forgotten, memory and history are kept."""

    async def reset(client: "Client") -> None:
        for agent in (name.removeprefix("@") for name in agents):
            await client.agents.reset(agent)
            say(f"@{agent} starts afresh with its next message.")

    ask(ctx, reset)


@app.command("provider", epilog=examples("tinyagi agent provider coder", "tinyagi agent provider coder openai -m gpt"))
def agent_provider(
    ctx: typer.Context,
    agent: Agent,
    provider: Annotated[str | None, typer.Argument(help=BUILT_IN)] = None,
    model: Model = None,
    as_json: Json = False,
) -> None:
    """Show or change what an agent runs with."""
    if provider is not None or model is not None:
        given = {"provider": provider, "model": model}
        at_desk(ctx, lambda desk: _change(desk, agent, {name: value for name, value in given.items() if value}))
    fields, _ = at_desk(ctx, lambda desk: _look_up(desk, agent))
    if as_json:
        print_json({"agent": agent, "provider": fields.provider, "model": fields.model})
        return
    say(f"@{agent}: {fields.provider or 'the default provider'}, {fields.model or 'its default model'}")


async def _look_up(desk: "SettingsDesk", agent: str) -> "tuple[AgentFields, list[str]]":
    agents, teams = await desk.agents(), await desk.teams()
    if agent not in agents:
        raise WrongCall(f"There is no agent {agent!r}. There are: {', '.join(agents)}.")
    return agents[agent], [name for name, team in teams.items() if agent in (team.agents or ())]


async def _new(desk: "SettingsDesk", agent: str) -> str:
    """The provider that agents have by default; raise WrongCall when the id is taken."""
    if agent in await desk.agents():
        raise WrongCall(f"There is an agent {agent!r} already. See it: tinyagi agent show {agent}")
    models = (await desk.settings()).get("models")
    provider = models.get("provider") if isinstance(models, dict) else None
    return provider if isinstance(provider, str) else "anthropic"


async def _change(desk: "SettingsDesk", agent: str, fields: dict[str, object]) -> None:
    await _look_up(desk, agent)
    await _put(desk, agent, fields)


async def _put(desk: "SettingsDesk", agent: str, fields: dict[str, object]) -> None:
    from tinyagi.api.agents import AgentFields  # noqa: PLC0415 - see cli.context

    given = {name: value for name, value in fields.items() if value is not None}
    await desk.put_agent(agent, AgentFields.model_validate(given))
