"""The limit: uvicorn with an application that reads the JSON and answers, and does nothing else. Port, then parser."""

import asyncio
import sys

import msgspec
from starlette.types import Receive, Scope, Send
from uvicorn import Config, Server

ANSWER = b'{"ok":true,"messageId":"api_00000000","conversationId":"api_00000000"}'
HEADERS = [(b"content-type", b"application/json"), (b"content-length", str(len(ANSWER)).encode())]


async def app(_: Scope, receive: Receive, send: Send) -> None:
    message = await receive()
    msgspec.json.decode(message["body"])
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": ANSWER})


if __name__ == "__main__":
    config = Config(
        app, port=int(sys.argv[1]), loop="asyncio", http=sys.argv[2], ws="none", lifespan="off", log_config=None,
        access_log=False, server_header=False, date_header=False,
    )  # fmt: skip
    asyncio.run(Server(config).serve())
