"""The settings over the wire. They keep the names of settings.json, and what nobody knows stays in them."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from tinyagi.api.base import Ok

SettingsObject = dict[str, object]
"""All of settings.json or a part of it."""


class Stored(BaseModel):
    """An object of settings.json: further settings may stand in it, and in a change null removes one."""

    model_config = ConfigDict(extra="allow", frozen=True)

    def patch(self) -> SettingsObject:
        """What was said, as a patch for the stored object; not more."""
        said = ((name, value) for name, value in self if name in self.model_fields_set)
        return {name: value.patch() if isinstance(value, Stored) else value for name, value in said}


class SettingsSaved(Ok):
    """The settings as they are now."""

    settings: Annotated[SettingsObject, Field(description="As stored; secrets are masked.")]
    needs_restart: Annotated[
        tuple[str, ...], Field(description="Dotted names of what counts only after the next restart.")
    ]
