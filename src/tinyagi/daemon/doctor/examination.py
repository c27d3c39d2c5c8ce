"""Runs all checks of the doctor in order. An exception in a check becomes a finding; the next check still runs."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from tinyagi.daemon.doctor import agents, installation, server
from tinyagi.daemon.doctor.findings import Check, CheckContext, Finding, SettingsCheck, problem
from tinyagi.domain.texts import one_line
from tinyagi.settings.errors import SettingsError
from tinyagi.settings.home import Home
from tinyagi.settings.model import Settings
from tinyagi.settings.settings_file import SettingsFile

CHECKS: Final[Mapping[str, Check]] = {
    "Python": installation.python,
    "Time zones": installation.time_zones,
    "Disk": installation.disk,
    "Home": installation.home,
    "Settings": installation.settings,
    "File modes": installation.file_modes,
    "Earlier version": installation.old_home,
    "Database": installation.database,
    "Backup": installation.backups,
}
SETTINGS_CHECKS: Final[Mapping[str, SettingsCheck]] = {
    "Access": server.access,
    "Daemon": server.daemon,
    "Channel": server.channels,
    "Pipeline": server.pipeline,
    "Agents": agents.agents,
    "Plugins": agents.plugins,
    "Skills": agents.skills,
}
"""Skipped while the settings are invalid."""


def load_context(home: Home, environment: Mapping[str, str]) -> CheckContext:
    try:
        loaded = SettingsFile(home).read()
    except SettingsError:
        return CheckContext(home, environment, None)
    return CheckContext(home, environment, Settings() if loaded is None else loaded.settings)


def run_checks(
    context: CheckContext,
    checks: Mapping[str, Check] = CHECKS,
    settings_checks: Mapping[str, SettingsCheck] = SETTINGS_CHECKS,
) -> Iterator[Finding]:
    """Yield each finding as soon as its check has it."""
    for title, check in checks.items():
        yield from _isolated(title, partial(check, context))
    if context.settings is not None:
        for title, settings_check in settings_checks.items():
            yield from _isolated(title, partial(settings_check, context, context.settings))


def _isolated(title: str, check: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    try:
        yield from check()
    except Exception as error:
        # The doctor runs on broken installations: the exception may be what the person is looking for.
        yield problem(
            title,
            f"This check failed: {one_line(f'{type(error).__name__}: {error}')}",
            "If the reason is not clear, please report this line.",
        )
