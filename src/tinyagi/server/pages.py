"""Pages for people: the API's documentation, with everything it needs on board, and the way to it from `/`."""

from functools import cache
from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Response
from starlette.responses import RedirectResponse

from tinyagi.server.errors import Refused

router = APIRouter(include_in_schema=False)

_KINDS: Final = {
    "swagger-ui.css": "text/css; charset=utf-8",
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
}
_START: Final = """window.ui = SwaggerUIBundle({url: "/openapi.json", dom_id: "#api", deepLinking: true})"""
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>TinyAGI API</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="api"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""
POLICY: Final = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'"


@router.get("/")
async def front() -> Response:
    return RedirectResponse("/docs", 307)


@router.get("/docs")
async def docs() -> Response:
    return Response(_PAGE, media_type="text/html; charset=utf-8", headers={"content-security-policy": POLICY})


@router.get("/docs/{name}")
async def asset(name: str) -> Response:
    if name == "start.js":
        return Response(_START, media_type="text/javascript; charset=utf-8")
    if name not in _KINDS:
        raise Refused(404, "There is nothing here.")
    return Response(_asset(name), media_type=_KINDS[name], headers={"cache-control": "max-age=86400"})


@cache
def _asset(name: str) -> bytes:
    return (files("fastapi_offline") / "static" / name).read_bytes()
