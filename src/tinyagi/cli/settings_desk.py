"""Edits of the settings, through the daemon when it runs and on the file itself before the first start."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Protocol

from tinyagi.api.agents import AgentFields
from tinyagi.api.providers import ProviderFields
from tinyagi.api.settings import SettingsObject
from tinyagi.api.teams import TeamFields
from tinyagi.cli.context import CLIENT_NAME, Place
from tinyagi.cli.screen import note
from tinyagi.client.client import Client
from tinyagi.client.errors import NotRunning
from tinyagi.settings.defaults import ensure
from tinyagi.settings.document import Change, Document
from tinyagi.settings.home import Home
from tinyagi.settings.secrets import masked
from tinyagi.settings.staff import (
    agents_of,
    section_of,
    with_agent,
    with_provider,
    with_team,
    without_provider,
    without_team,
)


class SettingsDesk(Protocol):
    """Where settings are looked up and changed. Secrets come masked; a put changes what its fields name."""

    @property
    def is_live(self) -> bool:
        """True when a daemon is told, so that the change counts at once."""

    async def settings(self) -> SettingsObject: ...

    async def update(self, patch: Mapping[str, object]) -> tuple[str, ...]:
        """Merge the patch; null removes. Returns what counts only after a restart."""

    async def agents(self) -> Mapping[str, AgentFields]: ...

    async def put_agent(self, agent: str, fields: AgentFields) -> None: ...

    async def teams(self) -> Mapping[str, TeamFields]: ...

    async def put_team(self, team: str, fields: TeamFields) -> None: ...

    async def delete_team(self, team: str) -> None: ...

    async def providers(self) -> Mapping[str, ProviderFields]: ...

    async def put_provider(self, provider: str, fields: ProviderFields) -> None: ...

    async def delete_provider(self, provider: str) -> None: ...


@asynccontextmanager
async def open_desk(place: Place) -> AsyncIterator[SettingsDesk]:
    """The daemon's desk when this home's daemon answers, else the file's."""
    address = place.address()
    async with Client(address.url, address.token, client_name=CLIENT_NAME) as client:
        is_running = address.is_known and await _answers(client, must=place.url is not None)
        yield DaemonDesk(client) if is_running else FileDesk(place.home)


async def _answers(client: Client, *, must: bool) -> bool:
    try:
        await client.status()
    except NotRunning:
        if must:
            raise
        return False
    return True


class DaemonDesk:
    """Settings by way of a running daemon."""

    is_live = True

    def __init__(self, client: Client) -> None:
        self._client = client

    async def settings(self) -> SettingsObject:
        return await self._client.settings.read()

    async def update(self, patch: Mapping[str, object]) -> tuple[str, ...]:
        return (await self._client.settings.update(patch)).needs_restart

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
        await self._client.providers.put(provider, fields)

    async def delete_provider(self, provider: str) -> None:
        await self._client.providers.delete(provider)


class FileDesk:
    """Settings by way of the file, under its lock: a daemon that starts meanwhile loses nothing."""

    is_live = False

    def __init__(self, home: Home) -> None:
        self._home = home
        self._document = Document(home)

    async def settings(self) -> SettingsObject:
        return masked(await self._raw())

    async def update(self, patch: Mapping[str, object]) -> tuple[str, ...]:
        await self._edit(lambda _: patch)
        return ()

    async def agents(self) -> Mapping[str, AgentFields]:
        stored = agents_of(await self._raw())
        return {name: AgentFields.model_validate(masked(agent)) for name, agent in stored.items()}

    async def put_agent(self, agent: str, fields: AgentFields) -> None:
        await self._edit(lambda raw: with_agent(raw, agent, fields.patch()))

    async def teams(self) -> Mapping[str, TeamFields]:
        stored = section_of(await self._raw(), "teams")
        return {name: TeamFields.model_validate(masked(team)) for name, team in stored.items()}

    async def put_team(self, team: str, fields: TeamFields) -> None:
        await self._edit(lambda raw: with_team(raw, team, fields.patch()))

    async def delete_team(self, team: str) -> None:
        await self._edit(lambda raw: without_team(raw, team))

    async def providers(self) -> Mapping[str, ProviderFields]:
        stored = section_of(await self._raw(), "custom_providers")
        return {name: ProviderFields.model_validate(masked(provider)) for name, provider in stored.items()}

    async def put_provider(self, provider: str, fields: ProviderFields) -> None:
        await self._edit(lambda raw: with_provider(raw, provider, fields.patch()))

    async def delete_provider(self, provider: str) -> None:
        await self._edit(lambda raw: without_provider(raw, provider))

    async def _raw(self) -> Mapping[str, object]:
        """What is stored, checked; nothing yet on a new home."""
        loaded = await asyncio.to_thread(self._document.read)
        return {} if loaded is None else loaded.raw

    async def _edit(self, change: Change) -> None:
        if not self._document.path.exists():
            # The first edit of a new home begins with the settings that its first start would write.
            for line in await asyncio.to_thread(ensure, self._home):
                note(line)
        await asyncio.to_thread(self._document.edit, change)
