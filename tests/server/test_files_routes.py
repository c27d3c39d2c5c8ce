"""Files over HTTP: what channels store for messages and fetch for answers."""

from collections.abc import AsyncIterator
from pathlib import Path

from tests.server.conftest import Premises

BYTES = {"content-type": "application/octet-stream"}


async def test_a_stored_file_can_be_sent_with_a_message_and_fetched(premises: Premises) -> None:
    stored = await premises.http.post("/api/files", params={"name": "a.txt"}, content=b"hello", headers=BYTES)
    path = stored.json()["path"]
    fetched = await premises.http.get("/api/files", params={"path": path})
    sent = await premises.http.post("/api/message", json={"message": "look", "agent": "coder", "files": [path]})

    assert stored.json()["size"] == 5
    assert Path(path).parent.parent == premises.home.files / "received"
    assert Path(path).stat().st_mode & 0o777 == 0o600
    assert (fetched.content, fetched.headers["content-type"]) == (b"hello", "application/octet-stream")
    assert sent.status_code == 200, sent.text


async def test_a_name_cannot_leave_the_folder(premises: Premises) -> None:
    for name in ("../../x.txt", "/etc/passwd", "..", ".", ".hidden", "a\\b", "x" * 255, "a\x00b", "ü" * 200 + ".png"):
        stored = await premises.http.post("/api/files", params={"name": name}, content=b"x", headers=BYTES)
        assert stored.status_code == 200, (name, stored.text)
        path = Path(stored.json()["path"])
        assert path.resolve().is_relative_to(premises.home.files.resolve())
        assert not path.name.startswith(".")


async def test_only_files_of_the_folder_can_be_fetched(premises: Premises, tmp_path: Path) -> None:
    outside = tmp_path / "secret.txt"
    outside.write_text("secret")
    (premises.home.files / "link.txt").symlink_to(outside)
    for path in (
        str(outside),
        "../settings.json",
        str(premises.home.settings_file),
        "link.txt",
        "",
        "\x00",
        "a" * 5000,
    ):
        answer = await premises.http.get("/api/files", params={"path": path})
        assert answer.status_code in {400, 404}, path
        assert "secret" not in answer.text


async def test_a_file_that_is_too_large_is_refused_and_leaves_nothing(premises: Premises) -> None:
    await premises.engine.settings.save({"responses": {"max_file_megabytes": 1}})
    answer = await premises.http.post("/api/files", params={"name": "big"}, content=b"x" * 1_000_001, headers=BYTES)

    assert answer.status_code == 413
    assert "responses.max_file_megabytes" in answer.json()["error"]
    assert not list(premises.home.files.rglob("*big*"))


async def test_an_upload_needs_its_type_and_length(premises: Premises) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"x"

    form = {"content-type": "text/plain"}
    as_text = await premises.http.post("/api/files", params={"name": "a"}, content=b"x", headers=form)
    without_length = await premises.http.post("/api/files", params={"name": "a"}, content=chunks(), headers=BYTES)

    assert (as_text.status_code, without_length.status_code) == (415, 411)
