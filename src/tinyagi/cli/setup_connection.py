"""Builds and tests the connection for `tinyagi setup`: provider, endpoint, key and model."""

import asyncio
import shutil
import socket
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import typer
from rich.console import Console

from tinyagi.cli.error_boundary import FAILED
from tinyagi.cli.terminal import WrongCall, can_ask, note, option_or_prompt
from tinyagi.daemon.provider_check import CheckFailed, KeyRefused, check_provider, models_of
from tinyagi.domain.ids import AgentId, is_valid_id
from tinyagi.domain.texts import one_line
from tinyagi.settings.agent_setup import AgentSetup, NotConfigured, agent_setup
from tinyagi.settings.environment import snapshot
from tinyagi.settings.home import Home
from tinyagi.settings.model import Settings
from tinyagi.settings.offers import (
    OFFERS,
    ModelConnection,
    Offer,
    default_agent_of,
    has_key,
    has_model,
    is_address,
    model_connection_of,
    offer_of,
    patch_of,
    stored_offer,
    users_of,
)
from tinyagi.settings.parse import parse_settings
from tinyagi.settings.patches import edited

OLLAMA_PORT: Final = 11434
_MAX_LISTED: Final = 15

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """The command-line options for the connection."""

    provider: str | None
    model: str | None
    api_key: str | None
    base_url: str | None
    wire: str | None
    agent: str | None
    agent_name: str | None


@dataclass(slots=True)
class Trial:
    """Tests a connection before it is stored."""

    home: Home
    raw: Mapping[str, object]
    """The stored settings, before the change."""
    asks: bool
    checks: bool
    """False with --no-check, which stores a connection that does not work."""
    accepted: str | None = None
    """The failure that the person accepted; it is not reported again."""

    def models(self, draft: ModelConnection) -> tuple[ModelConnection, tuple[str, ...]]:
        """The connection with a working key, and the models that the endpoint lists; raise CheckFailed."""
        offer = draft.offer
        if offer.program or offer.harness != "api" or offer.provider == "scripted":
            return draft, ()
        is_ollama = offer.id == "ollama"
        try:
            draft, models = self._call(draft, "Listing the models", lambda setup: models_of(setup, snapshot()))
        except CheckFailed as error:
            if is_ollama:
                start = "Start it with `ollama serve`, or give its address with --base-url."
                raise CheckFailed(f"{error} {start} Nothing was changed.") from None
            if self.checks:
                self._accept(draft, error, "Nothing was changed.")
            elif self.asks:
                note(self._sentence(draft, error))
            return draft, ()
        if is_ollama and not models:
            raise CheckFailed("Ollama has no models yet. Get one, such as `ollama pull llama3.2`. Nothing was changed.")
        return draft, models

    def check(self, draft: ModelConnection) -> tuple[ModelConnection, str | None]:
        """The connection with a working key, and the result of the check; raise CheckFailed."""
        if not self.checks or self.accepted:
            return draft, self.accepted
        try:
            return self._call(draft, "Testing the model", lambda setup: check_provider(setup, snapshot()))
        except CheckFailed as error:
            return draft, self._accept(draft, error, "Nothing was changed; --no-check stores it anyway.")

    def others_changed(self, draft: ModelConnection) -> list[str]:
        """The other agents whose provider, model or key would change."""
        before, after = parse_settings(self.raw), self._settings_after(draft)
        return [
            name
            for name in before.agents
            if name != draft.agent and self._uses(before, name) != self._uses(after, name)
        ]

    def _uses(self, settings: Settings, agent: str) -> object:
        try:
            setup = agent_setup(settings, AgentId(agent), self.home)
        except NotConfigured:
            return None
        return setup.adapter, setup.model, setup.endpoint

    def _call(
        self, draft: ModelConnection, status: str, request: Callable[[AgentSetup], Coroutine[None, None, T]]
    ) -> tuple[ModelConnection, T]:
        """Send the request; on a refused key, let the person type another. Return the connection and the answer."""
        while True:
            setup = agent_setup(self._settings_after(draft), AgentId(draft.agent), self.home)
            try:
                with Console(stderr=True).status(status):
                    return draft, asyncio.run(request(setup))
            except KeyRefused:
                key = ask_another_key(has_one=bool(setup.endpoint.api_key)) if self.asks and self.checks else None
                if key is None:
                    raise
                draft = replace(draft, api_key=key)

    def _accept(self, draft: ModelConnection, error: CheckFailed, remedy: str) -> str:
        """Ask whether to store a failing connection anyway; raise CheckFailed or Exit otherwise."""
        sentence = self._sentence(draft, error)
        if not self.asks or isinstance(error, KeyRefused):
            raise CheckFailed(f"{sentence} {remedy}") from None
        note(sentence)
        if not typer.confirm("Store this anyway?", default=False, err=True):
            note("Nothing was changed.")
            raise typer.Exit(FAILED)
        self.accepted = f"Not working yet: {sentence}"
        return self.accepted

    def _sentence(self, draft: ModelConnection, error: CheckFailed) -> str:
        """The failure message, which names settings.json only for a stored key."""
        if not isinstance(error, KeyRefused) or (draft.api_key is None and has_key(self.raw, draft.offer)):
            return str(error)
        if draft.api_key is not None:
            return error.refusal
        variable = draft.offer.variable
        is_set = variable is not None and snapshot().get(variable)
        return f"{error.refusal} {f'Check {variable}.' if is_set else 'Give a key: --key-env NAME or --api-key-stdin.'}"

    def _settings_after(self, draft: ModelConnection) -> Settings:
        """The settings with the connection; raise InvalidSettings when they are invalid."""
        return parse_settings(edited(self.raw, patch_of(self.raw, draft), replace=False).settings)


def connection_for(trial: Trial, options: ConnectionOptions, *, asks_all: bool) -> ModelConnection:
    """Build the connection from options, then prompts, then stored settings, then the offer's defaults."""
    raw = trial.raw
    agent = (options.agent or default_agent_of(raw)).removeprefix("@")
    if not is_valid_id(agent):
        raise WrongCall(f"--agent: {agent!r} is not an id; use up to 64 lowercase letters, digits, - and _.")
    current = model_connection_of(raw, agent)
    is_custom = options.base_url is not None and options.provider is None and current.offer.custom_id is None
    chosen = choose_offer("custom" if is_custom else options.provider, raw, current.offer, ask=asks_all)
    offer = _endpoint(chosen, options, asks=trial.asks, asks_all=asks_all)
    agent_only = options.agent is not None and has_model(raw)
    others = [f"@{name}" for name in users_of(raw, offer.provider) if name != agent]
    if agent_only and others and offer != chosen:
        raise WrongCall(
            f"{offer.provider} is at {chosen.base_url} and is also used by {', '.join(others)}. "
            "Connect another endpoint with --provider custom:<id>, or leave out --agent to change it for all."
        )
    model = options.model or (current.model if chosen == current.offer else None)
    key = _key(raw, offer, options.api_key, asks=trial.asks, asks_all=asks_all)
    draft = ModelConnection(offer, agent, model, key, options.agent_name, agent_only)
    if options.model is None and (asks_all or (model is None and offer.model is None)):
        draft = _with_model(trial, draft)
    if draft.model is None:
        draft = replace(draft, model=offer.model)
    if draft.model is None and offer.custom_id is not None and offer.harness == "api":
        raise WrongCall(f"--model is missing: {offer.id} has no default model.")
    return draft


def _with_model(trial: Trial, draft: ModelConnection) -> ModelConnection:
    """The connection with a model that the endpoint lists or the person types."""
    draft, listed = trial.models(draft)
    offer = draft.offer
    if trial.asks and offer.id != "scripted":
        is_needed = offer.custom_id is not None and offer.harness == "api"
        return replace(draft, model=pick_model(listed, draft.model or offer.model, is_needed=is_needed))
    return replace(draft, model=listed[0]) if offer.custom_id is not None and listed else draft


def _endpoint(offer: Offer, options: ConnectionOptions, *, asks: bool, asks_all: bool) -> Offer:
    """The offer with the address and the API format from options or prompts."""
    if offer.custom_id is None:
        if options.base_url or options.wire:
            raise WrongCall(f"{offer.id} has its own address; --base-url and --wire are for custom and ollama.")
        return offer
    if options.base_url is not None and not is_address(options.base_url):
        raise WrongCall("--base-url: this is not an address; use http(s)://host/path without a password.")
    url = options.base_url or offer.base_url
    asks_address = asks and options.base_url is None and (url is None or (asks_all and offer.id == "custom"))
    if asks_address:
        url = ask_address(url)
    if url is None:
        raise WrongCall("--base-url is missing: the address of the endpoint, http(s)://host/path.")
    wire = options.wire or offer.wire
    if options.wire or (asks_address and offer.harness == "api"):
        wire = option_or_prompt(
            options.wire, "--wire", "Its API format", default=offer.wire, choices=("openai", "anthropic")
        )
    return replace(offer, base_url=url, wire=wire)


def _key(raw: Mapping[str, object], offer: Offer, option: str | None, *, asks: bool, asks_all: bool) -> str | None:
    """The key to store; None uses the stored key, the environment's or none. Raise WrongCall."""
    if option is not None:
        return option
    found = snapshot().get(offer.variable) if offer.variable else None
    is_stored, key = has_key(raw, offer), None
    if asks and (offer.variable or offer.id == "custom") and (asks_all or not (is_stored or found)):
        key = ask_key(offer, is_stored=is_stored, is_set=bool(found))
    if key is None and found and not is_stored and offer.custom_id is not None:
        # Only the official endpoints read their key from the environment.
        key = found
    if offer.needs_key and not (key or is_stored or found):
        program = " To use the maker's program instead: --provider claude or codex." if offer.maker else ""
        raise WrongCall(f"{offer.id} needs a key: --key-env NAME, --api-key-stdin, or set {offer.variable}.{program}")
    return key


def choose_offer(name: str | None, raw: Mapping[str, object], current: Offer, *, ask: bool) -> Offer:
    """The named offer, else the one the person picks, else the current one; with its stored address."""
    if name is None and ask:
        name = _pick_offer(current, snapshot())
    if name is None or name == current.id or (current.custom_id is not None and name == current.provider):
        return current
    found = offer_of(name)
    if found is None:
        ids = ", ".join(offer.id for offer in OFFERS)
        raise WrongCall(f"--provider: {one_line(name)!r} is not one of {ids} or custom:<id>.")
    return stored_offer(raw, found)


def _pick_offer(current: Offer, environment: Mapping[str, str]) -> str:
    note("Which model should your agents use?")
    default = current.id if current.id != "scripted" else best_offer(environment)
    for number, offer in enumerate(OFFERS, 1):
        note(f"  {number}  {offer.id:<11} {offer.title}{_found(offer, environment)}")
    while True:
        answer: str = typer.prompt("Number or name", default=default, err=True).strip()
        if answer.isdecimal() and 1 <= int(answer) <= len(OFFERS):
            return OFFERS[int(answer) - 1].id
        if offer_of(answer) is not None:
            return answer
        note(f"Please type a number from 1 to {len(OFFERS)}, or one of the names.")


def best_offer(environment: Mapping[str, str]) -> str:
    """The first offer that works without setup: an installed program, a key that is set, Ollama, else no model."""
    ready = (offer.id for offer in OFFERS if _found(offer, environment))
    return next(ready, "scripted")


def _found(offer: Offer, environment: Mapping[str, str]) -> str:
    if offer.program and shutil.which(offer.program, path=environment.get("PATH")):
        return "  (installed)"
    if offer.id == "ollama" and _listens(OLLAMA_PORT):
        return "  (running)"
    return f"  ({offer.variable} is set)" if offer.variable and environment.get(offer.variable) else ""


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=0.2).close()
    except OSError:
        return False
    return True


def ask_address(default: str | None) -> str:
    """Ask for the endpoint's address until it is valid."""
    while True:
        answer: str = typer.prompt("Address of the endpoint, http(s)://host/path", default=default, err=True).strip()
        if is_address(answer):
            return answer
        note("This is not an address; use http(s)://host/path without a password.")


def pick_model(models: Sequence[str], default: str | None, *, is_needed: bool) -> str | None:
    """Ask for a model, and offer those that the endpoint lists."""
    for number, model in enumerate(models[:_MAX_LISTED], 1):
        note(f"  {number}  {one_line(model, 80)}")
    if len(models) > _MAX_LISTED:
        note(f"  … and {len(models) - _MAX_LISTED} more; you can type any of their names")
    default = default or (models[0] if models else None)
    answer: str
    if default is None and not is_needed:
        answer = typer.prompt("Model (Enter for its own default)", default="", show_default=False, err=True).strip()
    else:
        answer = typer.prompt("Model", default=default, err=True).strip()
    if answer.isdecimal() and 1 <= int(answer) <= min(len(models), _MAX_LISTED):
        return models[int(answer) - 1]
    return answer or None


def ask_key(offer: Offer, *, is_stored: bool, is_set: bool) -> str | None:
    """Ask for a key without echo; None keeps the stored one or the environment's."""
    if not can_ask():
        return None
    hint = "Enter keeps the stored one" if is_stored else f"Enter uses {offer.variable}" if is_set else ""
    hint = hint or ("Enter for none" if not offer.needs_key else "it is stored in settings.json, readable by you only")
    return option_or_prompt(None, "--key-env", f"API key ({hint})", hidden=True, default="") or None


def ask_another_key(*, has_one: bool) -> str | None:
    """Ask for another key after a refusal; None when the person gives up."""
    refusal = "The endpoint refused this key. Try another" if has_one else "The endpoint wants a key. Type it"
    answer: str = typer.prompt(f"{refusal} (Enter stops)", default="", show_default=False, hide_input=True, err=True)
    return answer.strip() or None
