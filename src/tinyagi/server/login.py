"""The office's way in: the token is shown once and exchanged for a cookie that scripts cannot read."""

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field

from tinyagi.api.base import Model, Ok
from tinyagi.server.access import COOKIE, Token
from tinyagi.server.errors import Refused, responses

ONE_MONTH = 30 * 86_400


class Login(Model):
    token: Annotated[str, Field(min_length=1, max_length=512)]


def routes(token: Token | None) -> APIRouter:
    router = APIRouter(tags=["login"])

    @router.post("/api/login", responses=responses(401))
    async def log_in(login: Login, request: Request, response: Response) -> Ok:
        """Exchange the token for the office's cookie; without a token set there is nothing to do."""
        if token is not None:
            if not token.matches(login.token.encode("utf-8", "replace")):
                request.state.count_wrong_token()
                raise Refused(401, "This is not the token; it is server.token of the settings.")
            response.set_cookie(
                COOKIE,
                token.cookie,
                max_age=ONE_MONTH,
                httponly=True,
                samesite="strict",
                secure=request.url.scheme == "https",
            )
        return Ok()

    @router.post("/api/logout")
    async def log_out(response: Response) -> Ok:
        """Forget the cookie."""
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return Ok()

    return router
