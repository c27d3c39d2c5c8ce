"""`tinyagi setup`: connects a model and sets up the first agent and team, with prompts or with options only."""

import shlex
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from tinyagi.cli.context import edit_settings, installation
from tinyagi.cli.options import Json, Yes
from tinyagi.cli.terminal import WrongCall, can_ask, note, print_json, say
from tinyagi.settings.environment import snapshot

if TYPE_CHECKING:
    from tinyagi.cli.settings_backend import SettingsBackend
    from tinyagi.cli.setup_connection import ConnectionOptions, Trial
    from tinyagi.settings.home import Home
    from tinyagi.settings.model import Settings

ProviderOption = Annotated[
    str | None,
    typer.Option(
        "--provider", "-p",
        help="claude, codex, opencode (programs); anthropic, openai, openrouter (keys); ollama; custom; scripted.",
    ),
]  # fmt: skip


def setup(
    ctx: typer.Context,
    provider: ProviderOption = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="A model or an alias such as sonnet.")] = None,
    key_env: Annotated[str | None, typer.Option(help="Store the key from this environment variable.")] = None,
    key_stdin: Annotated[bool, typer.Option("--api-key-stdin", help="Read the key from stdin and store it.")] = False,
    base_url: Annotated[str | None, typer.Option(help="The endpoint's address, http(s)://host/path.")] = None,
    wire: Annotated[str | None, typer.Option(help="The endpoint's API format: openai or anthropic.")] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", "-a", help="The agent; by default, the default agent.")
    ] = None,
    agent_name: Annotated[str | None, typer.Option(help="What people call it, if it is new.")] = None,
    team: Annotated[str | None, typer.Option(help="Add a team with this id.")] = None,
    members: Annotated[str | None, typer.Option(help="Its members, separated by commas; the first one leads.")] = None,
    sample_team: Annotated[
        bool, typer.Option("--sample-team", help="Add the scripted team #crew, which works without a key.")
    ] = False,
    check: Annotated[bool, typer.Option("--check/--no-check", help="Test the model once before storing.")] = True,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Connect a model, and set up the first agent and team.

    Without options it asks; without a terminal it shows what is set up. Run it again to change a part of it.
    """
    from tinyagi.cli.setup_connection import ConnectionOptions, Trial
    from tinyagi.settings.first_run import ensure_settings

    place = installation(ctx)
    if place.url is not None:
        raise WrongCall("Run tinyagi setup on the machine of the daemon, without --url: it reads the home's settings.")
    ensure_settings(place.home)
    key = _key(key_env, from_stdin=key_stdin)
    names_connection = any((provider, model, key, base_url, wire, agent, agent_name))
    names_team = bool(team or members or sample_team)
    asks = can_ask() and not yes and not as_json
    if yes and not names_connection and not names_team:
        names_connection, provider = True, _best_for_new_home(place.home)
    options = ConnectionOptions(provider, model, key, base_url, wire, agent, agent_name)
    done: dict[str, object] = {}
    if names_connection or (asks and not names_team):
        trial = Trial(place.home, _settings(place.home)[0], asks=asks, checks=check)
        # The option --agent alone does not choose a model.
        asks_all = asks and not any((provider, model, key, base_url, wire))
        done |= _connect(ctx, trial, options, asks_all=asks_all)
    if asks and not names_connection and not names_team and not _settings(place.home)[1].teams:
        note("A sample team shows how agents hand work to each other. It is scripted and needs no key.")
        sample_team = typer.confirm("Add the sample team #crew?", default=True, err=True)
    if sample_team:
        done |= _add_sample_team(ctx, place.home)
    if team or members:
        done |= _add_team(ctx, place.home, team, members)
    _finish(ctx, place.home, done, as_json=as_json)


def _connect(ctx: typer.Context, trial: "Trial", options: "ConnectionOptions", *, asks_all: bool) -> dict[str, object]:
    from tinyagi.cli.setup_connection import connection_for
    from tinyagi.settings.offers import patch_of

    connection, checked = trial.check(connection_for(trial, options, asks_all=asks_all))
    others = trial.others_changed(connection)
    is_live = edit_settings(ctx, lambda backend: _update(backend, patch_of(trial.raw, connection)))
    if others:
        names = ", ".join(f"@{name}" for name in others)
        note(f"This also changed {names}, because agents share the settings of provider, model and key.")
    return {"agent": connection.agent, "check": checked, "live": is_live}


def _add_sample_team(ctx: typer.Context, home: "Home") -> dict[str, object]:
    from tinyagi.demo.scenario import SAMPLE_MEMBERS, SAMPLE_TEAM, write_sample_scripts

    done = _store_team(ctx, home, SAMPLE_TEAM, list(SAMPLE_MEMBERS), {"provider": "scripted"})
    write_sample_scripts(_settings(home)[1], home)
    return done


def _add_team(ctx: typer.Context, home: "Home", team: str | None, members: str | None) -> dict[str, object]:
    from tinyagi.settings.offers import default_agent_of, model_connection_of

    if not team or not members:
        raise WrongCall("A team needs both: --team ID --members first,second")
    raw, _ = _settings(home)
    used = model_connection_of(raw, default_agent_of(raw))
    fields = {"provider": used.offer.provider, **({"model": used.model} if used.model else {})}
    ids = [name.strip().removeprefix("@") for name in members.split(",") if name.strip()]
    return _store_team(ctx, home, team, list(dict.fromkeys(ids)), fields)


def _store_team(
    ctx: typer.Context, home: "Home", team: str, members: list[str], fields: Mapping[str, object]
) -> dict[str, object]:
    from tinyagi.settings.offers import first_team_patch

    raw, settings = _settings(home)
    existing = settings.teams.get(team)
    if existing is not None and list(existing.agents) != members:
        see = f"{_command(ctx)} team show {team}"
        raise WrongCall(f"There is already a team #{team} with other members. See it: {see}")
    patch = first_team_patch(raw, team, members, fields)
    is_live = edit_settings(ctx, lambda backend: _update(backend, patch))
    return {"team": team, "members": members, "live": is_live}


def _finish(ctx: typer.Context, home: "Home", done: Mapping[str, object], *, as_json: bool) -> None:
    from tinyagi.daemon.pidfile import find_daemon
    from tinyagi.settings.offers import default_agent_of, model_connection_of

    raw, settings = _settings(home)
    now = model_connection_of(raw, default_agent_of(raw))
    if as_json:
        teams = {name: list(team.agents) for name, team in settings.teams.items()}
        connected = {"provider": now.offer.provider, "model": now.model, "agent": now.agent, "check": done.get("check")}
        print_json({**connected, "agents": list(settings.agents), "teams": teams, "settings": str(home.settings_file)})
        return
    agent = done.get("agent", now.agent)
    say(f"@{agent} uses {model_connection_of(raw, str(agent))}.")
    if agent != now.agent:
        say(f"Messages without a recipient go to @{now.agent}, which uses {now}.")
    if done.get("check"):
        say(str(done["check"]))
    for name, team in settings.teams.items():
        say(f"Team #{name}: {', '.join(f'@{member}' for member in team.agents)}; @{team.leader_agent} leads.")
    if not done:
        say(
            f"No options were given, so nothing was changed. The settings are in {home.settings_file}. "
            f"See the options: {_command(ctx)} setup --help"
        )
    tinyagi = _command(ctx)
    say("Next:")
    if not (done.get("live") or find_daemon(home).is_up):
        say(f"  {tinyagi} start")
    say(f'  {tinyagi} send "@{agent} hello" --wait')
    if settings.teams:
        team_id = done.get("team") or next(iter(settings.teams))
        say(f'  {tinyagi} send "@{team_id} build a paper plane" --wait')


def _command(ctx: typer.Context) -> str:
    """The `tinyagi` command line for the same home."""
    folder = installation(ctx).folder
    return "tinyagi" if folder is None else f"tinyagi --home {shlex.quote(str(folder))}"


def _best_for_new_home(home: "Home") -> str | None:
    """The provider for --yes alone: the best one on this machine, unless a model is connected already."""
    from tinyagi.cli.setup_connection import best_offer
    from tinyagi.settings.offers import default_agent_of, model_connection_of

    raw, _ = _settings(home)
    is_new = model_connection_of(raw, default_agent_of(raw)).offer.id == "scripted"
    return best_offer(snapshot()) if is_new else None


def _key(variable: str | None, *, from_stdin: bool) -> str | None:
    if variable is not None and from_stdin:
        raise WrongCall("--key-env and --api-key-stdin both name a key; use one of them.")
    if variable is not None:
        key = snapshot().get(variable, "").strip()
        if not key:
            raise WrongCall(f"--key-env: the variable {variable} is empty or not set.")
        return key
    if not from_stdin:
        return None
    key = sys.stdin.readline().strip()
    if not key:
        raise WrongCall("--api-key-stdin: there is no key on stdin.")
    return key


def _settings(home: "Home") -> "tuple[Mapping[str, object], Settings]":
    """The stored settings, with secrets, raw and parsed."""
    from tinyagi.settings.parse import parse_settings
    from tinyagi.settings.settings_file import SettingsFile

    loaded = SettingsFile(home).read()
    return ({}, parse_settings({})) if loaded is None else (loaded.raw, loaded.settings)


async def _update(backend: "SettingsBackend", patch: Mapping[str, object]) -> bool:
    """Store the patch; True when a running daemon applies it at once."""
    await backend.update(patch)
    return backend.is_live
