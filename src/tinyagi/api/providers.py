"""Providers that the owner adds: other endpoints for the programs, or endpoints that are asked directly."""

from typing import Annotated, Literal

from pydantic import Field

from tinyagi.api.base import Ok
from tinyagi.api.settings import Stored


class ProviderFields(Stored):
    """A provider as settings.json has it; agents name it `custom:<id>`. A new one needs a harness and a base_url; of
    one that is there, what is left out stays as it is."""

    name: str | None = None
    harness: Annotated[Literal["claude", "codex", "api"] | None, Field(description="What speaks to it.")] = None
    base_url: Annotated[str | None, Field(description="http(s)://host/path")] = None
    api_key: Annotated[
        str | None, Field(description="Masked in every answer; a masked value sent back leaves the stored key.")
    ] = None
    model: str | None = None
    wire: Annotated[Literal["openai", "anthropic"] | None, Field(description="For harness `api` only.")] = None


class ProviderSaved(Ok):
    provider: ProviderFields
