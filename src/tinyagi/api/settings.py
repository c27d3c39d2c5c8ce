"""Models of settings and custom providers. They keep the names of settings.json and its unknown fields."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from tinyagi.api.base import Ok

SettingsObject = dict[str, object]
"""settings.json, or a part of it."""


class StoredObject(BaseModel):
    """An object of settings.json. It may have further settings; in a change, null removes one."""

    model_config = ConfigDict(extra="allow", frozen=True)

    def patch(self) -> SettingsObject:
        """Return only the fields that were sent, as a patch for the stored object."""
        sent = ((name, value) for name, value in self if name in self.model_fields_set)
        return {name: value.patch() if isinstance(value, StoredObject) else value for name, value in sent}


class SettingsSaved(Ok):
    """The settings after the change."""

    settings: Annotated[SettingsObject, Field(description="The stored settings; secrets are masked.")]
    needs_restart: Annotated[
        tuple[str, ...], Field(description="Dotted names of settings that take effect after a restart.")
    ]
    warnings: Annotated[
        tuple[str, ...], Field(description="A sentence for each setting without effect, usually a misspelled one.")
    ] = ()
    notes: Annotated[tuple[str, ...], Field(description="Further changes, such as a removed key.")] = ()


class ProviderFields(StoredObject):
    """A provider as in settings.json; agents refer to it as `custom:<id>`. A new one needs a harness and a base_url;
    in a change, omitted fields keep their values."""

    name: str | None = None
    harness: Annotated[
        Literal["claude", "codex", "api"] | None, Field(description="The program or protocol that calls it.")
    ] = None
    base_url: Annotated[str | None, Field(description="http(s)://host/path")] = None
    api_key: Annotated[
        str | None, Field(description="Masked in every answer; a masked value sent back keeps the stored key.")
    ] = None
    model: str | None = None
    wire: Annotated[Literal["openai", "anthropic"] | None, Field(description="Only for harness `api`.")] = None


class ProviderSaved(Ok):
    provider: ProviderFields
    notes: Annotated[tuple[str, ...], Field(description="Further changes, such as a removed key.")] = ()
