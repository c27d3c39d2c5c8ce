"""Providers that the owner adds: listed, added or changed, deleted."""

from fastapi import Request

from tinyagi.api.base import Ok
from tinyagi.api.providers import ProviderFields, ProviderSaved
from tinyagi.server.auditing import audited_router, tell
from tinyagi.server.errors import responses
from tinyagi.server.parameters import Name
from tinyagi.server.services import Use
from tinyagi.settings.secrets import masked
from tinyagi.settings.staff import section_of, with_provider, without_provider

router = audited_router()

_SECTION = "custom_providers"


@router.get("/api/custom-providers", tags=["providers"], response_model_exclude_unset=True)
async def list_custom_providers(services: Use) -> dict[str, ProviderFields]:
    """Every custom provider by its id; keys are masked."""
    providers = section_of(services.settings.raw, _SECTION)
    return {provider: ProviderFields.model_validate(masked(raw)) for provider, raw in providers.items()}


@router.put("/api/custom-providers/{provider}", tags=["providers"], response_model_exclude_unset=True)
async def save_custom_provider(
    services: Use, request: Request, provider: Name, fields: ProviderFields
) -> ProviderSaved:
    """Add a custom provider or change some of its fields; a masked key that comes back leaves the stored one."""
    patch = fields.patch()
    await services.settings.edit(lambda stored: with_provider(stored, provider, patch))
    tell(request, ", ".join(sorted(patch)))
    stored = section_of(services.settings.raw, _SECTION)[provider]
    return ProviderSaved(ok=True, provider=ProviderFields.model_validate(masked(stored)))


@router.delete("/api/custom-providers/{provider}", tags=["providers"], responses=responses(404, 409))
async def delete_custom_provider(services: Use, provider: Name) -> Ok:
    """Delete a custom provider that nobody uses."""
    await services.settings.edit(lambda stored: without_provider(stored, provider))
    return Ok()
