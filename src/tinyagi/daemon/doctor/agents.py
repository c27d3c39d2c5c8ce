"""The agents: whether each can run, what it may do without asking, and where it works."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tinyagi.daemon.doctor.findings import Finding, Subject, hint, ok, problem, warning
from tinyagi.domain.ids import AgentId
from tinyagi.domain.texts import one_line
from tinyagi.providers.base import Permissions, Wire
from tinyagi.settings.model import Settings
from tinyagi.settings.resolve import AgentSetup, NotConfigured, resolve

PATIENCE: Final = 10.0
"""Seconds for a program to tell its version."""
MOST_LINKS: Final = 20
_DEPTH: Final = 3
"""Folders within folders in which links are looked for."""


class _Tool(NamedTuple):
    program: str
    install: str


_TOOLS: Final[Mapping[str, _Tool]] = {
    "anthropic": _Tool("claude", "npm install -g @anthropic-ai/claude-code"),
    "openai": _Tool("codex", "npm install -g @openai/codex"),
    "opencode": _Tool("opencode", "npm install -g opencode-ai"),
}
_KEYS: Final = {Wire.ANTHROPIC: "ANTHROPIC_API_KEY", Wire.OPENAI: "OPENAI_API_KEY"}


def agents(subject: Subject, settings: Settings) -> Iterator[Finding]:
    setups = []
    for name in settings.agents:
        try:
            setups.append(resolve(settings, AgentId(name), subject.home))
        except NotConfigured as error:
            yield problem(f"@{name}", str(error), "Change it with `tinyagi agent provider`, or in the settings.")
    yield from _programs(subject, setups)
    for setup in setups:
        yield from _endpoint(subject, setup)
        yield from _workspace(setup)
    yield from _permissions(setups)


def _programs(subject: Subject, setups: list[AgentSetup]) -> Iterator[Finding]:
    """Each program once, however many agents use it."""
    for adapter, tool in _TOOLS.items():
        users = ", ".join(f"@{setup.id}" for setup in setups if setup.adapter == adapter)
        if not users:
            continue
        path = shutil.which(tool.program, path=subject.environment.get("PATH"))
        if path is None:
            yield problem(
                tool.program,
                f"{users} cannot run: the program is not on the PATH.",
                f"Install it: {tool.install}, or choose another provider.",
            )
            continue
        version = _version(path, subject.environment)
        if version is None:
            yield warning(
                tool.program,
                f"{path}, for {users}, does not tell its version within {PATIENCE:g} seconds.",
                f"Try `{tool.program} --version` in a terminal; to install it again: {tool.install}",
            )
        else:
            yield ok(tool.program, f"{version} at {path}, for {users}")


def _version(path: str, environment: Mapping[str, str]) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603 - the program that runs agents anyway
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=dict(environment),
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = one_line(done.stdout.decode("utf-8", "replace"), 60)
    return said if done.returncode == 0 and said else None


def _endpoint(subject: Subject, setup: AgentSetup) -> Iterator[Finding]:
    if setup.adapter == "scripted":
        remedy = "Set its provider once a program or a key is there: tinyagi agent provider"
        yield hint(f"@{setup.id}", "It gives rehearsed answers only (provider scripted).", remedy)
    if setup.adapter != "api" or setup.endpoint.base_url is not None:
        return
    variable = _KEYS[setup.endpoint.wire]
    if setup.endpoint.api_key or subject.environment.get(variable):
        yield ok(f"@{setup.id}", f"there is a key for {setup.model or 'its provider'}")
    else:
        section = "anthropic" if setup.endpoint.wire is Wire.ANTHROPIC else "openai"
        remedy = f"Set {variable}, or models.{section}.api_key in the settings."
        yield problem(f"@{setup.id}", "There is no key for its provider.", remedy)


def _permissions(setups: list[AgentSetup]) -> Iterator[Finding]:
    free = [setup for setup in setups if setup.permissions is Permissions.BYPASS and setup.adapter in _TOOLS]
    if not free:
        return
    names = ", ".join(f"@{setup.id}" for setup in free)
    yield hint(
        "Permissions",
        f"{names} use their tools without asking, with all that this user may do.",
        "Set `permissions` of an agent to `default` or `plan`, or run TinyAGI as a user of its own.",
    )
    if os.geteuid() == 0 and any(setup.adapter == "anthropic" for setup in free):
        yield problem(
            "Permissions",
            "This is root, and claude refuses to work as root without asking.",
            "Run TinyAGI as another user, or set `permissions` to `default`.",
        )


def _workspace(setup: AgentSetup) -> Iterator[Finding]:
    title = f"@{setup.id}'s folder"
    folder = setup.workspace
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        remedy = f"Make {there} writable, or set agents.{setup.id}.working_directory."
        yield problem(title, f"{folder} cannot be written.", remedy)
        return
    leading_out = list(_links_out(folder))
    if leading_out:
        shown = ", ".join(str(path.relative_to(folder)) for path in leading_out)
        remedy = "If that is not meant, put a folder or a file in the place of the link."
        yield warning(title, f"Links lead out of {folder}: {shown}.", remedy)
    else:
        yield ok(title, str(folder) if folder.exists() else f"{folder}, made by its first run")


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
