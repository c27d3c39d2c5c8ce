"""Teams: listed, added or changed, deleted."""

from fastapi import Request

from tinyagi.api.base import Ok
from tinyagi.api.teams import TeamFields, TeamSaved
from tinyagi.engine.staff import Staff
from tinyagi.server.auditing import audited_router, tell
from tinyagi.server.errors import responses
from tinyagi.server.parameters import Name
from tinyagi.server.services import Use
from tinyagi.settings.secrets import masked
from tinyagi.settings.staff import section_of, with_team

router = audited_router()


@router.get("/api/teams", tags=["teams"], response_model_exclude_unset=True)
async def list_teams(services: Use) -> dict[str, TeamFields]:
    """Every team by its id, as it is stored."""
    teams = section_of(services.settings.raw, "teams")
    return {team: TeamFields.model_validate(masked(raw)) for team, raw in teams.items()}


@router.put("/api/teams/{team}", tags=["teams"], response_model_exclude_unset=True)
async def save_team(services: Use, request: Request, team: Name, fields: TeamFields) -> TeamSaved:
    """Add a team or change some of its fields."""
    patch = fields.patch()
    await services.settings.edit(lambda stored: with_team(stored, team, patch))
    tell(request, ", ".join(sorted(patch)))
    stored = section_of(services.settings.raw, "teams")[team]
    return TeamSaved(ok=True, team=TeamFields.model_validate(masked(stored)))


@router.delete("/api/teams/{team}", tags=["teams"], responses=responses(404, 409))
async def delete_team(services: Use, team: Name) -> Ok:
    """Delete a team; its agents stay."""
    await Staff(services.store, services.settings, services.home).dissolve(team)
    return Ok()
