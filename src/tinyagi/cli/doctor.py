"""`tinyagi doctor`: what is wrong with this installation, and what to do about it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tinyagi.cli.options import Json
from tinyagi.cli.run import HomeOption

if TYPE_CHECKING:
    # Types only: `tinyagi --help` is instant because nothing of this is imported before a command needs it.
    from tinyagi.daemon.doctor.findings import Finding

_MARKS: Final = {"ok": ("✓", "green"), "hint": ("i", "cyan"), "warning": ("!", "yellow"), "problem": ("✗", "red")}


def doctor(
    context: typer.Context,
    home: HomeOption = None,
    as_json: Json = False,
    brief: Annotated[bool, typer.Option("--brief", help="Leave out what is well.")] = False,
) -> None:
    """Look at the whole installation and say what to do about each finding; exit code 1 when there is a problem."""
    from tinyagi.cli.context import Place, place_of  # noqa: PLC0415 - see above
    from tinyagi.cli.screen import console, print_json, say  # noqa: PLC0415
    from tinyagi.daemon.doctor.examination import examine, subject_of  # noqa: PLC0415
    from tinyagi.daemon.doctor.findings import Level  # noqa: PLC0415
    from tinyagi.daemon.redaction import Redactor  # noqa: PLC0415
    from tinyagi.settings.environment import snapshot  # noqa: PLC0415

    place, environment = (place_of(context) if home is None else Place(home)).home, snapshot()
    redact = Redactor(place, environment)
    with console(err=True).status("looking at everything"):
        found = [_redacted(finding, redact) for finding in examine(subject_of(place, environment))]
    counts = {level: sum(finding.level is level for finding in found) for level in Level}
    if as_json:
        print_json({"ok": not counts[Level.PROBLEM], "findings": found})
    else:
        for finding in found:
            if not (brief and finding.level is Level.OK):
                _show(finding)
        say("\n" + ", ".join(f"{count} {level}" for level, count in counts.items() if count))
    raise typer.Exit(1 if counts[Level.PROBLEM] else 0)


def _redacted(finding: "Finding", redact: "Callable[[str], str]") -> "Finding":
    from dataclasses import replace  # noqa: PLC0415

    return replace(finding, found=redact(finding.found), remedy=redact(finding.remedy))


def _show(finding: "Finding") -> None:
    from tinyagi.cli.screen import readable  # noqa: PLC0415

    mark, color = _MARKS[finding.level]
    typer.echo(f"{typer.style(mark, fg=color)} {typer.style(finding.title, bold=True)}: {readable(finding.found)}")
    if finding.remedy:
        typer.echo(f"    → {readable(finding.remedy)}")
