"""`tinyagi pipeline report` on a home with a hand-written lake."""

import json
import stat
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner, Result

from tests.pipeline.test_report import conversation, day, hour_row
from tests.pipeline.test_report_page import HOSTILE, full
from tests.support.lakes import write_lake
from tinyagi.cli.context import Installation
from tinyagi.cli.error_boundary import ErrorBoundary
from tinyagi.cli.pipeline_data import report
from tinyagi.pipeline.report.model import Percentiles, Report
from tinyagi.pipeline.report.terminal import drawn

HOUR = 3_600_000
HEAVY = {"deltalake", "pyarrow", "plotly", "pandas", "numpy", "rich.table"}

WITHOUT_EXTRA = """
import sys
from pathlib import Path
import typer
from typer.testing import CliRunner

sys.modules["deltalake"] = None
from tinyagi.cli.context import Installation
from tinyagi.cli.error_boundary import ErrorBoundary
from tinyagi.cli.pipeline_data import report

app = typer.Typer(cls=ErrorBoundary)

@app.callback()
def tinyagi(ctx: typer.Context) -> None:
    ctx.obj = Installation(Path(sys.argv[1]))

app.command("report")(report)
result = CliRunner().invoke(app, ["report"])
print(result.exit_code, result.stderr)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def filled(home: Path) -> Path:
    """A home whose agents worked this hour."""
    now = time.time_ns() // 1_000_000
    hour = now // HOUR * HOUR
    write_lake(
        home / "lake",
        {
            "gold.agent_hourly": [hour_row("coder", hour, [10, 20], [1_000, 3_000], failures=1)],
            "gold.conversations": [conversation("cli_[red]", hour, 4_000, message=HOSTILE)],
            "gold.handoff_edges": [{"from_agent": "lead", "to_agent": "coder", "handoffs": 3, "date": day(hour)}],
            "gold.channel_daily": [{"channel": "cli", "messages": 4, "date": day(hour)}],
            "gold.dead_letters": [],
        },
        through_id=4_711,
    )
    return home


def typed(home: Path, *arguments: str) -> Result:
    app = typer.Typer(cls=ErrorBoundary)

    @app.callback()
    def tinyagi(ctx: typer.Context) -> None:
        ctx.obj = Installation(home)

    app.command("report")(report)
    return CliRunner().invoke(app, ["report", *arguments], env={"COLUMNS": "100"})


def printed(found: Report, width: int = 100) -> str:
    out = StringIO()
    console = Console(file=out, width=width, highlight=False)
    for part in drawn(found):
        console.print(part)
    return out.getvalue()


def test_the_terminal_shows_the_figures(filled: Path) -> None:
    result = typed(filled)

    assert result.exit_code == 0, result.output
    for expected in ("@coder", "up to event 4,711", "@lead → @coder", "cli_[red]", "2 s", "$0.50"):
        assert expected in result.stdout
    # There are no dead messages to list.
    assert "Dead letters" not in result.stdout


def test_json_output_is_only_json(filled: Path) -> None:
    result = typed(filled, "--json", "--days", "3")

    found: dict[str, Any] = json.loads(result.stdout)
    assert found["days"] == 3
    assert found["totals"]["runs"] == 2
    assert found["agents"][0]["run"] == {"p50": 2_000.0, "p95": 2_900.0, "p99": 2_980.0, "is_exact": True}
    assert found["freshness"]["through_id"] == 4_711
    assert len(found["daily"]) == 3


def test_only_the_owner_can_read_the_page(filled: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text("an older one")
    page.chmod(0o644)

    result = typed(filled, "--html", str(page))

    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == f"The report is in {page}"
    assert page.read_text().startswith("<!doctype html>")
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir() if one.is_file()] == ["report.html"]


def test_a_page_and_json_can_be_combined(filled: Path, tmp_path: Path) -> None:
    result = typed(filled, "--json", "--html", str(tmp_path / "report.html"))

    assert json.loads(result.stdout)["totals"]["runs"] == 2
    assert "The report is in" in result.stderr


def test_an_unwritable_page_is_reported_in_one_sentence(filled: Path, tmp_path: Path) -> None:
    result = typed(filled, "--html", str(tmp_path / "nowhere" / "report.html"))

    assert result.exit_code == 2
    assert "No such file or directory. Name another file." in result.stderr
    assert not (tmp_path / "nowhere").exists()


def test_a_home_without_a_lake_names_the_command_to_run(home: Path) -> None:
    result = typed(home)

    assert result.exit_code == 0
    assert "Fill it with `tinyagi pipeline run`." in result.stdout
    assert not home.exists()
    assert json.loads(typed(home, "--json").stdout)["freshness"] is None


def test_an_unreadable_lake_is_reported_in_one_sentence(filled: Path) -> None:
    (filled / "lake" / "manifest.json").write_text("{")

    result = typed(filled)

    assert result.exit_code == 1
    assert "manifest.json cannot be read" in result.stderr


@pytest.mark.parametrize("days", ["0", "-1", "soon"])
def test_days_must_be_a_positive_number(home: Path, days: str) -> None:
    assert typed(home, "--days", days).exit_code == 2


def test_the_report_fits_a_hundred_columns_and_escapes_markup() -> None:
    found = full("[bold red]x[/] [link=http://evil.example]y[/link]" * 4)
    slow = Percentiles(59_000_000.0, 59_000_000.0, 59_000_000.0)
    text = printed(replace(found, agents=(replace(found.agents[0], wait=slow, run=slow),)), width=200)

    assert max(len(line.rstrip()) for line in text.splitlines()) <= 100
    assert "[bold red]x[/]" in text
    assert "\x1b" not in text


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in printed(full("\x1b[2J\x1b]8;;http://evil.example\x07here"))


def test_sections_without_rows_are_left_out() -> None:
    now = int(datetime(2026, 3, 14, tzinfo=UTC).timestamp() * 1000)
    text = printed(Report(days=1, start=now, now=now, freshness=None, notes=("Nothing here [bold]yet[/].",)))

    assert text.splitlines() == ["Report  2026-03-14 (UTC)", "Nothing here [bold]yet[/]."]


def test_a_missing_extra_is_named_in_one_sentence(home: Path) -> None:
    output = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRA, home], capture_output=True, text=True, check=True
    ).stdout

    assert output.startswith("2 ")
    assert "The extra `pipeline` is missing (deltalake is not installed)." in output
    assert "pip install 'tinyagi[pipeline]'" in output


def test_the_command_loads_nothing_heavy_before_it_runs() -> None:
    program = "import sys, tinyagi.cli.pipeline_data; print(*sys.modules)"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert HEAVY.isdisjoint(output.split())
