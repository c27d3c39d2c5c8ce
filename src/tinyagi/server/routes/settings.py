"""Settings and custom providers over HTTP: read with secrets masked, changed by patches."""

from collections.abc import Mapping
from typing import Annotated, Literal

from fastapi import Query, Request

from tinyagi.api.base import Ok
from tinyagi.api.settings import ProviderFields, ProviderSaved, SettingsObject, SettingsSaved
from tinyagi.engine.agent_admin import AgentAdmin
from tinyagi.server.dependencies import NamePath, Services, ServicesDep
from tinyagi.server.errors import responses
from tinyagi.server.routes.audit import audited_router, set_audit_detail
from tinyagi.settings.json_tree import changed_names, check_depth
from tinyagi.settings.patches import dropped_keys, provider_patch, provider_removal, section_of
from tinyagi.settings.secrets import masked

router = audited_router()

Mode = Annotated[
    Literal["merge", "replace"],
    Query(description="`replace` replaces each top-level section of the body as a whole."),
]

_SECTION = "custom_providers"


@router.get("/api/settings", tags=["settings"])
async def read_settings(services: ServicesDep) -> SettingsObject:
    """Read the stored settings; secrets are masked."""
    return masked(services.settings.raw)


@router.put("/api/settings", tags=["settings"], responses=responses(409))
async def save_settings(
    services: ServicesDep, request: Request, patch: SettingsObject, mode: Mode = "merge"
) -> SettingsSaved:
    """Merge a patch into the settings: objects merge, null removes, a masked value keeps the stored secret."""
    return await _save(services, request, patch, replace=mode == "replace")


@router.post("/api/setup", tags=["settings"])
async def set_up(services: ServicesDep, request: Request, patch: SettingsObject) -> SettingsSaved:
    """Merge first settings into the stored ones; null is ignored, so nothing is removed."""
    check_depth(patch)
    return await _save(services, request, _without_nulls(patch))


async def _save(services: Services, request: Request, patch: SettingsObject, *, replace: bool = False) -> SettingsSaved:
    admin = AgentAdmin(services.store, services.settings, services.home)
    before = await admin.change_settings(patch, replace=replace, by=request.state.actor)
    raw = services.settings.raw
    parts = dict.fromkeys((*patch, *before))
    names = (name for part in parts for name in changed_names(before.get(part, {}), raw.get(part, {}), part))
    set_audit_detail(request, ", ".join(names))
    return SettingsSaved(
        settings=masked(raw),
        needs_restart=services.settings.needs_restart,
        warnings=services.settings.warnings,
        notes=dropped_keys(before, raw),
    )


def _without_nulls(patch: Mapping[str, object]) -> SettingsObject:
    kept = ((name, value) for name, value in patch.items() if value is not None)
    return {name: _without_nulls(value) if isinstance(value, Mapping) else value for name, value in kept}


@router.get("/api/custom-providers", tags=["providers"], response_model_exclude_unset=True)
async def list_custom_providers(services: ServicesDep) -> dict[str, ProviderFields]:
    """List every custom provider by id; keys are masked."""
    providers = section_of(services.settings.raw, _SECTION)
    return {provider: ProviderFields.model_validate(masked(raw)) for provider, raw in providers.items()}


@router.put("/api/custom-providers/{provider}", tags=["providers"], response_model_exclude_unset=True)
async def save_custom_provider(
    services: ServicesDep, request: Request, provider: NamePath, fields: ProviderFields
) -> ProviderSaved:
    """Add a custom provider, or change some of its fields; a masked key keeps the stored one."""
    patch, before = fields.patch(), services.settings.raw

    def change(stored: Mapping[str, object]) -> Mapping[str, object]:
        nonlocal before
        before = stored
        return provider_patch(stored, provider, patch)

    await services.settings.edit(change)
    after = services.settings.raw
    set_audit_detail(request, ", ".join(sorted(patch)))
    saved = ProviderFields.model_validate(masked(section_of(after, _SECTION)[provider]))
    return ProviderSaved(ok=True, provider=saved, notes=dropped_keys(before, after))


@router.delete("/api/custom-providers/{provider}", tags=["providers"], responses=responses(404, 409))
async def delete_custom_provider(services: ServicesDep, provider: NamePath) -> Ok:
    """Delete a custom provider that is not in use."""
    await services.settings.edit(lambda stored: provider_removal(stored, provider))
    return Ok()
