"""Two ways to edit the settings: through the daemon when it runs, else in the file."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Protocol

from tinyagi.api.agents import AgentFields
from tinyagi.api.settings import ProviderFields, SettingsObject
from tinyagi.api.teams import TeamFields
from tinyagi.cli.context import CLIENT_NAME, Installation
from tinyagi.cli.terminal import note
from tinyagi.client.client import AsyncClient
from tinyagi.client.errors import NotRunning
from tinyagi.settings.first_run import ensure_settings
from tinyagi.settings.home import Home
from tinyagi.settings.parse import unknown_settings
from tinyagi.settings.patches import (
    agent_patch,
    dropped_keys,
    listed_agents,
    provider_patch,
    provider_removal,
    section_of,
    team_patch,
    team_removal,
)
from tinyagi.settings.secrets import masked
from tinyagi.settings.settings_file import SettingsChange, SettingsFile


class SettingsBackend(Protocol):
    """Reads and changes settings. Secrets are masked; a put changes only the given fields."""

    @property
    def is_live(self) -> bool:
        """True when a daemon applies the change at once."""

    async def settings(self) -> SettingsObject: ...

    async def update(self, patch: Mapping[str, object]) -> tuple[str, ...]:
        """Merge the patch; null removes. Print warnings; return the settings that need a restart."""

    async def agents(self) -> Mapping[str, AgentFields]: ...

    async def put_agent(self, agent: str, fields: AgentFields) -> None: ...

    async def teams(self) -> Mapping[str, TeamFields]: ...

    async def put_team(self, team: str, fields: TeamFields) -> None: ...

    async def delete_team(self, team: str) -> None: ...

    async def providers(self) -> Mapping[str, ProviderFields]: ...

    async def put_provider(self, provider: str, fields: ProviderFields) -> None: ...

    async def delete_provider(self, provider: str) -> None: ...


@asynccontextmanager
async def open_backend(place: Installation) -> AsyncIterator[SettingsBackend]:
    """The daemon backend when this home's daemon answers, else the file backend."""
    address = place.address()
    async with AsyncClient(address.url, address.token, client_name=CLIENT_NAME) as client:
        is_running = address.is_known and await _answers(client, must=place.url is not None)
        yield DaemonBackend(client) if is_running else FileBackend(place.home)


async def _answers(client: AsyncClient, *, must: bool) -> bool:
    try:
        await client.status()
    except NotRunning:
        if must:
            raise
        return False
    return True


class DaemonBackend:
    """Settings through a running daemon."""

    is_live = True

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def settings(self) -> SettingsObject:
        return await self._client.settings.read()

    async def update(self, patch: Mapping[str, object]) -> tuple[str, ...]:
        saved = await self._client.settings.update(patch)
        _print_notes((*saved.warnings, *saved.notes))
        return saved.needs_restart

    async def agents(self) -> Mapping[str, AgentFields]:
        return await self._client.agents.all()

    async def put_agent(self, agent: str, fields: AgentFields) -> None:
        await self._client.agents.put(agent, fields)

    async def teams(self) -> Mapping[str, TeamFields]:
        return await self._client.teams.all()

    async def put_team(self, team: str, fields: TeamFields) -> None:
        await self._client.teams.put(team, fields)

    async def delete_team(self, team: str) -> None:
        await self._client.teams.delete(team)

    async def providers(self) -> Mapping[str, ProviderFields]:
        return await self._client.providers.all()

    async def put_provider(self, provider: str, fields: ProviderFields) -> None:
        _print_notes((await self._client.providers.put(provider, fields)).notes)

    async def delete_provider(self, provider: str) -> None:
        await self._client.providers.delete(provider)


class FileBackend:
    """Settings in the file, edited under its lock, so that a daemon that starts meanwhile loses no change."""

    is_live = False

    def __init__(self, home: Home) -> None:
        self._home = home
        self._document = SettingsFile(home)

    async def settings(self) -> SettingsObject:
        return masked(await self._raw())

    async def update(self, patch: Mapping[str, object]) -> tuple[str, ...]:
        await self._edit(lambda _: patch)
        return ()

    async def agents(self) -> Mapping[str, AgentFields]:
        listed = listed_agents(await self._raw(), self._home)
        return {name: AgentFields.model_validate(agent) for name, agent in listed.items()}

    async def put_agent(self, agent: str, fields: AgentFields) -> None:
        await self._edit(lambda raw: agent_patch(raw, agent, fields.patch()))

    async def teams(self) -> Mapping[str, TeamFields]:
        stored = section_of(await self._raw(), "teams")
        return {name: TeamFields.model_validate(masked(team)) for name, team in stored.items()}

    async def put_team(self, team: str, fields: TeamFields) -> None:
        await self._edit(lambda raw: team_patch(raw, team, fields.patch()))

    async def delete_team(self, team: str) -> None:
        await self._edit(lambda raw: team_removal(raw, team))

    async def providers(self) -> Mapping[str, ProviderFields]:
        stored = section_of(await self._raw(), "custom_providers")
        return {name: ProviderFields.model_validate(masked(provider)) for name, provider in stored.items()}

    async def put_provider(self, provider: str, fields: ProviderFields) -> None:
        await self._edit(lambda raw: provider_patch(raw, provider, fields.patch()))

    async def delete_provider(self, provider: str) -> None:
        await self._edit(lambda raw: provider_removal(raw, provider))

    async def _raw(self) -> Mapping[str, object]:
        """The stored settings after validation; empty on a new home."""
        loaded = await asyncio.to_thread(self._document.read)
        return {} if loaded is None else loaded.raw

    async def _edit(self, change: SettingsChange) -> None:
        if not self._document.path.exists():
            # On a new home, first write the settings that the first start would write.
            for line in await asyncio.to_thread(ensure_settings, self._home):
                note(line)
        before: Mapping[str, object] = {}

        def change_and_keep(stored: Mapping[str, object]) -> Mapping[str, object]:
            nonlocal before
            before = stored
            return change(stored)

        loaded = await asyncio.to_thread(self._document.edit, change_and_keep)
        _print_notes((*unknown_settings(loaded.raw), *dropped_keys(before, loaded.raw)))


def _print_notes(notes: Iterable[str]) -> None:
    for line in notes:
        note(line)
