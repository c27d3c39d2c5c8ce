"""The settings as a whole: read with their secrets masked, changed by a patch."""

from collections.abc import Mapping

from fastapi import Request

from tinyagi.api.settings import SettingsObject, SettingsSaved
from tinyagi.server.auditing import audited_router, tell
from tinyagi.server.services import Services, Use
from tinyagi.settings.merge import changed_names
from tinyagi.settings.notation import check_depth
from tinyagi.settings.secrets import masked

router = audited_router()


@router.get("/api/settings", tags=["settings"])
async def read_settings(services: Use) -> SettingsObject:
    """The settings as they are stored; secrets are masked."""
    return masked(services.settings.raw)


@router.put("/api/settings", tags=["settings"])
async def save_settings(services: Use, request: Request, patch: SettingsObject) -> SettingsSaved:
    """Merge a patch into the settings: objects merge, null removes, a masked value leaves the stored secret."""
    return await _saved(services, request, patch)


@router.post("/api/setup", tags=["settings"])
async def set_up(services: Use, request: Request, patch: SettingsObject) -> SettingsSaved:
    """Merge first settings into what is there; nothing is removed, so null counts for nothing."""
    check_depth(patch)
    return await _saved(services, request, _without_nulls(patch))


async def _saved(services: Services, request: Request, patch: SettingsObject) -> SettingsSaved:
    before: Mapping[str, object] = {}

    def change(stored: Mapping[str, object]) -> Mapping[str, object]:
        nonlocal before
        before = stored
        return patch

    await services.settings.edit(change)
    raw = services.settings.raw
    names = (name for part in patch for name in changed_names(before.get(part, {}), raw.get(part, {}), part))
    tell(request, ", ".join(names))
    return SettingsSaved(settings=masked(raw), needs_restart=services.settings.needs_restart)


def _without_nulls(patch: Mapping[str, object]) -> SettingsObject:
    kept = ((name, value) for name, value in patch.items() if value is not None)
    return {name: _without_nulls(value) if isinstance(value, Mapping) else value for name, value in kept}
