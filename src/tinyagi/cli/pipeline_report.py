"""`tinyagi pipeline report`: the last days in figures, in the terminal, as JSON or as a page of its own."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tinyagi.cli.context import place_of
from tinyagi.cli.edge import WrongCall
from tinyagi.cli.options import Json, examples
from tinyagi.cli.screen import note, print_json, say, show

if TYPE_CHECKING:
    # Types only: `tinyagi --help` is instant because nothing of this is imported before a command needs it.
    from tinyagi.pipeline.report.model import Report

REPORT_EXAMPLES: Final = examples(
    "tinyagi pipeline report", "tinyagi pipeline report --days 30 --html report.html", "tinyagi pipeline report --json"
)
_EXTRA: Final = frozenset({"deltalake", "pyarrow", "plotly"})


def report(
    ctx: typer.Context,
    days: Annotated[int, typer.Option("--days", "-d", min=1, max=3660, help="How far back, today included.")] = 7,
    html: Annotated[
        Path | None, typer.Option("--html", dir_okay=False, help="Write a page with charts to this file instead.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what the agents did in the last days: runs, waits, costs, hand-offs, deaths.

    It is read from the lake, as the last `tinyagi pipeline run` left it. Days are those of UTC.
    """
    try:
        found = _read(ctx, days)
        if html is not None:
            _write_page(html, found)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        raise WrongCall(
            f"The extra `pipeline` is missing ({error.name} is not installed). Run: pip install 'tinyagi[pipeline]'"
        ) from error
    if as_json:
        print_json(found)
    if html is not None:
        # With --json, nothing but JSON goes to stdout.
        (note if as_json else say)(f"The report is in {html.absolute()}")
        for one in found.notes:
            note(one)
    elif not as_json:
        _show(found)


def _read(ctx: typer.Context, days: int) -> "Report":
    from tinyagi.pipeline.lake import Lake  # noqa: PLC0415 - see above
    from tinyagi.pipeline.report.figures import read_report  # noqa: PLC0415

    return read_report(Lake(place_of(ctx).home.lake), days=days, now=time.time_ns() // 1_000_000)


def _write_page(path: Path, found: "Report") -> None:
    from tinyagi.pipeline.report.page import render_page  # noqa: PLC0415 - see above
    from tinyagi.system.files import put_in_place, write_aside  # noqa: PLC0415

    page = render_page(found).encode()
    try:
        aside = write_aside(path, page)
        try:
            put_in_place(aside, path)
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        raise WrongCall(f"The page cannot be written to {path}: {error.strerror}. Name another file.") from error


def _show(found: "Report") -> None:
    from tinyagi.pipeline.report.terminal import drawn  # noqa: PLC0415 - see above

    for part in drawn(found):
        show(part)
