"""`tinyagi agent`: lists, adds, changes, resets and removes agents."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinyagi.cli.context import call_daemon, edit_settings
from tinyagi.cli.options import AgentArgument, Json, Yes, examples
from tinyagi.cli.providers import PROVIDER_NAMES, provider_named
from tinyagi.cli.terminal import (
    WrongCall,
    confirm,
    new_id,
    note,
    option_or_prompt,
    print_fields,
    print_json,
    print_table,
    say,
)

if TYPE_CHECKING:
    from tinyagi.api.agents import AgentFields
    from tinyagi.cli.settings_backend import SettingsBackend
    from tinyagi.client.client import AsyncClient

app = typer.Typer(help="Add, show, change and remove agents.", no_args_is_help=True)

ProviderOption = Annotated[
    str | None, typer.Option("--provider", "-p", help=f"{PROVIDER_NAMES}. Without it, the default.")
]
ModelOption = Annotated[str | None, typer.Option("--model", "-m", help="A model or an alias such as sonnet.")]


@app.command("list", epilog=examples("tinyagi agent list", "tinyagi agent list --json"))
def list_agents(ctx: typer.Context, as_json: Json = False) -> None:
    """List all agents."""
    agents = edit_settings(ctx, lambda backend: backend.agents())
    if as_json:
        print_json(agents)
        return
    print_table(
        ("agent!", "name", "provider", "model"),
        [(f"@{name}", agent.name, agent.provider or "(default)", agent.model) for name, agent in agents.items()],
        empty="There are no agents. Add one: tinyagi agent add coder",
    )


@app.command("show", epilog=examples("tinyagi agent show coder"))
def show_agent(ctx: typer.Context, agent: AgentArgument, as_json: Json = False) -> None:
    """Show one agent with its settings and its teams."""
    fields, teams = edit_settings(ctx, lambda backend: _look_up(backend, agent))
    if as_json:
        print_json({"id": agent, **fields.model_dump(exclude_none=True), "teams": teams})
        return
    stored = fields.model_dump(exclude_none=True)
    print_fields([("agent", f"@{agent}"), *stored.items(), ("teams", ", ".join(teams))])


@app.command("add", epilog=examples("tinyagi agent add", "tinyagi agent add coder --provider claude --model sonnet"))
def add_agent(
    ctx: typer.Context,
    agent: Annotated[str | None, typer.Argument(help="Its id: lowercase letters, digits, - and _.")] = None,
    name: Annotated[str | None, typer.Option(help="What people call it.")] = None,
    provider: ProviderOption = None,
    model: ModelOption = None,
    prompt: Annotated[str | None, typer.Option(help="Its system prompt.")] = None,
    prompt_file: Annotated[Path | None, typer.Option(help="A file with its system prompt.")] = None,
    directory: Annotated[Path | None, typer.Option("--directory", "-d", help="Its working directory.")] = None,
    api_access: Annotated[
        str | None, typer.Option(help="What its token may call: skills (only what they need) or all.")
    ] = None,
) -> None:
    """Add an agent; asks for missing options."""
    agent = new_id(agent, "AGENT", "Id of the new agent")
    default_provider = edit_settings(ctx, lambda backend: _check_new(backend, agent))
    name = option_or_prompt(name, "--name", "Its name", default=agent.replace("-", " ").replace("_", " ").title())
    wanted = option_or_prompt(provider, "--provider", f"Its provider ({PROVIDER_NAMES})", default=default_provider)
    provider = edit_settings(ctx, lambda backend: provider_named(backend, wanted))
    if provider != "scripted":
        model = option_or_prompt(model, "--model", "Its model; empty for the provider's own", default="") or None
    fields: dict[str, object] = {
        "name": name,
        "provider": provider,
        "model": model,
        "system_prompt": prompt,
        "prompt_file": None if prompt_file is None else str(prompt_file.expanduser().absolute()),
        "working_directory": None if directory is None else str(directory.expanduser().absolute()),
        "api_access": api_access,
    }
    edit_settings(ctx, lambda backend: _put(backend, agent, fields))
    _note_missing_program(agent, provider)
    say(f'Added agent @{agent}. Try: tinyagi send "@{agent} hello" --wait')


@app.command(
    "remove", epilog=examples("tinyagi agent remove coder", "tinyagi agent remove coder --messages dead --yes")
)
def remove_agent(
    ctx: typer.Context,
    agent: AgentArgument,
    messages: Annotated[
        str | None, typer.Option(help="What to do with its waiting messages: dead, or move:<agent>.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Remove an agent from the settings and from its teams; its workspace and its history are kept."""
    if messages is not None and messages != "dead" and not messages.startswith("move:"):
        raise WrongCall(f"--messages: {messages!r} is neither dead nor move:<agent>. Use dead or move:<agent>.")
    confirm(f"Remove @{agent}?", yes=yes)
    removed = call_daemon(ctx, lambda client: client.agents.delete(agent, messages=messages))
    say(f"Removed agent @{agent}. Messages without a recipient go to @{removed.default_agent}.")
    if removed.messages:
        note(f"{removed.messages} messages were waiting for it.")
    for team, leader in removed.leaders.items():
        note(f"@{leader} leads #{team} now.")


@app.command("reset", epilog=examples("tinyagi agent reset coder", "tinyagi agent reset coder writer"))
def reset_agents(ctx: typer.Context, agents: Annotated[list[str], typer.Argument(help="Ids of agents.")]) -> None:
    """Start a new session with the next message; memory and history are kept."""

    async def reset(client: "AsyncClient") -> None:
        for agent in (name.removeprefix("@") for name in agents):
            await client.agents.reset(agent)
            say(f"@{agent} starts a new session with its next message.")

    call_daemon(ctx, reset)


@app.command("provider", epilog=examples("tinyagi agent provider coder", "tinyagi agent provider coder codex -m gpt"))
def agent_provider(
    ctx: typer.Context,
    agent: AgentArgument,
    provider: Annotated[str | None, typer.Argument(help=f"{PROVIDER_NAMES}.")] = None,
    model: ModelOption = None,
    as_json: Json = False,
) -> None:
    """Show or change the provider and the model of an agent."""
    fields, _ = edit_settings(ctx, lambda backend: _look_up(backend, agent))
    if provider is not None or model is not None:
        wanted = provider
        provider = None if wanted is None else edit_settings(ctx, lambda backend: provider_named(backend, wanted))
        fields_to_set = {name: value for name, value in {"provider": provider, "model": model}.items() if value}
        before = edit_settings(ctx, lambda backend: _stored_model(backend, agent))
        edit_settings(ctx, lambda backend: _put(backend, agent, fields_to_set))
        fields, _ = edit_settings(ctx, lambda backend: _look_up(backend, agent))
        if before and edit_settings(ctx, lambda backend: _stored_model(backend, agent)) is None:
            note(f"{provider} does not know the model {before}, so it was removed from @{agent}.")
        _note_missing_program(agent, fields.provider)
    if as_json:
        print_json({"agent": agent, "provider": fields.provider, "model": fields.model})
        return
    no_model = "no model" if fields.provider == "scripted" else "its default model"
    say(f"@{agent}: {fields.provider or 'the default provider'}, {fields.model or no_model}")


def _note_missing_program(agent: str, provider: str | None) -> None:
    """Warn at once when the agent's program is missing, instead of at its first message."""
    import shutil

    from tinyagi.daemon.provider_check import TOOLS

    tool = TOOLS.get(provider or "")
    if tool is not None and shutil.which(tool.program) is None:
        note(
            f"The program {tool.program} is not on the PATH. Install it: {tool.install}, "
            f"or choose another provider: tinyagi setup --agent {agent}"
        )


async def _look_up(backend: "SettingsBackend", agent: str) -> "tuple[AgentFields, list[str]]":
    agents, teams = await backend.agents(), await backend.teams()
    if agent not in agents:
        raise WrongCall(f"There is no agent {agent!r}. There are: {', '.join(agents)}.")
    return agents[agent], [name for name, team in teams.items() if agent in (team.agents or ())]


async def _stored_model(backend: "SettingsBackend", agent: str) -> object:
    """The agent's model in the settings; None for the default."""
    found: object = await backend.settings()
    for name in ("agents", agent, "model"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


async def _check_new(backend: "SettingsBackend", agent: str) -> str:
    """The default provider; raise WrongCall when the id is taken."""
    if agent in await backend.agents():
        raise WrongCall(f"There is already an agent {agent!r}. See it: tinyagi agent show {agent}")
    models = (await backend.settings()).get("models")
    provider = models.get("provider") if isinstance(models, dict) else None
    return provider if isinstance(provider, str) else "anthropic"


async def _put(backend: "SettingsBackend", agent: str, fields: Mapping[str, object]) -> None:
    from tinyagi.api.agents import AgentFields

    present = {name: value for name, value in fields.items() if value is not None}
    await backend.put_agent(agent, AgentFields.model_validate(present))
