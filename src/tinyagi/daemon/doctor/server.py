"""The daemon and its API: whether it runs, who may reach it, and whether its port is free."""

import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Final

import psutil
from pydantic import TypeAdapter, ValidationError

from tinyagi.api.status import BackgroundTaskStatus
from tinyagi.daemon.doctor.findings import Finding, Subject, hint, ok, problem, warning
from tinyagi.daemon.errors import DaemonError
from tinyagi.daemon.health import ask
from tinyagi.daemon.pidfile import State, look, refusal
from tinyagi.domain.errors import InvalidInput
from tinyagi.settings.environment import TOKEN_NAME, api_host, api_port, api_token
from tinyagi.settings.model import Settings
from tinyagi.settings.server import SHORTEST_TOKEN, is_loopback

_TASKS: Final = TypeAdapter(dict[str, BackgroundTaskStatus])
_FEW_CHARACTERS = 8
"""Different ones: a token with fewer is a pattern."""


def access(subject: Subject, settings: Settings) -> Iterator[Finding]:
    server = settings.server
    token, host = api_token(subject.environment, server.token), api_host(subject.environment, server.host)
    make = "Make one with: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"
    if token is None and not is_loopback(host):
        yield problem("Access", f"Others can reach {host}, and there is no token.", f"Set {TOKEN_NAME}. {make}")
    elif token is None:
        yield ok("Access", f"{host}: this machine only, without a token")
    elif len(token) < SHORTEST_TOKEN or len(set(token)) < _FEW_CHARACTERS:
        yield problem("Access", "The token is easy to guess.", f"Use {SHORTEST_TOKEN} characters or more. {make}")
    else:
        yield ok("Access", f"{host}, with a token")
    wild = [name for name in (*server.allowed_origins, *server.allowed_hosts) if "*" in name]
    if wild:
        yield problem(
            "Origins",
            f"{', '.join(wild)} would let any web page use the API.",
            "List exact names in server.allowed_origins and server.allowed_hosts.",
        )


def daemon(subject: Subject, settings: Settings) -> Iterator[Finding]:
    try:
        sighting = look(subject.home)
    except DaemonError as error:
        yield problem("Daemon", str(error), "Mend this first: without the lock two daemons could run on one home.")
        return
    match sighting.state:
        case State.RUNNING:
            token = api_token(subject.environment, settings.server.token)
            status = ask(sighting, token)
            if status is None:
                yield problem(
                    "Daemon",
                    f"It runs (pid {sighting.pid}) and does not answer at {sighting.url}.",
                    "See `tinyagi logs daemon`; after a change of the token: tinyagi restart",
                )
            else:
                yield ok("Daemon", f"runs (pid {sighting.pid}) at {sighting.url}, version {sighting.version}")
                yield from _failing_tasks(status)
        case State.STARTING:
            yield hint("Daemon", f"It is starting (pid {sighting.pid}).", "Look again in a moment: tinyagi status")
        case State.UNKNOWN:
            yield warning("Daemon", refusal(subject.home, sighting), "Stop it where it runs.")
        case State.STALE:
            yield hint(
                "Daemon",
                f"It is not running, and did not end by itself: {subject.home.pid_file} {sighting.leftover}.",
                "Start it with: tinyagi start. What it was working on is taken back.",
            )
        case State.ABSENT:
            yield hint("Daemon", "It is not running.", "Start it with: tinyagi start")
    if not sighting.is_up:
        yield from _port(subject, settings)


def _failing_tasks(status: object) -> Iterator[Finding]:
    try:
        tasks = _TASKS.validate_python(status.get("background") if isinstance(status, dict) else None)
    except ValidationError:
        # A daemon of another version: the next restart replaces it.
        return
    for name, task in tasks.items():
        if task.state == "failing":
            yield problem(
                "Background",
                f"The daemon's task {name} fails, restarted {task.restarts} times: {task.last_error}",
                "It starts again after at most 30 seconds. See more with `tinyagi logs queue`.",
            )


def _port(subject: Subject, settings: Settings) -> Iterator[Finding]:
    remedy = "Choose another with server.port or TINYAGI_API_PORT, or stop that program."
    try:
        port = api_port(subject.environment, settings.server.port)
    except InvalidInput as error:
        yield problem("Port", str(error), "Set the variable to a free port, or remove it.")
        return
    host = api_host(subject.environment, settings.server.host)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with closing(socket.socket(family, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            who = _listener(port)
            yield problem("Port", f"{host}:{port} cannot be used: {error.strerror}{who}.", remedy)
        else:
            yield ok("Port", f"{port} is free" if port else "any free one is taken")


def _listener(port: int) -> str:
    """Who listens there, as far as the system tells this user."""
    try:
        for connection in psutil.net_connections("tcp"):
            is_there = connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port
            if is_there and connection.pid:
                return f", by {psutil.Process(connection.pid).name()} (pid {connection.pid})"
    except psutil.Error:
        return ""
    return ""
