"""Code and instructions that the owner installed: each with its hash, so that a change is seen. Nothing is run."""

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tinyagi.agents.skills import default_skills, list_skills
from tinyagi.daemon.doctor.findings import Finding, Subject, hint, ok, warning
from tinyagi.domain.ids import AgentId
from tinyagi.domain.texts import one_line
from tinyagi.plugins.discovery import find
from tinyagi.settings.model import Settings
from tinyagi.settings.resolve import NotConfigured, resolve

SHOWN: Final = 12
"""Digits of a hash that tell two versions apart."""


def plugins(subject: Subject, settings: Settings) -> Iterator[Finding]:
    if not settings.plugins.enabled:
        yield ok("Plugins", "switched off")
        return
    with _complaints() as complaints:
        found = find(subject.home.plugins, entry_points=True)
    for plugin in found:
        digest = plugin_digest(Path(plugin.origin).parent) if plugin.origin.startswith("/") else None
        told = f"sha256 {digest[:SHOWN]}" if digest else "an installed package"
        state = "switched off, " if plugin.name in settings.plugins.disabled else ""
        yield ok(f"Plugin {plugin.name}", f"{state}{told}, {plugin.origin}")
    for complaint in complaints:
        yield warning("Plugin", complaint, "Mend it, or move it out of the folder of plugins.")


def skills(subject: Subject, settings: Settings) -> Iterator[Finding]:
    ours = {skill.id: _hash(skill.text.encode()) for skill in default_skills()}
    for name in settings.agents:
        try:
            folder = resolve(settings, AgentId(name), subject.home).workspace / ".agents" / "skills"
        except NotConfigured:
            continue
        own = []
        for skill in list_skills(folder):
            digest = _hash((folder / skill.id / "SKILL.md").read_bytes())
            if ours.get(skill.id) != digest:
                own.append(f"{one_line(skill.id, 80)} ({digest[:SHOWN]})")
        if own:
            yield hint(
                f"@{name}'s skills",
                f"Not as this version brings them: {', '.join(own)}.",
                f"Read those that you did not write: {folder}",
            )


def plugin_digest(folder: Path) -> str:
    """The hash that a plugin's line in the log has as well."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        if not any(part.startswith(".") for part in path.relative_to(folder).parts):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@contextmanager
def _complaints() -> Iterator[list[str]]:
    """What the search for plugins logs."""
    said: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    logger, listener = logging.getLogger("tinyagi.plugins"), Listener()
    logger.addHandler(listener)
    try:
        yield said
    finally:
        logger.removeHandler(listener)
