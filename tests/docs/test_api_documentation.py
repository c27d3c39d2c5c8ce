"""The reference of the API lists every route, with the sentence that the OpenAPI document has for it."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tinyagi.server.app import fastapi_app
from tinyagi.server.dependencies import Services
from tinyagi.server.errors import MEANINGS

PAGE = (Path(__file__).parents[2] / "docs/reference/api.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def operations() -> dict[str, Any]:
    document = fastapi_app(cast("Services", SimpleNamespace(version="1")), None).openapi()
    paths = document["paths"].items()
    return {f"{method.upper()} {path}": operation for path, methods in paths for method, operation in methods.items()}


def test_every_route_is_documented_and_every_documented_one_exists(operations: dict[str, Any]) -> None:
    rows = dict(re.findall(r"^\| `([A-Z]+ /\S+)` \| (.+) \|$", PAGE, re.MULTILINE))

    assert rows == {call: operation["summary"] for call, operation in operations.items()}


def test_every_status_is_documented(operations: dict[str, Any]) -> None:
    documented = {
        int(status) for row in re.findall(r"^\| ([\d, ]+) \|", PAGE, re.MULTILINE) for status in row.split(",")
    }
    given = {int(status) for operation in operations.values() for status in operation["responses"]}

    assert documented == set(MEANINGS) == given - {200}


def test_every_route_has_a_tag_an_id_and_a_response_schema(operations: dict[str, Any]) -> None:
    for call, operation in operations.items():
        assert operation["tags"], call
        assert operation["operationId"], call
        (content,) = operation["responses"]["200"]["content"].values()
        assert content["schema"], call
    ids = [operation["operationId"] for operation in operations.values()]
    assert len(ids) == len(set(ids))
