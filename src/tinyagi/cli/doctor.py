"""`tinyagi doctor`: prints the findings about this installation with their remedies."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tinyagi.cli.options import HomeOption, Json

if TYPE_CHECKING:
    from tinyagi.daemon.doctor.findings import Finding

_MARKS: Final = {"ok": ("✓", "green"), "hint": ("i", "cyan"), "warning": ("!", "yellow"), "problem": ("✗", "red")}


def doctor(
    context: typer.Context,
    home: HomeOption = None,
    as_json: Json = False,
    brief: Annotated[bool, typer.Option("--brief", help="Leave out checks that passed.")] = False,
) -> None:
    """Check the whole installation and suggest a remedy for each finding; exit code 1 when there is a problem."""
    from tinyagi.cli.context import Installation, installation
    from tinyagi.cli.terminal import console, print_json, say
    from tinyagi.daemon.doctor.examination import load_context, run_checks
    from tinyagi.daemon.doctor.findings import Level
    from tinyagi.daemon.redaction import Redactor
    from tinyagi.settings.environment import snapshot

    place, environment = (installation(context) if home is None else Installation(home)).home, snapshot()
    redact = Redactor(place, environment)
    with console(err=True).status("checking the installation"):
        found = [_redacted(finding, redact) for finding in run_checks(load_context(place, environment))]
    counts = {level: sum(finding.level is level for finding in found) for level in Level}
    if as_json:
        print_json({"ok": not counts[Level.PROBLEM], "findings": found})
    else:
        for finding in found:
            if not (brief and finding.level is Level.OK):
                _show(finding)
        say("\n" + ", ".join(_total(level, count) for level, count in counts.items() if count))
    raise typer.Exit(1 if counts[Level.PROBLEM] else 0)


def _total(level: str, count: int) -> str:
    from tinyagi.domain.texts import counted

    return f"{count} ok" if level == "ok" else counted(count, level)


def _redacted(finding: "Finding", redact: "Callable[[str], str]") -> "Finding":
    from dataclasses import replace

    return replace(finding, found=redact(finding.found), remedy=redact(finding.remedy))


def _show(finding: "Finding") -> None:
    from tinyagi.cli.terminal import readable, say

    mark, color = _MARKS[finding.level]
    head = f"{typer.style(mark, fg=color)} {typer.style(finding.title, bold=True)}"
    typer.echo(f"{head}: {readable(finding.found)}", file=sys.stdout)
    if finding.remedy:
        say(f"    → {finding.remedy}")
