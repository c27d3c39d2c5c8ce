"""Texts of request bodies: refused at the door when nobody could store or read them."""

from typing import Annotated

from pydantic import AfterValidator, Field

from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.texts import check_text


def _storable(text: str) -> str:
    check_text(text)
    return text


def _with_words(text: str) -> str:
    if not text.strip():
        raise InvalidInput("a text is needed")
    return text


Storable = Annotated[str, AfterValidator(_storable)]
"""Any text that a database can hold; it may be empty."""
Text = Annotated[Storable, AfterValidator(_with_words), Field(json_schema_extra={"minLength": 1, "pattern": r"\S"})]
"""A text that says something."""
Person = Annotated[Text, Field(max_length=256)]
"""The name of a sender."""
