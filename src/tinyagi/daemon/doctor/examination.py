"""All checks, one after the other. A check that fails is a finding like any other, and the next one goes on."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from tinyagi.daemon.doctor import agents, backups, database, extensions, home, machine, pipeline, server
from tinyagi.daemon.doctor.findings import Check, Finding, SettingsCheck, Subject, problem
from tinyagi.domain.texts import one_line
from tinyagi.settings.document import Document
from tinyagi.settings.errors import SettingsError
from tinyagi.settings.home import Home
from tinyagi.settings.model import Settings

CHECKS: Final[Mapping[str, Check]] = {
    "Python": machine.python,
    "Time zones": machine.time_zones,
    "Disk": machine.disk,
    "Home": home.home,
    "Settings": home.settings,
    "File modes": home.private_files,
    "Earlier version": home.old_home,
    "Database": database.database,
    "Backup": backups.backups,
}
OF_SETTINGS: Final[Mapping[str, SettingsCheck]] = {
    "Access": server.access,
    "Daemon": server.daemon,
    "Pipeline": pipeline.pipeline,
    "Agents": agents.agents,
    "Plugins": extensions.plugins,
    "Skills": extensions.skills,
}
"""Not asked as long as the settings cannot be used."""


def subject_of(home: Home, environment: Mapping[str, str]) -> Subject:
    try:
        loaded = Document(home).read()
    except SettingsError:
        return Subject(home, environment, None)
    return Subject(home, environment, Settings() if loaded is None else loaded.settings)


def examine(
    subject: Subject,
    checks: Mapping[str, Check] = CHECKS,
    of_settings: Mapping[str, SettingsCheck] = OF_SETTINGS,
) -> Iterator[Finding]:
    """Every finding, as soon as it is there."""
    for title, check in checks.items():
        yield from _isolated(title, partial(check, subject))
    if subject.settings is not None:
        for title, settings_check in of_settings.items():
            yield from _isolated(title, partial(settings_check, subject, subject.settings))


def _isolated(title: str, check: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    try:
        yield from check()
    except Exception as error:
        # The doctor is called when things are broken: whatever a check stumbles over is what the person looks for.
        yield problem(
            title,
            f"This could not be looked at: {one_line(f'{type(error).__name__}: {error}')}",
            "If the reason is not plain, please report it with this line.",
        )
