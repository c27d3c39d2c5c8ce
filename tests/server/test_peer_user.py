"""Without a token, on Linux, other users of the machine are kept out."""

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.server.conftest import TOKEN, Premises
from tinyagi.system import peer_user
from tinyagi.system.peer_user import PeerUsers, find_in_tables

OTHER = 65_534
CALL = """
import os, socket, sys
port, user, body = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].encode()
if user != os.getuid():
    os.setgid(user)
    os.setuid(user)
with socket.socket() as connection:
    connection.connect(("127.0.0.1", port))
    head = f"POST /api/message HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\nConnection: close\\r\\n"
    head += f"Content-Type: application/json\\r\\nContent-Length: {len(body)}\\r\\n"
    connection.sendall((head + sys.argv[4] + "\\r\\n").encode() + body)
    if sys.argv[5:] == ["leave"]:
        os._exit(0)
    while piece := connection.recv(65536):
        sys.stdout.buffer.write(piece)
"""
MESSAGE = json.dumps({"message": "hello", "agent": "coder"})

pytestmark = pytest.mark.skipif(not peer_user.IS_SUPPORTED, reason="only Linux reports the user of the other end")
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")


async def call_as(user: int, port: int, headers: str = "", *options: str) -> tuple[int, Any]:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-c", CALL, str(port), str(user), MESSAGE, headers, *options),
        stdout=asyncio.subprocess.PIPE,
    )
    answer, _ = await child.communicate()
    assert child.returncode == 0
    return (int(answer[9:12]), json.loads(answer.partition(b"\r\n\r\n")[2])) if answer else (0, None)


async def received(premises: Premises) -> int:
    return len(await premises.events("message_received"))


async def test_the_daemons_own_user_is_let_in(premises: Premises) -> None:
    status, _ = await call_as(os.getuid(), premises.port)

    assert status == 200


@needs_root
async def test_another_user_is_refused_with_the_remedy(premises: Premises) -> None:
    status, body = await call_as(OTHER, premises.port)

    assert status == 403
    for part in (str(OTHER), "tinyagi token", "server.token", "server.check_peer_user"):
        assert part in body["error"]
    assert await received(premises) == 0


@needs_root
async def test_another_user_who_disconnects_at_once_is_refused(premises: Premises) -> None:
    for _ in range(5):
        await call_as(OTHER, premises.port, "", "leave")
    assert (await call_as(OTHER, premises.port))[0] == 403
    assert await received(premises) == 0


@needs_root
async def test_another_user_with_the_token_is_let_in(closed_premises: Premises) -> None:
    closed_premises.token = TOKEN
    async with closed_premises.serve() as premises:
        assert (await call_as(OTHER, premises.port, f"Authorization: Bearer {TOKEN}\r\n"))[0] == 200
        assert (await call_as(OTHER, premises.port))[0] == 401


@needs_root
async def test_the_check_can_be_switched_off(closed_premises: Premises) -> None:
    closed_premises.settings["server"] = {"check_peer_user": False}
    async with closed_premises.serve() as premises:
        assert (await call_as(OTHER, premises.port))[0] == 200


async def test_an_unidentified_peer_is_refused(closed_premises: Premises, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PeerUsers, "uid_of", lambda *_: None)
    async with closed_premises.serve() as premises:
        answer = await premises.http.get("/api/status")

    assert answer.status_code == 403
    assert "your user is unknown" in answer.json()["error"]


@asynccontextmanager
async def pair(family: socket.AddressFamily, host: str) -> AsyncIterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection: the client's and the server's."""
    with socket.socket(family) as listener, socket.socket(family) as client:
        listener.bind((host, 0))
        listener.listen()
        client.connect(listener.getsockname())
        accepted, _ = listener.accept()
        with accepted:
            yield client, accepted


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
async def test_netlink_and_tables_find_the_user_until_the_socket_is_closed(
    family: socket.AddressFamily, host: str
) -> None:
    peers = PeerUsers()

    def answers() -> set[int | None]:
        ends = accepted.getpeername(), accepted.getsockname()
        return {peers.uid_of(accepted), find_in_tables(family, *ends)}

    async with pair(family, host) as (client, accepted):
        assert answers() == {os.geteuid()}
        client.shutdown(socket.SHUT_WR)
        assert answers() == {os.geteuid()}
        client.close()
        assert answers() == {None}
    peers.close()


async def test_the_tables_are_read_when_netlink_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no sock_diag here")

    peers = PeerUsers()
    monkeypatch.setattr(peers, "_query", refuse)
    async with pair(socket.AF_INET, "127.0.0.1") as (_, accepted):
        assert [peers.uid_of(accepted) for _ in range(2)] == [os.geteuid()] * 2
