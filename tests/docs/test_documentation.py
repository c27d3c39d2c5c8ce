"""The reference pages agree with the code, and links have targets."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from tinyagi.domain.events import EVENT_TYPES, Event
from tinyagi.store import archive, audit, board, event_log, lanes, pairing, queue, responses, schedules, sessions

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])


@pytest.mark.parametrize("event", EVENT_TYPES.values(), ids=lambda event: event.type)
def test_every_event_is_documented_with_its_payload(event: type[Event]) -> None:
    page = (DOCS / "reference/events.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith(f"| `{event.type}` |"))

    payload = re.findall(r"`(\w+)`", row.split("|")[3])

    assert payload == [field.name for field in fields(event)]  # type: ignore[arg-type]


def test_every_documented_event_exists() -> None:
    page = (DOCS / "reference/events.md").read_text()

    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == set(EVENT_TYPES)


@pytest.mark.parametrize(
    "port",
    [
        *(
            queue.MessageQueue,
            lanes.Lanes,
            responses.ResponseStore,
            archive.History,
            sessions.SessionStore,
            sessions.SpendStore,
            event_log.EventLog,
        ),
        *(board.BoardStore, schedules.ScheduleStore, pairing.PairingStore, audit.AuditLog, archive.Traces),
        *(archive.Archive, archive.Recall),
    ],
    ids=lambda port: port.__name__,
)
def test_every_call_of_a_port_is_documented(port: type) -> None:
    page = (DOCS / "reference/store.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith(f"| `{port.__name__}` |"))
    calls = {name for name in vars(port) if not name.startswith("_")}

    assert set(re.findall(r"`(\w+)`", row.split("|")[2])) == calls


def test_every_table_is_documented() -> None:
    schema = "".join(file.read_text() for file in (ROOT / "src/tinyagi/store/sql/migrations").glob("*.sql"))
    page = (DOCS / "reference/tables.md").read_text()

    for table in re.findall(r"^CREATE (?:TABLE|VIEW) (\w+)", schema, re.MULTILINE):
        assert f"`{table}`" in page, table


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_has_a_target(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_decision_is_listed() -> None:
    index = (DOCS / "decisions/README.md").read_text()

    for page in (DOCS / "decisions").glob("0*.md"):
        assert f"({page.name})" in index


def test_every_make_target_of_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    for page in PAGES:
        assert set(re.findall(r"`?make ([a-z0-9-]+)`?(?=[\s`]+(?:#|$|\n|`))", page.read_text())) <= targets, page


def test_no_module_is_longer_than_four_hundred_lines() -> None:
    for folder in ("src", "tests", "bench"):
        for file in (ROOT / folder).rglob("*.py"):
            assert len(file.read_text().splitlines()) <= 400, file
