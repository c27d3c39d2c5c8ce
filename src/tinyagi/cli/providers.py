"""`tinyagi provider` and `tinyagi model`: the default provider and model, custom endpoints, and their check."""

import sys
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tinyagi.cli.context import edit_settings, installation
from tinyagi.cli.error_boundary import FAILED
from tinyagi.cli.options import CustomProvider, Json, Yes, examples
from tinyagi.cli.terminal import WrongCall, can_ask, confirm, new_id, option_or_prompt, print_json, print_table, say
from tinyagi.domain.texts import one_line
from tinyagi.settings.environment import snapshot

if TYPE_CHECKING:
    from tinyagi.api.settings import ProviderFields
    from tinyagi.cli.settings_backend import SettingsBackend
    from tinyagi.settings.home import Home
    from tinyagi.settings.model import Settings

app = typer.Typer(help="Choose the default provider; add your own endpoints.", no_args_is_help=True)

BUILT_IN: Final[Mapping[str, str]] = {
    "anthropic": "the program claude",
    "openai": "the program codex",
    "opencode": "the program opencode",
    "api": "Anthropic's and OpenAI's endpoints, called directly",
    "scripted": "answers from script.toml, without a model",
}
KEYS: Final = ("anthropic", "openai")
"""Providers whose key is in `models`."""
HARNESSES: Final = ("claude", "codex", "api")
CUSTOM: Final = "custom:"

CHECK_EXAMPLES = examples("tinyagi provider check", "tinyagi provider check ollama --model llama3.2")

ProviderAndModel = tuple[str, str | None]
"""A provider and its model, if one is set."""

PROVIDER_NAMES: Final = (
    "claude or anthropic, codex or openai, opencode (programs), api (with a key), ollama, openrouter, "
    "custom:<id>, scripted"
)


@app.command("show", epilog=examples("tinyagi provider show"))
def show_provider(ctx: typer.Context, as_json: Json = False) -> None:
    """Show the default provider and model."""
    provider, model = edit_settings(ctx, _default)
    if as_json:
        print_json({"provider": provider, "model": model})
        return
    say(f"{provider}, {model or 'its own default model'}")


@app.command("set", epilog=examples("tinyagi provider set claude --model opus", "tinyagi provider set custom:local"))
def set_provider(
    ctx: typer.Context,
    provider: Annotated[str, typer.Argument(help=f"{PROVIDER_NAMES}.")],
    model: Annotated[str | None, typer.Option("--model", "-m", help="Its default model.")] = None,
    api_key: Annotated[
        str | None, typer.Option(help="The API key to store; - asks for it, or reads it from stdin.")
    ] = None,
    oauth_token: Annotated[
        str | None, typer.Option(help="The OAuth token for anthropic; - asks for it, or reads it from stdin.")
    ] = None,
) -> None:
    """Choose the default provider."""
    wanted = provider
    provider = edit_settings(ctx, lambda backend: provider_named(backend, wanted))
    maker: dict[str, object] = {
        "api_key": _secret(api_key, "--api-key"),
        "oauth_token": _secret(oauth_token, "--oauth-token"),
    }
    maker = {name: value for name, value in maker.items() if value}
    if maker and (provider not in KEYS or ("oauth_token" in maker and provider != "anthropic")):
        raise WrongCall(
            f"{provider} has no such secret in `models`. For a custom provider, give --key to `tinyagi provider add`."
        )

    async def change(backend: "SettingsBackend") -> tuple[str, str | None]:
        patch: dict[str, object] = {"provider": provider}
        if maker:
            patch[provider] = maker
        await backend.update({"models": patch})
        if model is not None:
            await backend.update(_model_patch(provider, model))
        return await _default(backend)

    chosen, its_model = edit_settings(ctx, change)
    say(f"Agents without a provider use {chosen}, {its_model or 'its own default model'}.")


@app.command("list", epilog=examples("tinyagi provider list"))
def list_providers(ctx: typer.Context, as_json: Json = False) -> None:
    """List the built-in providers and those you added."""
    default, custom = edit_settings(ctx, _all)
    if as_json:
        print_json({"default": default, "builtIn": BUILT_IN, "custom": custom})
        return
    rows = [(name, what, "default" if name == default else "") for name, what in BUILT_IN.items()]
    for name, fields in custom.items():
        full = f"{CUSTOM}{name}"
        rows.append((full, f"{fields.harness} at {fields.base_url}", "default" if full == default else ""))
    print_table(("provider", "what it calls", ""), rows, empty="")


@app.command(
    "add",
    epilog=examples("tinyagi provider add", "tinyagi provider add local --harness api --url http://localhost:8000/v1"),
)
def add_provider(
    ctx: typer.Context,
    provider: Annotated[str | None, typer.Argument(help="Its id; agents name it custom:<id>.")] = None,
    name: Annotated[str | None, typer.Option(help="What people call it.")] = None,
    harness: Annotated[
        str | None, typer.Option(help=f"The program or client that calls it: {', '.join(HARNESSES)}.")
    ] = None,
    url: Annotated[str | None, typer.Option(help="Its address, http(s)://host/path.")] = None,
    key: Annotated[str | None, typer.Option(help="Its API key; - asks for it, or reads it from stdin.")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Its default model.")] = None,
    wire: Annotated[str | None, typer.Option(help="For harness api: openai or anthropic.")] = None,
) -> None:
    """Add your own endpoint; asks for missing options."""
    provider = new_id(provider and provider.removeprefix(CUSTOM), "PROVIDER", "Id of the new provider")
    fields: dict[str, object] = {
        "name": name or provider,
        "harness": option_or_prompt(harness, "--harness", "What calls it", default="api", choices=HARNESSES),
        "base_url": option_or_prompt(url, "--url", "Its address, http(s)://host/path"),
        "api_key": _secret("-" if key is None and can_ask() else key, "--key"),
        "model": model,
        "wire": wire,
    }

    async def add(backend: "SettingsBackend") -> None:
        from pydantic import ValidationError

        from tinyagi.api.settings import ProviderFields

        if provider in await backend.providers():
            raise WrongCall(f"There is already a provider {provider!r}. See it: tinyagi provider list")
        try:
            validated = ProviderFields.model_validate({key: value for key, value in fields.items() if value})
        except ValidationError:
            raise WrongCall(f"--wire: {wire!r} is not one of openai, anthropic.") from None
        await backend.put_provider(provider, validated)

    edit_settings(ctx, add)
    say(f"Added provider {CUSTOM}{provider}. Check it: tinyagi provider check {provider}")
    say(f"Use it for an agent: tinyagi agent provider AGENT {CUSTOM}{provider}")


@app.command("remove", epilog=examples("tinyagi provider remove local --yes"))
def remove_provider(ctx: typer.Context, provider: CustomProvider, yes: Yes = False) -> None:
    """Remove an endpoint that you added."""
    name = provider.removeprefix(CUSTOM)

    async def remove(backend: "SettingsBackend") -> None:
        if name not in await backend.providers():
            raise WrongCall(f"There is no provider {name!r}. See them: tinyagi provider list")
        await backend.delete_provider(name)

    confirm(f"Remove the provider {CUSTOM}{name}, with its key?", yes=yes)
    edit_settings(ctx, remove)
    say(f"Removed provider {CUSTOM}{name}.")


def model_command(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="A model or an alias such as sonnet; without one, it is shown.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show or choose the default model."""

    async def change(backend: "SettingsBackend") -> tuple[str, str | None]:
        if name is not None:
            provider, _ = await _default(backend)
            await backend.update(_model_patch(provider, name))
        return await _default(backend)

    provider, model = edit_settings(ctx, change)
    if as_json:
        print_json({"provider": provider, "model": model})
        return
    say(f"{provider}: {model or 'its own default model'}")


async def _default(backend: "SettingsBackend") -> tuple[str, str | None]:
    settings = await backend.settings()
    provider = _get(settings, "models", "provider") or "anthropic"
    path = _model_path(provider)
    model = None if path is None else _get(settings, *path)
    if provider == "api":
        model = model or _get(settings, "models", "anthropic", "model")
    return provider, model or ("sonnet" if provider in {"anthropic", "api"} else None)


async def _all(backend: "SettingsBackend") -> "tuple[str, Mapping[str, ProviderFields]]":
    return (await _default(backend))[0], await backend.providers()


def _model_patch(provider: str, model: str) -> dict[str, object]:
    place = _model_path(provider)
    if place is None:
        raise WrongCall(f"The provider {provider} has no models. Choose another: tinyagi provider set claude")
    *path, leaf = place
    patch: dict[str, object] = {leaf: model}
    for name in reversed(path):
        patch = {name: patch}
    return patch


def _model_path(provider: str) -> tuple[str, ...] | None:
    """Where the settings hold the default model of a provider; None for one that has no models."""
    if provider.startswith(CUSTOM):
        return ("custom_providers", provider.removeprefix(CUSTOM), "model")
    return None if provider == "scripted" else ("models", "openai" if provider == "api" else provider, "model")


def _get(settings: Mapping[str, object], *path: str) -> str | None:
    found: object = settings
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) else None


def _secret(value: str | None, option: str) -> str | None:
    """The secret; `-` reads it without echo, because the shell's history keeps command lines."""
    if value != "-":
        return value
    typed = (
        option_or_prompt(None, option, "The secret", hidden=True, default="")
        if can_ask()
        else sys.stdin.readline().strip()
    )
    return typed or None


def check_providers(
    ctx: typer.Context,
    provider: Annotated[
        str | None, typer.Argument(help=f"{PROVIDER_NAMES}. Without it, all providers that agents use.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="A model other than its default.")] = None,
    as_json: Json = False,
) -> None:
    """Check that keys, addresses and models work, with one short request each. Exit code 1 when one fails."""
    from tinyagi.settings.parse import parse_settings
    from tinyagi.settings.settings_file import SettingsFile

    place = installation(ctx)
    if place.url is not None:
        raise WrongCall("Run tinyagi provider check on the machine of the daemon, without --url: it reads stored keys.")
    loaded = SettingsFile(place.home).read()
    settings = parse_settings({}) if loaded is None else loaded.settings
    name = None if provider is None else stored_name(provider, settings.custom_providers)
    users = _users(settings) if name is None else {(name, model): ""}
    rows = [(*use, agents, *_checked(settings, use, place.home)) for use, agents in users.items()]
    if as_json:
        names = ("provider", "model", "agents", "ok", "result")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        table = [
            (name, model, agents, "works" if works else "FAILS", text) for name, model, agents, works, text in rows
        ]
        print_table(("provider", "model", "agents", "", "result"), table, empty="There are no agents.")
    if not all(row[3] for row in rows):
        raise typer.Exit(FAILED)


def _users(settings: "Settings") -> dict[ProviderAndModel, str]:
    users: dict[ProviderAndModel, str] = {}
    for name, agent in settings.agents.items():
        use = (agent.provider or settings.models.provider, agent.model)
        users[use] = f"{users[use]}, @{name}" if use in users else f"@{name}"
    return users


def _checked(settings: "Settings", use: ProviderAndModel, home: "Home") -> tuple[bool, str]:
    import asyncio

    from tinyagi.daemon.provider_check import CheckFailed, check_provider, setup_of
    from tinyagi.settings.agent_setup import NotConfigured

    try:
        return True, asyncio.run(check_provider(setup_of(settings, *use, home), snapshot()))
    except (CheckFailed, NotConfigured) as error:
        return False, str(error)


async def provider_named(backend: "SettingsBackend", name: str) -> str:
    """Like `stored_name`, with the custom providers of the home."""
    return stored_name(name, await backend.providers())


def stored_name(name: str, custom: Collection[str]) -> str:
    """The provider's name in settings.json; `custom` has the ids of `custom_providers`. Raise WrongCall."""
    from tinyagi.settings.model import CUSTOM, PROVIDERS
    from tinyagi.settings.offers import offer_of

    if name in PROVIDERS:
        return name
    offer = offer_of(name)
    if offer is None:
        if name in custom:
            return f"{CUSTOM}{name}"
        raise WrongCall(f"{one_line(name)!r} is not a provider; use {PROVIDER_NAMES}.")
    if offer.custom_id is not None and offer.custom_id not in custom:
        address = " --base-url URL" if offer.base_url is None else ""
        raise WrongCall(
            f"{one_line(name)} is not connected yet. Connect it first: tinyagi setup --provider {name}{address}"
        )
    return offer.provider
