"""Settings and custom providers over REST. Secrets come masked; a masked value that goes back changes nothing."""

from collections.abc import Mapping

from tinyagi.api.base import Ok
from tinyagi.api.providers import ProviderFields, ProviderSaved
from tinyagi.api.settings import SettingsObject, SettingsSaved
from tinyagi.client.transport import Transport, segment


class Settings:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def read(self) -> SettingsObject:
        return await self._transport.get("/api/settings", SettingsObject)

    async def update(self, patch: Mapping[str, object]) -> SettingsSaved:
        """Merge the patch into what is stored; null removes."""
        return await self._transport.put("/api/settings", SettingsSaved, patch)

    async def set_up(self, settings: Mapping[str, object]) -> SettingsSaved:
        """Write the answers of a first set-up."""
        return await self._transport.post("/api/setup", SettingsSaved, settings)


class Providers:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def all(self) -> dict[str, ProviderFields]:
        return await self._transport.get("/api/custom-providers", dict[str, ProviderFields])

    async def put(self, provider: str, fields: ProviderFields) -> ProviderSaved:
        """Add a provider, or change what the fields name of one that is there."""
        return await self._transport.put(f"/api/custom-providers/{segment(provider)}", ProviderSaved, fields)

    async def delete(self, provider: str) -> None:
        await self._transport.delete(f"/api/custom-providers/{segment(provider)}", Ok)
