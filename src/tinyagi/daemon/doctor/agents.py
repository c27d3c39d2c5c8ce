"""The agents: whether each can run, what it may do without asking, and where it works."""

import hashlib
import logging
import os
import shlex
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tinyagi.agents.skills import default_skills, list_skills
from tinyagi.daemon.doctor.findings import CheckContext, Finding, hint, ok, problem, warning
from tinyagi.daemon.provider_check import PATIENCE, TOOLS, program_version
from tinyagi.domain.ids import AgentId
from tinyagi.domain.runs import Permissions, Wire
from tinyagi.domain.texts import one_line
from tinyagi.plugins.discovery import find_plugins
from tinyagi.settings.agent_setup import AgentSetup, NotConfigured, agent_setup, path_problems
from tinyagi.settings.environment import api_token
from tinyagi.settings.model import ApiAccess, Settings

MOST_LINKS: Final = 20
_DEPTH: Final = 3
"""Levels of folders that are searched for links."""

_KEYS: Final = {Wire.ANTHROPIC: "ANTHROPIC_API_KEY", Wire.OPENAI: "OPENAI_API_KEY"}

SHOWN: Final = 12
"""Digits of a hash that are enough to compare two versions."""


def agents(context: CheckContext, settings: Settings) -> Iterator[Finding]:
    setups = []
    for name in settings.agents:
        try:
            setups.append(agent_setup(settings, AgentId(name), context.home))
        except NotConfigured as error:
            yield problem(f"@{name}", str(error), "Change it with `tinyagi agent provider`, or in the settings.")
    yield from _programs(context, setups)
    scripted = [setup.id for setup in setups if setup.adapter == "scripted"]
    if scripted:
        names = ", ".join(f"@{agent}" for agent in scripted)
        yield hint("Scripted answers only", names, f"Connect a model: tinyagi setup --agent {scripted[0]}")
    for sentence in path_problems(settings, context.home):
        yield problem("Paths", f"{sentence}.", "Until then this agent does not run.")
    for setup in setups:
        yield from _endpoint(context, setup)
        yield from _workspace(setup)
    yield from _open_to_others(setups)
    yield from _permissions(setups)
    yield from _api_access(settings)
    yield from _agent_tokens(context, settings)


def _programs(context: CheckContext, setups: list[AgentSetup]) -> Iterator[Finding]:
    """Check each program once, for all agents that use it."""
    for adapter, tool in TOOLS.items():
        users = ", ".join(f"@{setup.id}" for setup in setups if setup.adapter == adapter)
        if not users:
            continue
        path = shutil.which(tool.program, path=context.environment.get("PATH"))
        if path is None:
            yield problem(
                tool.program,
                f"{users} cannot run: the program is not on the PATH.",
                f"Install it: {tool.install}, or choose another provider.",
            )
            continue
        version = program_version(path, context.environment)
        if version is None:
            yield warning(
                tool.program,
                f"{path}, for {users}, did not print its version within {PATIENCE:g} seconds.",
                f"Try `{tool.program} --version` in a terminal; to install it again: {tool.install}",
            )
        else:
            yield ok(tool.program, f"{version} at {path}, for {users}")


def _endpoint(context: CheckContext, setup: AgentSetup) -> Iterator[Finding]:
    if setup.adapter != "api" or setup.endpoint.base_url is not None:
        return
    variable = _KEYS[setup.endpoint.wire]
    if setup.endpoint.api_key or context.environment.get(variable):
        yield ok(f"@{setup.id}", f"there is a key for {setup.model or 'its provider'}")
    else:
        section = "anthropic" if setup.endpoint.wire is Wire.ANTHROPIC else "openai"
        connect = f"tinyagi setup --agent {setup.id}"
        remedy = f"Connect it: {connect}, or set {variable}, or models.{section}.api_key in the settings."
        yield problem(f"@{setup.id}", "There is no key for its provider.", remedy)


def _permissions(setups: list[AgentSetup]) -> Iterator[Finding]:
    free = [setup for setup in setups if setup.permissions is Permissions.BYPASS and setup.adapter in TOOLS]
    if not free:
        return
    names = ", ".join(f"@{setup.id}" for setup in free)
    yield hint(
        "Permissions",
        f"{names} use their tools without asking, with all rights of this user.",
        "Set `permissions` of an agent to `default` or `plan`, or run TinyAGI as a separate user.",
    )
    if os.geteuid() == 0 and any(setup.adapter == "anthropic" for setup in free):
        yield problem(
            "Permissions",
            "This is root, and claude refuses to work as root without asking.",
            "Run TinyAGI as another user, or set `permissions` to `default`.",
        )


def _api_access(settings: Settings) -> Iterator[Finding]:
    wide = [f"@{name}" for name, agent in settings.agents.items() if agent.api_access is ApiAccess.ALL]
    if wide:
        yield hint(
            "API access",
            f"{', '.join(wide)} may call the whole API: settings, agents, providers.",
            "Remove `api_access` from agents that only need the API for their skills.",
        )


def _agent_tokens(context: CheckContext, settings: Settings) -> Iterator[Finding]:
    """Without a server token there are no tokens for agents either."""
    restricted = [f"@{name}" for name, agent in settings.agents.items() if agent.permissions is not Permissions.BYPASS]
    if restricted and api_token(context.environment, settings.server.token) is None:
        yield hint(
            "Agents and the API",
            f"{', '.join(restricted)} may not use every tool, but may call the whole API: there is no token.",
            "Create a token: tinyagi token. Each agent then gets its own, with fewer rights.",
        )


def _workspace(setup: AgentSetup) -> Iterator[Finding]:
    title = f"@{setup.id}'s folder"
    folder = setup.workspace
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        remedy = f"Make {existing} writable, or set agents.{setup.id}.working_directory."
        yield problem(title, f"{folder} cannot be written.", remedy)
        return
    leading_out = list(_links_out(folder))
    if leading_out:
        shown = ", ".join(str(path.relative_to(folder)) for path in leading_out)
        remedy = "If you did not intend this, replace each link with a folder or a file."
        yield warning(title, f"Links lead out of {folder}: {shown}.", remedy)
    else:
        yield ok(title, str(folder) if folder.exists() else f"{folder}, created by its first run")


def _open_to_others(setups: list[AgentSetup]) -> Iterator[Finding]:
    folders = {setup.workspace for setup in setups if setup.workspace.is_dir()}
    readable = sorted(str(folder) for folder in folders if stat.S_IMODE(folder.stat().st_mode) & 0o077)
    if readable:
        yield hint(
            "Workspaces",
            f"Other users of this machine may be able to read {', '.join(readable)}.",
            f"If you did not intend this: chmod go-rwx {' '.join(map(shlex.quote, readable))}",
        )


def _links_out(folder: Path) -> Iterator[Path]:
    real = Path(os.path.realpath(folder))
    found = 0
    for place, folders, files in os.walk(folder):
        here = Path(place)
        for name in sorted((*folders, *files)):
            path = here / name
            if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(real):
                found += 1
                yield path
                if found == MOST_LINKS:
                    return
        if len(here.relative_to(folder).parts) >= _DEPTH:
            folders.clear()


def plugins(context: CheckContext, settings: Settings) -> Iterator[Finding]:
    if not settings.plugins.enabled:
        yield ok("Plugins", "switched off")
        return
    with _logged_warnings() as warnings:
        found = find_plugins(context.home.plugins, entry_points=True)
    for plugin in found:
        digest = plugin_digest(Path(plugin.origin).parent) if plugin.origin.startswith("/") else None
        source = f"sha256 {digest[:SHOWN]}" if digest else "an installed package"
        is_off = plugin.name in settings.plugins.disabled
        fault = None if is_off else plugin.fault()
        if fault is not None:
            yield warning(f"Plugin {plugin.name}", f"It cannot be loaded: {fault}.", "Fix it, then: tinyagi restart")
            continue
        state = "switched off, " if is_off else ""
        yield ok(f"Plugin {plugin.name}", f"{state}{source}, {plugin.origin}")
    for text in warnings:
        yield warning("Plugin", text, "Fix it, or move it out of the plugins folder.")


def skills(context: CheckContext, settings: Settings) -> Iterator[Finding]:
    shipped = {skill.id: _hash(skill.text.encode()) for skill in default_skills()}
    for name in settings.agents:
        try:
            folder = agent_setup(settings, AgentId(name), context.home).workspace / ".agents" / "skills"
        except NotConfigured:
            continue
        own = []
        for skill in list_skills(folder):
            digest = _hash((folder / skill.id / "SKILL.md").read_bytes())
            if shipped.get(skill.id) != digest:
                own.append(f"{one_line(skill.id, 80)} ({digest[:SHOWN]})")
        if own:
            yield hint(
                f"@{name}'s skills",
                f"These differ from the default skills of this version: {', '.join(own)}.",
                f"Read the ones that you did not write: {folder}",
            )


def plugin_digest(folder: Path) -> str:
    """The same hash that the list of loaded plugins shows."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        if not any(part.startswith(".") for part in path.relative_to(folder).parts):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@contextmanager
def _logged_warnings() -> Iterator[list[str]]:
    """The lines that the search for plugins logs."""
    messages: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    logger, listener = logging.getLogger("tinyagi.plugins"), Listener()
    logger.addHandler(listener)
    try:
        yield messages
    finally:
        logger.removeHandler(listener)
