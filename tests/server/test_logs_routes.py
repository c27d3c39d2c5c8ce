"""Log files and the audit log over HTTP."""

import json
from pathlib import Path

import pytest

from tests.server.conftest import Premises
from tinyagi.log_reader import BLOCK, MOST_BYTES, last_lines


def line(second: int, text: str) -> str:
    return json.dumps({"time": f"2030-01-01T00:00:{second:02}.000Z", "level": "info", "text": text})


def write(path: Path, *lines: str) -> None:
    path.write_text("".join(f"{one}\n" for one in lines), encoding="utf-8")


async def texts(premises: Premises, **query: str | int) -> list[str]:
    answer = await premises.http.get("/api/logs", params={"format": "json", **query})
    assert answer.status_code == 200
    return [json.loads(one)["text"] for one in answer.json()["lines"]]


async def test_lines_are_readable_text_unless_json_is_requested(premises: Premises) -> None:
    broken = {"time": "2030-01-01T00:00:02.000Z", "level": "ERROR", "text": "lane broke off", "trace": "a\nKeyError: 1"}
    write(premises.home.logs / "queue.log", line(1, "two\nlines"), json.dumps(broken), "no JSON \x1b at all", "7")

    lines = (await premises.http.get("/api/logs")).json()["lines"]

    assert lines == [
        "[2030-01-01T00:00:01.000Z] [INFO] two lines",
        "[2030-01-01T00:00:02.000Z] [ERROR] lane broke off (KeyError: 1)",
        "no JSON at all",
        "7",
    ]
    assert (await premises.http.get("/api/logs?format=xml")).status_code == 400


async def test_the_last_lines_of_one_log_are_read(premises: Premises) -> None:
    write(premises.home.logs / "queue.log", *(line(second, str(second)) for second in range(5)))
    write(premises.home.logs / "daemon.log", line(9, "up"))

    assert await texts(premises, source="queue", limit=2) == ["3", "4"]
    assert await texts(premises, source="daemon") == ["up"]


async def test_all_logs_are_merged_by_time(premises: Premises) -> None:
    write(premises.home.logs / "queue.log", line(1, "a"), line(4, "d"))
    write(premises.home.logs / "daemon.log", line(2, "b"))
    write(premises.home.logs / "telegram.log", line(3, "c"))

    assert await texts(premises) == ["a", "b", "c", "d"]
    assert await texts(premises, source="all", limit=2) == ["c", "d"]


async def test_a_line_without_a_time_stays_behind_its_predecessor(premises: Premises) -> None:
    write(premises.home.logs / "queue.log", line(1, "a"), "no JSON at all", line(4, "d"))
    write(premises.home.logs / "daemon.log", line(2, "b"))

    lines = (await premises.http.get("/api/logs?format=json")).json()["lines"]

    assert lines == [line(1, "a"), "no JSON at all", line(2, "b"), line(4, "d")]


async def test_a_rotated_log_is_read_across_both_files(premises: Premises) -> None:
    write(premises.home.logs / "queue.log.1", line(1, "a"), line(2, "b"))
    write(premises.home.logs / "queue.log", line(3, "c"))

    assert await texts(premises, source="queue", limit=2) == ["b", "c"]


async def test_a_home_without_logs_gives_no_lines(premises: Premises) -> None:
    assert (await premises.http.get("/api/logs")).json() == {"lines": []}


async def test_an_unknown_log_is_not_found(premises: Premises) -> None:
    write(premises.home.logs / "daemon.log", line(1, "up"))

    answer = await premises.http.get("/api/logs", params={"source": "telegram"})

    assert answer.status_code == 404
    assert "daemon" in answer.json()["error"]


async def test_a_symbolic_link_is_not_read_as_a_log(premises: Premises) -> None:
    secret = premises.folder / "secret"
    write(secret, "a key")
    (premises.home.logs / "evil.log").symlink_to(secret)
    write(premises.home.logs / "queue.log", line(1, "a"))
    (premises.home.logs / "queue.log.1").symlink_to(secret)

    assert (await premises.http.get("/api/logs", params={"source": "evil"})).status_code == 404
    assert await texts(premises) == ["a"]


@pytest.mark.parametrize("query", ["source=../settings", "source=", "source=Queue", "limit=0", "limit=1001", "limit=x"])
async def test_malformed_queries_are_refused(premises: Premises, query: str) -> None:
    assert (await premises.http.get(f"/api/logs?{query}")).status_code == 400


@pytest.mark.parametrize("limit", [1, 7, 1_000])
def test_lines_that_cross_blocks_are_read_whole(tmp_path: Path, limit: int) -> None:
    lines = [f"{number} {'x' * (number % 700)}" for number in range(2_000)]
    path = tmp_path / "a.log"
    write(path, *lines)
    assert path.stat().st_size > 3 * BLOCK

    assert last_lines(path, limit) == lines[-limit:]


def test_a_file_is_read_from_its_end_only(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with path.open("wb") as file:
        file.truncate(1 << 40)
        file.seek(0, 2)
        file.write(b"\nlast\n")

    assert last_lines(path, 1) == ["last"]


def test_an_endless_line_does_not_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with path.open("wb") as file:
        file.write(b"x" * (MOST_BYTES + 2 * BLOCK) + b"\nlast\n")

    assert last_lines(path, 10) == ["last"]


def test_invalid_utf8_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"abc\xe9\nlast without its end")

    assert last_lines(tmp_path / "a.log", 10) == ["abc�", "last without its end"]


async def test_the_audit_log_is_paged_newest_first(premises: Premises) -> None:
    for agent in ("coder", "writer", "tester"):
        await premises.store.audit.record("ada", "pause_lane", agent, "for lunch")

    entries = (await premises.http.get("/api/audit", params={"limit": 2})).json()
    assert [entry["target"] for entry in entries] == ["tester", "writer"]
    assert entries[0].keys() == {"id", "at", "who", "action", "target", "detail"}
    assert (entries[0]["who"], entries[0]["action"], entries[0]["detail"]) == ("ada", "pause_lane", "for lunch")

    rest = (await premises.http.get("/api/audit", params={"before": entries[1]["id"]})).json()
    assert [entry["target"] for entry in rest] == ["coder"]


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "before=0", f"before={2**63}", "before=x"])
async def test_malformed_queries_of_the_audit_log_are_refused(premises: Premises, query: str) -> None:
    assert (await premises.http.get(f"/api/audit?{query}")).status_code == 400
