"""`tinyagi provider` and `tinyagi model`: whom agents ask when they name nobody themselves."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tinyagi.cli.asking import answer, can_ask, confirm, new_id
from tinyagi.cli.context import at_desk
from tinyagi.cli.edge import WrongCall
from tinyagi.cli.options import CustomProvider, Json, Yes, examples
from tinyagi.cli.screen import print_json, print_table, say

if TYPE_CHECKING:
    from tinyagi.api.providers import ProviderFields
    from tinyagi.cli.settings_desk import SettingsDesk

app = typer.Typer(help="Choose the default provider; add endpoints of your own.", no_args_is_help=True)

BUILT_IN: Final[Mapping[str, str]] = {
    "anthropic": "the program claude",
    "openai": "the program codex",
    "opencode": "the program opencode",
    "api": "Anthropic's and OpenAI's endpoints, asked directly",
    "scripted": "rehearsed answers from script.toml; asks nobody",
}
KEYS: Final = ("anthropic", "openai")
"""Providers whose key stands in `models`."""
HARNESSES: Final = ("claude", "codex", "api")
CUSTOM: Final = "custom:"


@app.command("show", epilog=examples("tinyagi provider show"))
def show_provider(ctx: typer.Context, as_json: Json = False) -> None:
    """Show the provider and the model of agents that name none."""
    provider, model = at_desk(ctx, _default)
    if as_json:
        print_json({"provider": provider, "model": model})
        return
    say(f"{provider}, {model or 'its own default model'}")


@app.command("set", epilog=examples("tinyagi provider set anthropic --model opus", "tinyagi provider set custom:local"))
def set_provider(
    ctx: typer.Context,
    provider: Annotated[str, typer.Argument(help=f"{', '.join(BUILT_IN)} or custom:<id>")],
    model: Annotated[str | None, typer.Option("--model", "-m", help="The model of agents that name none.")] = None,
    api_key: Annotated[
        str | None, typer.Option(help="Stored for this provider; - asks for it, or reads it from stdin.")
    ] = None,
    oauth_token: Annotated[
        str | None, typer.Option(help="For anthropic; - asks for it, or reads it from stdin.")
    ] = None,
) -> None:
    """Choose the provider of agents that name none."""
    maker: dict[str, object] = {
        "api_key": _secret(api_key, "--api-key"),
        "oauth_token": _secret(oauth_token, "--oauth-token"),
    }
    maker = {name: value for name, value in maker.items() if value}
    if maker and (provider not in KEYS or ("oauth_token" in maker and provider != "anthropic")):
        raise WrongCall(f"{provider} has no such secret in `models`; a custom provider takes --key when it is added.")

    async def change(desk: "SettingsDesk") -> tuple[str, str | None]:
        patch: dict[str, object] = {"provider": provider}
        if maker:
            patch[provider] = maker
        await desk.update({"models": patch})
        if model is not None:
            await desk.update(_model_patch(provider, model))
        return await _default(desk)

    chosen, its_model = at_desk(ctx, change)
    say(f"Agents that name no provider use {chosen}, {its_model or 'its own default model'}.")


@app.command("list", epilog=examples("tinyagi provider list"))
def list_providers(ctx: typer.Context, as_json: Json = False) -> None:
    """List the built-in providers and those you have added."""
    default, custom = at_desk(ctx, _all)
    if as_json:
        print_json({"default": default, "builtIn": BUILT_IN, "custom": custom})
        return
    rows = [(name, what, "default" if name == default else "") for name, what in BUILT_IN.items()]
    for name, fields in custom.items():
        full = f"{CUSTOM}{name}"
        rows.append((full, f"{fields.harness} at {fields.base_url}", "default" if full == default else ""))
    print_table(("provider", "what it asks", ""), rows, empty="")


@app.command(
    "add",
    epilog=examples("tinyagi provider add", "tinyagi provider add local --harness api --url http://localhost:8000/v1"),
)
def add_provider(
    ctx: typer.Context,
    provider: Annotated[str | None, typer.Argument(help="Its id; agents name it custom:<id>.")] = None,
    name: Annotated[str | None, typer.Option(help="What people call it.")] = None,
    harness: Annotated[str | None, typer.Option(help=f"What speaks to it: {', '.join(HARNESSES)}.")] = None,
    url: Annotated[str | None, typer.Option(help="Its address, http(s)://host/path.")] = None,
    key: Annotated[str | None, typer.Option(help="Its API key; - asks for it, or reads it from stdin.")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="The model of agents that name none.")] = None,
    wire: Annotated[str | None, typer.Option(help="For harness api: openai or anthropic.")] = None,
) -> None:
    """Add an endpoint of your own; asks for what the options leave open."""
    provider = new_id(provider and provider.removeprefix(CUSTOM), "PROVIDER", "Id of the new provider")
    fields: dict[str, object] = {
        "name": name or provider,
        "harness": answer(harness, "--harness", "What speaks to it", default="api", choices=HARNESSES),
        "base_url": answer(url, "--url", "Its address, http(s)://host/path"),
        "api_key": _secret("-" if key is None and can_ask() else key, "--key"),
        "model": model,
        "wire": wire,
    }

    async def add(desk: "SettingsDesk") -> None:
        from pydantic import ValidationError  # noqa: PLC0415 - see cli.context

        from tinyagi.api.providers import ProviderFields  # noqa: PLC0415

        if provider in await desk.providers():
            raise WrongCall(f"There is a provider {provider!r} already. See it: tinyagi provider list")
        try:
            given = ProviderFields.model_validate({key: value for key, value in fields.items() if value})
        except ValidationError:
            raise WrongCall(f"--wire: {wire!r} is none of openai, anthropic.") from None
        await desk.put_provider(provider, given)

    at_desk(ctx, add)
    say(f"{CUSTOM}{provider} is here. Give it to an agent: tinyagi agent provider AGENT {CUSTOM}{provider}")


@app.command("remove", epilog=examples("tinyagi provider remove local --yes"))
def remove_provider(ctx: typer.Context, provider: CustomProvider, yes: Yes = False) -> None:
    """Remove an endpoint that you have added."""
    name = provider.removeprefix(CUSTOM)

    async def remove(desk: "SettingsDesk") -> None:
        if name not in await desk.providers():
            raise WrongCall(f"There is no provider {name!r}. See them: tinyagi provider list")
        await desk.delete_provider(name)

    confirm(f"Remove the provider {CUSTOM}{name}, with its key?", yes=yes)
    at_desk(ctx, remove)
    say(f"{CUSTOM}{name} is removed.")


def model_command(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="A model or an alias such as sonnet; without one, it is shown.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show or choose the model of agents that name none."""

    async def change(desk: "SettingsDesk") -> tuple[str, str | None]:
        if name is not None:
            provider, _ = await _default(desk)
            await desk.update(_model_patch(provider, name))
        return await _default(desk)

    provider, model = at_desk(ctx, change)
    if as_json:
        print_json({"provider": provider, "model": model})
        return
    say(f"{provider}: {model or 'its own default model'}")


async def _default(desk: "SettingsDesk") -> tuple[str, str | None]:
    settings = await desk.settings()
    provider = _get(settings, "models", "provider") or "anthropic"
    path = _model_path(provider)
    model = None if path is None else _get(settings, *path)
    if provider == "api":
        model = model or _get(settings, "models", "anthropic", "model")
    return provider, model or ("sonnet" if provider in {"anthropic", "api"} else None)


async def _all(desk: "SettingsDesk") -> "tuple[str, Mapping[str, ProviderFields]]":
    return (await _default(desk))[0], await desk.providers()


def _model_patch(provider: str, model: str) -> dict[str, object]:
    place = _model_path(provider)
    if place is None:
        raise WrongCall(f"The provider {provider} has no models. Choose another: tinyagi provider set anthropic")
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


def _secret(given: str | None, option: str) -> str | None:
    """A secret as given, or, for `-`, read unseen: what stands in a command line is in the shell's history."""
    if given != "-":
        return given
    typed = answer(None, option, "The secret", hidden=True, default="") if can_ask() else sys.stdin.readline().strip()
    return typed or None
